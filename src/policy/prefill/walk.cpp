#include "policy/prefill/walk.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "policy/prefill/plan_layout.h"

namespace ei::policy {

PrefillWalk::PrefillWalk(std::unique_ptr<PrefillMethod> method, const PrefillShape& shape)
    : method_(std::move(method)),
      kv_heads_(shape.kv_heads),
      records_(static_cast<size_t>(shape.layers)),
      turns_(static_cast<size_t>(shape.layers)) {
  EI_CHECK(method_ != nullptr);
}

int64_t PrefillWalk::chunk_end(int64_t first, int64_t batch) const {
  // The released rule looks at the entropies of the whole prompt before it decides on the first segment.
  if (options().rigid_test == RigidTest::kWholeTrace) return prompt_end_;
  const int64_t segment = options().segment;
  int64_t end = (first + std::max(batch, segment)) / segment * segment;
  const int64_t pool = method_->pool_segments() * segment;
  if (pool > 0) end = std::min(end, (first / pool + 1) * pool);
  return std::min(end, prompt_end_);
}

int64_t PrefillWalk::longest_chunk(int64_t tokens, int64_t batch) const {
  if (options().rigid_test == RigidTest::kWholeTrace) return tokens;
  return std::min(tokens, std::max(batch, int64_t{options().segment}));
}

int64_t PrefillWalk::most_segments(int64_t first, int64_t end, int64_t batch) const {
  const int64_t segment = options().segment;
  const int64_t all = (end - 1) / segment - first / segment + 1;
  if (options().rigid_test == RigidTest::kWholeTrace) return all;
  return std::min(all, (std::max(batch, segment) + segment - 1) / segment);
}

int64_t PrefillWalk::rows_of(int32_t segment) const {
  const int64_t begin = int64_t{segment} * options().segment;
  return std::min(begin + options().segment, first_ + tokens_) - std::max(begin, first_);
}

void PrefillWalk::begin_chunk(int64_t first, int64_t tokens) {
  pool_ = {};
  const int64_t segment = options().segment;
  first_ = first;
  tokens_ = tokens;
  first_segment_ = static_cast<int32_t>(first / segment);
  const auto count = static_cast<int32_t>((first + tokens - 1) / segment) - first_segment_ + 1;
  const bool resumed = first % segment != 0;  // begun by an earlier prompt: what is left of it reads everything
  sparse_.clear();
  for (int32_t i = 0; i < count; ++i) {
    const bool dense = (resumed && i == 0) || is_dense_segment(options(), first_segment_ + i, prompt_end_);
    sparse_.push_back(dense ? 0 : 1);
  }
  for (Turn& turn : turns_) {
    turn.begun = turn.attends = false;
    turn.places.clear();
    turn.run.assign(static_cast<size_t>(count), {});
    for (int32_t i = 0; i < count; ++i) {
      SegmentRecord& record = turn.run[static_cast<size_t>(i)];
      record.segment = first_segment_ + i;
      record.dense = sparse_[static_cast<size_t>(i)] == 0;
      record.heads.resize(static_cast<size_t>(kv_heads_));
    }
  }
}

std::span<const SegmentPlace> PrefillWalk::begin_layer(int layer, int64_t attending) {
  Turn& turn = turns_[static_cast<size_t>(layer)];
  turn.begun = true;
  // The first segment in which rows attend; all of them do, except in the last layer.
  const int64_t from = attending == tokens_ ? 0 : (first_ + tokens_ - attending) / options().segment - first_segment_;
  // What the last layer does stays unknown, however the prompt is cut.
  const bool last_layer = layer + 1 == static_cast<int>(turns_.size());
  turn.places.clear();
  for (int32_t i = 0; i < num_segments(); ++i) {
    const int32_t segment = first_segment_ + i;
    const int64_t rows = rows_of(segment);
    turn.places.push_back({.layer = layer,
                           .segment = segment,
                           .rows = rows,
                           .attends = attending > 0 && sparse_[static_cast<size_t>(i)] != 0 && i >= from,
                           .sampled = !last_layer && rows == options().segment && method_->samples(segment)});
    turn.attends = turn.attends || turn.places.back().attends;
  }
  return turn.places;
}

PrefillHistory PrefillWalk::history(int layer, size_t i) const {
  PrefillHistory history{.layers = records_};
  const LayerRecords& run = turn(layer).run;
  if (i > 0) {
    history.previous = &run[i - 1];
    return history;
  }
  // A resumed segment replaces its first part.
  const LayerRecords& past = records(layer);
  const auto behind = std::partition_point(past.begin(), past.end(),
                                           [&](const SegmentRecord& one) { return one.segment < run.front().segment; });
  if (behind != past.begin()) history.previous = &*std::prev(behind);
  return history;
}

void PrefillWalk::decide(int layer) {
  Turn& turn = turns_[static_cast<size_t>(layer)];
  EI_CHECK(turn.begun);
  turn.run.front().pool = pool_;
  // Each segment by what the one before has shown, so that a plan does not depend on how a prompt is cut.
  for (size_t i = 0; i < turn.run.size(); ++i) {
    const PrefillHistory known = history(layer, i);
    method_->rank(turn.places[i], known, turn.run[i]);
    method_->observe(known.previous, turn.run[i]);
  }
  pool_ = turn.run.front().pool;
  method_->decide({.layer = layer, .segment = first_segment_}, history(layer, 0), turn.run);
  for (SegmentRecord& record : turn.run) {
    if (!record.dense) continue;
    for (HeadRecord& head : record.heads) head.blocks = record.segment * options().grid().blocks_per_segment();
  }
  lay_out_plan(options().grid(), turn.run, turn.plan);
  if (!method_->chooses()) return;
  for (int32_t h = 0; h < kv_heads_; ++h)
    for (int32_t i = 0; i < num_segments(); ++i)
      method_->choose({.layer = layer, .segment = first_segment_ + i}, static_cast<size_t>(h),
                      turn.plan.blocks_of(turn.plan.list(h, i)));
}

double PrefillWalk::finish_chunk() {
  double pairs = 0;
  for (size_t layer = 0; layer < turns_.size(); ++layer) {
    Turn& turn = turns_[layer];
    if (!turn.begun) continue;
    pairs += pairs_left_out(turn.plan);
    if (keep_blocks_ && turn.attends) keep_chosen(turn);
    LayerRecords& past = records_[layer];
    if (!past.empty() && past.back().segment == turn.run.front().segment) past.pop_back();
    past.insert(past.end(), std::make_move_iterator(turn.run.begin()), std::make_move_iterator(turn.run.end()));
  }
  return pairs;
}

void PrefillWalk::keep_chosen(Turn& turn) const {
  for (int32_t i = 0; i < num_segments(); ++i) {
    for (int32_t h = 0; h < kv_heads_; ++h) {
      const std::span<const int32_t> blocks = turn.plan.blocks_of(turn.plan.list(h, i));
      turn.run[static_cast<size_t>(i)].heads[static_cast<size_t>(h)].chosen.assign(blocks.begin(), blocks.end());
    }
  }
}

double PrefillWalk::pairs_left_out(const BlockPlan& plan) const {
  double pairs = 0;
  for (int32_t i = 0; i < plan.num_segments; ++i) {
    if (plan.dense[static_cast<size_t>(i)] != 0) continue;
    const int32_t segment = plan.first_segment + i;
    const int64_t begin = int64_t{segment} * options().segment;
    for (int32_t h = 0; h < plan.kv_heads; ++h) {
      const int64_t read = plan.count(plan.list(h, i)) * options().block;
      pairs += static_cast<double>(rows_of(segment)) * static_cast<double>(begin - read);
    }
  }
  return pairs;
}

void PrefillWalk::truncate(int64_t position) {
  const auto keep = static_cast<int32_t>(position / options().segment);  // whole segments
  for (LayerRecords& records : records_)
    while (!records.empty() && records.back().segment >= keep) records.pop_back();
}

}  // namespace ei::policy
