// How long an evaluation still takes: prompts of unequal length, each read once or more, and the answers behind them.
#pragma once

#include <cstdint>

namespace ei::cli {

class ItemsClock {
 public:
  // An item that is to come: its prompt of about `length` tokens is read `readings` times and answered `answers` times.
  void expect(int64_t length, int64_t readings, int64_t answers);

  // The next of these items.
  void begin(int64_t length, int64_t readings, int64_t answers, double now_s);
  // Tokens of the reading on its way; less than before: another one began.
  void read(int64_t tokens, double now_s);
  void end(double now_s);

  // Before the first answers are over, as if they took no time.
  double left_s() const;
  int64_t tokens_read() const;
  int64_t tokens_expected() const { return expected_.tokens; }

 private:
  // Of prompts tokens and about what reading them costs; of answers what writing them does.
  struct Work {
    int64_t tokens = 0;
    double reading = 0;
    double answering = 0;

    void add(int64_t length, int64_t readings, int64_t answers);
  };
  struct Item {
    int64_t length = 0;
    int64_t readings = 0;
    int64_t answers = 0;
  };
  Work work_with_current() const;

  Work expected_;
  Work done_;         // items that are over
  Item item_;         // the one on its way
  int64_t over_ = 0;  // its readings that are over
  int64_t seen_ = 0;  // tokens of the one on its way
  double last_s_ = 0;
  double reading_s_ = 0;
  double answering_s_ = 0;  // of items that are over
  double item_answering_s_ = 0;
};

}  // namespace ei::cli
