#include "server/scheduler/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace ei::server {
namespace {

constexpr double kTarget = 0.12;

struct Read {
  double seconds = 0;
  double longest = 0;  // chunk, behind the first one
  int64_t shortest = 1 << 20;
};

// A prompt read by a clock of its own: what a chunk of so many tokens takes behind so many others.
Read read(int64_t tokens, bool shared, const std::function<double(int64_t rows, int64_t depth)>& cost) {
  Pace pace;
  Read all;
  for (int64_t depth = 0; depth < tokens;) {
    const int64_t rows = std::min(pace.rows(kTarget, shared), tokens - depth);
    const double took = cost(rows, depth);
    pace.took(rows, took);
    all.seconds += took;
    if (depth > 0) all.longest = std::max(all.longest, took);
    if (depth + rows < tokens) all.shortest = std::min(all.shortest, rows);
    depth += rows;
  }
  return all;
}

// As the embedded model on two slow cores: a token takes 0.3 ms, and 7 more behind 100 000 others.
double dense(int64_t rows, int64_t depth) {
  return static_cast<double>(rows) * (3e-4 + 7e-8 * static_cast<double>(depth));
}

TEST(Pace, BesideOthersAChunkTakesNoLongerDeepInAPrompt) {
  const Read shared = read(100000, true, dense);
  EXPECT_LT(shared.longest, 1.1 * kTarget);
  EXPECT_EQ(shared.shortest, Pace::kLeast);
}

TEST(Pace, AloneChunksStayLong) { EXPECT_EQ(read(100000, false, dense).shortest, Pace::kTogether); }

// A chunk costs something whatever its length: shorter ones must not make themselves shorter still.
TEST(Pace, CostsOfAChunkMakeNoChunkShorterThanItsTimeAsks) {
  const auto cost = [](int64_t rows, int64_t depth) { return 0.02 + dense(rows, depth); };
  const Read shared = read(20000, true, cost);
  EXPECT_LT(shared.longest, 1.1 * kTarget);
  // A fifth of every chunk, and what is lost by cutting in multiples.
  EXPECT_LT(shared.seconds, 1.5 * read(20000, true, dense).seconds);
}

TEST(Pace, OneSlowChunkIsNotBelieved) {
  Pace pace;
  pace.took(1000, 0.1);
  const int64_t before = pace.rows(kTarget, true);
  pace.took(before, 10);
  EXPECT_GT(pace.rows(kTarget, true), before * 9 / 10 - Pace::kTogether);
  pace.took(0, 1);  // nothing was read: nothing is known by it
  EXPECT_GT(pace.rows(kTarget, true), before * 9 / 10 - Pace::kTogether);
}

TEST(Pace, WithoutOneTheFirstChunkIsOfAFixedLength) {
  EXPECT_FALSE(Pace().known());
  EXPECT_EQ(Pace().rows(kTarget, true), Pace::kFirst);
}

}  // namespace
}  // namespace ei::server
