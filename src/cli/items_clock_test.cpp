#include "cli/items_clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace ei::cli {
namespace {

struct Task {
  int64_t length;
  int64_t readings;
  int64_t answers;
};

// An evaluation on a machine whose times are known.
class TimedEvaluation {
 public:
  // Seconds of a token that is read, of a pair of tokens, and of an answer behind a prompt of no tokens.
  TimedEvaluation(std::vector<Task> tasks, double token_s, double pair_s, double answer_s)
      : tasks_(std::move(tasks)), token_s_(token_s), pair_s_(pair_s), answer_s_(answer_s) {
    for (const Task& task : tasks_) {
      clock_.expect(task.length, task.readings, task.answers);
      left_s_ += static_cast<double>(task.readings) * read_s(task.length) + answers_s(task);
    }
  }

  // Calls `look(clock, seconds that are truly left, items that are over)` wherever an evaluation shows its progress.
  template <typename Look>
  void go(const Look& look) {
    for (size_t over = 0; over < tasks_.size(); ++over) {
      const Task& task = tasks_[over];
      clock_.begin(task.length, task.readings, task.answers, now_s_);
      for (int64_t reading = 0; reading < task.readings; ++reading) {
        for (int64_t done = 0; done <= task.length; done += task.length / 4) {
          if (done > 0) pass(read_s(done) - read_s(done - task.length / 4));
          clock_.read(done, now_s_);
          look(clock_, left_s_, over);
        }
        pass(answers_s(task) / static_cast<double>(task.readings));
      }
      clock_.end(now_s_);
    }
    look(clock_, left_s_, tasks_.size());
  }

 private:
  double read_s(int64_t length) const {
    const auto size = static_cast<double>(length);
    return token_s_ * size + pair_s_ * size * size;
  }
  double answers_s(const Task& task) const {
    return answer_s_ * static_cast<double>(task.answers) * (1 + static_cast<double>(task.length) / 8192);
  }
  void pass(double seconds) {
    now_s_ += seconds;
    left_s_ -= seconds;
  }

  std::vector<Task> tasks_;
  double token_s_;
  double pair_s_;
  double answer_s_;
  ItemsClock clock_;
  double now_s_ = 1000;
  double left_s_ = 0;
};

std::vector<Task> repeated(const std::vector<Task>& tasks, int times) {
  std::vector<Task> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), tasks.begin(), tasks.end());
  return all;
}

TEST(ItemsClock, CountsReadingsAndAnswersApart) {
  // Answers that take nothing, as long as the reading, and far longer; the first items lack one method of seven, as
  // where a method was added to results that are there.
  for (const double answer_s : {0.0, 0.5, 20.0}) {
    std::vector<Task> tasks = repeated({{4096, 1, 1}, {32768, 1, 1}}, 3);
    for (const Task& task : repeated({{4096, 2, 7}, {32768, 3, 7}, {131072, 1, 2}}, 3)) tasks.push_back(task);
    TimedEvaluation evaluation(tasks, 1e-4, 1e-4 / 16384, answer_s);
    evaluation.go([&](const ItemsClock& clock, double truly_left_s, size_t over) {
      if (over == 0) return;
      EXPECT_NEAR(clock.left_s(), truly_left_s, 1e-6 * (1 + truly_left_s)) << answer_s << " " << over;
    });
  }
}

TEST(ItemsClock, TakesAnswersForNothingBeforeTheFirstAreOver) {
  TimedEvaluation evaluation({{8192, 1, 4}, {8192, 1, 4}}, 1e-4, 1e-4 / 16384, 10);
  evaluation.go([&](const ItemsClock& clock, double truly_left_s, size_t over) {
    if (over == 0) {
      EXPECT_LT(clock.left_s(), truly_left_s - 79);
    } else {
      EXPECT_NEAR(clock.left_s(), truly_left_s, 1e-6);
    }
  });
}

// Attention is cheaper or dearer than the clock takes it for, from a linear time to one that is all pairs.
TEST(ItemsClock, IsWithinAQuarterFromAThirdOnWhateverAttentionCosts) {
  const std::vector<Task> round = {{4096, 2, 3}, {16384, 2, 3}, {32768, 2, 3}};
  for (const double share : {0.0, 0.3, 3.0, 100.0}) {
    TimedEvaluation evaluation(repeated(round, 10), 1e-4, share * 1e-4 / 16384, 0.3);
    evaluation.go([&](const ItemsClock& clock, double truly_left_s, size_t over) {
      if (over < 10 || over >= 27) return;
      EXPECT_NEAR(clock.left_s(), truly_left_s, 0.25 * truly_left_s) << share << " " << over;
    });
  }
}

TEST(ItemsClock, EndsWithNothingLeftAndAllTokensRead) {
  TimedEvaluation evaluation({{4096, 2, 3}, {1024, 1, 1}}, 1e-4, 1e-8, 1);
  evaluation.go([&](const ItemsClock& clock, double, size_t over) {
    EXPECT_EQ(clock.tokens_expected(), 9216);
    EXPECT_LE(clock.tokens_read(), clock.tokens_expected());
    if (over < 2) return;
    EXPECT_EQ(clock.tokens_read(), 9216);
    EXPECT_NEAR(clock.left_s(), 0, 1e-9);
  });
}

TEST(ItemsClock, KnowsNothingBeforeAnythingWasRead) {
  ItemsClock clock;
  clock.expect(4096, 1, 1);
  clock.begin(4096, 1, 1, 5.0);
  clock.read(0, 5.0);
  EXPECT_EQ(clock.left_s(), 0);
  EXPECT_EQ(clock.tokens_read(), 0);
}

}  // namespace
}  // namespace ei::cli
