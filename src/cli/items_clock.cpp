#include "cli/items_clock.h"

#include <algorithm>

namespace ei::cli {

namespace {
// Attention over the whole text is as dear as all the rest at 16k tokens.
double reading_cost(int64_t length) {
  const auto size = static_cast<double>(length);
  return size * (1 + size / 16384);
}

// A token behind the prompt costs what its last one did.
double answer_cost(int64_t length) { return 1 + static_cast<double>(length) / 8192; }
}  // namespace

void ItemsClock::Work::add(int64_t length, int64_t readings, int64_t answers) {
  tokens += length * readings;
  reading += reading_cost(length) * static_cast<double>(readings);
  answering += answer_cost(length) * static_cast<double>(answers);
}

void ItemsClock::expect(int64_t length, int64_t readings, int64_t answers) { expected_.add(length, readings, answers); }

void ItemsClock::begin(int64_t length, int64_t readings, int64_t answers, double now_s) {
  item_ = {length, readings, answers};
  over_ = seen_ = 0;
  item_answering_s_ = 0;
  last_s_ = now_s;
}

void ItemsClock::read(int64_t tokens, double now_s) {
  const bool another = tokens < seen_;
  if (another) ++over_;
  (another ? item_answering_s_ : reading_s_) += now_s - last_s_;
  seen_ = tokens;
  last_s_ = now_s;
}

void ItemsClock::end(double now_s) {
  answering_s_ += item_answering_s_ + (now_s - last_s_);
  done_.add(item_.length, item_.readings, item_.answers);
  item_ = {};
  over_ = seen_ = 0;
  item_answering_s_ = 0;
  last_s_ = now_s;
}

ItemsClock::Work ItemsClock::work_with_current() const {
  Work work = done_;
  work.add(item_.length, over_, 0);
  work.add(seen_, 1, 0);
  return work;
}

int64_t ItemsClock::tokens_read() const { return work_with_current().tokens; }

double ItemsClock::left_s() const {
  const Work work = work_with_current();
  double left_s = 0;
  if (work.reading > 0) left_s += reading_s_ / work.reading * std::max(0.0, expected_.reading - work.reading);
  if (done_.answering > 0) {
    const double all_s = answering_s_ / done_.answering * (expected_.answering - done_.answering);
    left_s += std::max(0.0, all_s - item_answering_s_);
  }
  return left_s;
}

}  // namespace ei::cli
