// As many threads as there are cores left, by what they ran.
#include "base/spare_cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ei {
namespace {

// Runs pieces of `piece_s` seconds of work for `seconds` on a machine that leaves us `cores` cores: threads beyond
// them share, and every piece waits for the slowest.
std::vector<int> spare_run(SpareCores& spare, double& now, double cores, double piece_s, double seconds) {
  std::vector<int> taken;
  static double cpu = 0;
  for (const double end = now + seconds; now < end;) {
    const int threads = spare.begin(now, cpu);
    taken.push_back(threads);
    const bool crowded = threads > cores;
    const double wall = crowded ? 10 * piece_s / threads : piece_s / threads;
    now += wall;
    cpu += wall * std::min<double>(threads, cores);
    spare.end(now, cpu);
  }
  return taken;
}

int64_t count_of(const std::vector<int>& taken, int threads) { return std::count(taken.begin(), taken.end(), threads); }

TEST(SpareCores, AreAllOnAQuietMachine) {
  SpareCores spare(2);
  double now = 5;
  const std::vector<int> taken = spare_run(spare, now, 1.9, 0.02, 3);
  EXPECT_EQ(count_of(taken, 2), static_cast<int64_t>(taken.size()));
}

TEST(SpareCores, AreTakenWhenOthersHaveTheRest) {
  SpareCores two(2);
  double now = 5;
  // Work that takes 0.2 s alone: the other program has a core, and after the first look this one leaves it to it.
  const std::vector<int> short_prompt = spare_run(two, now, 1, 0.02, 0.4);
  EXPECT_LE(count_of(short_prompt, 2), 1);
  EXPECT_GE(count_of(short_prompt, 1), 10);
  SpareCores many(64);
  const std::vector<int> taken = spare_run(many, now, 44, 0.5, 3);
  EXPECT_GT(count_of(taken, 44), 10 * count_of(taken, 64));
}

TEST(SpareCores, LookAgainAndTakeAllWhenTheOthersHaveGone) {
  SpareCores spare(4);
  double now = 5;
  EXPECT_GT(count_of(spare_run(spare, now, 1, 0.02, 1), 1), 0);
  spare_run(spare, now, 4, 0.02, 2);
  const std::vector<int> later = spare_run(spare, now, 4, 0.02, 1);
  EXPECT_EQ(count_of(later, 4), static_cast<int64_t>(later.size()));
}

TEST(SpareCores, ALookThatTookLongIsNotTakenAgainSoon) {
  SpareCores spare(2);
  double now = 5;
  const std::vector<int> taken = spare_run(spare, now, 1, 0.8, 60);  // beside others 4 s a piece
  EXPECT_LE(count_of(taken, 2), 3);
  EXPECT_GE(count_of(taken, 1), 50);
}

TEST(SpareCores, PausesAreNotTakenForOthers) {
  SpareCores spare(2);
  double now = 5;
  double cpu = 0;
  for (int prompt = 0; prompt < 20; ++prompt, now += 30) {  // one short piece, then somebody thinks
    EXPECT_EQ(spare.begin(now, cpu), 2);
    now += 0.02;
    cpu += 0.04;
    spare.end(now, cpu);
  }
}

TEST(SpareCores, AreLeftToOthersFromTheFirstPieceWhereTheSystemCountsThem) {
  SpareCores spare(2);
  double now = 5;
  spare.expect(now, 1);
  EXPECT_EQ(spare.left(now), 1);
  const std::vector<int> short_prompt = spare_run(spare, now, 1, 0.02, 0.2);
  EXPECT_EQ(count_of(short_prompt, 1), static_cast<int64_t>(short_prompt.size()));
  spare.expect(now, 2);
  EXPECT_EQ(spare.left(now), 1) << "what holds is not ended by another guess";
  for (now += 0.1; spare.guess_ended(now); now += 0.26) spare.expect(now, 1);
  EXPECT_NEAR(now, 7.2, 0.3) << "asked again for two seconds, then tried";
  EXPECT_EQ(spare_run(spare, now, 1, 0.02, 0.01), std::vector<int>{2});
}

TEST(SpareCores, AWrongGuessCostsAMomentAndIsNotMadeAgainSoon) {
  SpareCores spare(2);
  double now = 5;
  spare.expect(now, 0);
  spare_run(spare, now, 2, 0.02, 0.5);
  spare.expect(now, 0);
  const std::vector<int> later = spare_run(spare, now, 2, 0.02, 0.5);
  EXPECT_EQ(count_of(later, 2), static_cast<int64_t>(later.size()));
  now += 70;
  spare.expect(now, 0);
  EXPECT_EQ(spare.left(now), 1);
}

TEST(SpareCores, OfOneThreadAreOne) {
  SpareCores spare(1);
  double now = 5;
  const std::vector<int> taken = spare_run(spare, now, 0.3, 0.02, 1);
  EXPECT_EQ(count_of(taken, 1), static_cast<int64_t>(taken.size()));
}

}  // namespace
}  // namespace ei
