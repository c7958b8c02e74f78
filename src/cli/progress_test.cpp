#include "cli/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ei::cli {
namespace {

TEST(Bar, IsNeverAsWideAsTheTerminal) {
  for (int64_t columns = 1; columns < 200; ++columns) {
    for (const int64_t done : {0, 1, 500, 999, 1000}) {
      const std::string bar = bar_text("reading the prompt", {done, 1000, 61.5, 3000}, columns);
      EXPECT_LT(static_cast<int64_t>(bar.size()), columns) << bar;
    }
  }
}

TEST(Bar, LeavesOutTheRateBeforeItself) {
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 200), "x [################................]  50%, 1 tokens/s, about 1 s left");
  EXPECT_NE(bar_text("x", {1, 2, 1, 33}, 200).find("about 35 s left"), std::string::npos);
  EXPECT_NE(bar_text("x", {1, 2, 1, 170}, 200).find("about 3 min left"), std::string::npos);
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 30), "x [##########..........]  50%");
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 12), "x  50%");
}

// A prompt of full attention behind `cached` tokens, in chunks of 512 whose times scatter by `noise` either way.
class Prompt {
 public:
  Prompt(double token_s, double pair_s, int64_t cached, double noise)
      : token_s_(token_s), pair_s_(pair_s), cached_(static_cast<double>(cached)), noise_(-noise, noise) {}

  PrefillProgress next(int64_t total) {
    const auto count = static_cast<double>(std::min<int64_t>(512, total - state_.done));
    const double pairs = count * (cached_ + static_cast<double>(state_.done) + count / 2);
    const double attention_s = pairs * pair_s_ * (1 + noise_(random_));
    state_.done += static_cast<int64_t>(count);
    state_.total = total;
    state_.pairs += pairs;
    state_.attention_s += attention_s;
    state_.elapsed_s += attention_s + count * token_s_ * (1 + noise_(random_));
    return state_;
  }

  double truly_left() const {
    const auto left = static_cast<double>(state_.total - state_.done);
    return left * token_s_ + pair_s_ * left * (cached_ + static_cast<double>(state_.done) + left / 2);
  }

 private:
  double token_s_;
  double pair_s_;
  double cached_;
  std::uniform_real_distribution<double> noise_;
  std::mt19937 random_{7};
  PrefillProgress state_;
};

TEST(PromptClock, KnowsThatAttentionGrows) {
  for (const int64_t cached : {0, 5000}) {
    Prompt prompt(1e-4, 4e-8, cached, 0);
    PromptClock clock;
    for (int64_t chunk = 1; chunk < 64; ++chunk) {
      const double left = clock.left_s(prompt.next(32768));
      if (chunk == 1 && cached > 0) continue;  // one chunk does not tell how much was there before
      EXPECT_NEAR(left, prompt.truly_left(), 1e-6) << cached << " " << chunk;
    }
  }
}

// From a tenth of a prompt on the time left is known within a quarter, on a machine whose chunks scatter by a tenth.
TEST(PromptClock, IsWithinAQuarterFromATenthOn) {
  for (const double share :
       {0.0, 0.1, 0.5, 2.0, 10.0}) {  // attention's part of the time, at 8192 tokens, to the rest's
    for (const int64_t total : {16384, 32768, 131072}) {
      for (const double noise : {0.0, 0.03, 0.1}) {
        Prompt prompt(2e-4, 2 * 2e-4 * share / 8192, 0, noise);
        PromptClock clock;
        for (int64_t done = 512; done < total; done += 512) {
          const double left = clock.left_s(prompt.next(total));
          if (done < total / 10) continue;
          EXPECT_NEAR(left, prompt.truly_left(), 0.25 * prompt.truly_left())
              << share << " " << total << " " << done << " " << noise;
        }
      }
    }
  }
}

TEST(PromptClock, CountsDownWithinAChunk) {
  Prompt prompt(1e-4, 4e-8, 0, 0);
  PromptClock clock;
  EXPECT_NEAR(clock.left_s({.done = 128, .total = 32768, .elapsed_s = 1.0}), 255.0, 1e-9);  // nothing better is known
  PrefillProgress state = prompt.next(32768);
  const double left = clock.left_s(state);
  state.done += 100;
  state.elapsed_s += 0.25;
  EXPECT_NEAR(clock.left_s(state), left - 0.25, 1e-9);
}

TEST(PromptClock, DividesALinearTimeEvenlyAndBeginsAnew) {
  PromptClock clock;  // of a backend that does not time attention by itself
  for (int round = 0; round < 2; ++round) {
    for (int64_t done = 100; done <= 1000; done += 100) {
      const auto tokens = static_cast<double>(done);
      EXPECT_NEAR(clock.left_s({.done = done, .total = 1000, .elapsed_s = 0.01 * tokens, .pairs = tokens * tokens / 2}),
                  0.01 * (1000 - tokens), 1e-9);
    }
  }
}

TEST(RoundsClock, GoesByTheRoundsThatAreOver) {
  RoundsClock clock;
  EXPECT_NEAR(clock.left_s(50, 400, 100, 1.0), 7.0, 1e-9);  // nothing better is known
  EXPECT_NEAR(clock.left_s(100, 400, 100, 4.0), 12.0, 1e-9);
  EXPECT_NEAR(clock.left_s(150, 400, 100, 5.0), 11.0, 1e-9);  // a second round that begins quickly ends as late
  EXPECT_NEAR(clock.left_s(200, 400, 100, 10.0), 10.0, 1e-9);
  EXPECT_NEAR(clock.left_s(400, 400, 100, 20.0), 0.0, 1e-9);
}

}  // namespace
}  // namespace ei::cli
