#include "gpu/recorded.h"

#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"

namespace ei::bench {

Recorded::Recorded(const Session& read, int layers, int kv_heads, int32_t segments) : layers_(layers) {
  const sparse::Planner& planner = *read.planner();
  // The last layer is never sampled: of its rows only few attend.
  const int sampled = read.engine().config().layers - 1;
  for (int layer = 0; layer < sampled; ++layer)
    if (planner.plans(layer)) records_.push_back(planner.records(layer));
  EI_CHECK(!records_.empty() && !records_.front().empty());
  heads_ = records_.front().front().heads.size();
  EI_CHECK(static_cast<size_t>(kv_heads) % heads_ == 0);  // so that each stands for as many
  const auto had = static_cast<int32_t>(records_.front().size());
  stretch_ = (segments + had - 1) / had;
  for (const policy::LayerRecords& layer : records_) {
    std::vector<std::vector<int32_t>>& lists = lists_.emplace_back();
    for (const policy::SegmentRecord& record : layer) {
      for (const policy::HeadRecord& head : record.heads) {
        std::vector<int32_t>& list = lists.emplace_back();
        for (const int32_t block : head.chosen)
          for (int32_t i = 0; i < stretch_; ++i) list.push_back(block * stretch_ + i);
      }
    }
  }
}

size_t Recorded::source_layer(int layer) const {
  return static_cast<size_t>(layer) * records_.size() / static_cast<size_t>(layers_);
}

AttentionSample Recorded::sample(int layer, int32_t segment, size_t kv_head) const {
  const policy::LayerRecords& records = records_[source_layer(layer)];
  // The latest sample up to there; the first one where there is none yet.
  auto from = static_cast<size_t>(std::min<int32_t>(segment / stretch_, static_cast<int32_t>(records.size()) - 1));
  while (from > 0 && !records[from].heads[kv_head % heads_].sampled) --from;
  while (from + 1 < records.size() && !records[from].heads[kv_head % heads_].sampled) ++from;
  return records[from].heads[kv_head % heads_].sample;
}

std::span<const int32_t> Recorded::blocks(int layer, int32_t segment, size_t kv_head) const {
  const std::vector<std::vector<int32_t>>& lists = lists_[source_layer(layer)];
  const auto from = std::min(static_cast<size_t>(segment / stretch_), lists.size() / heads_ - 1);
  return lists[from * heads_ + kv_head % heads_];
}

double Recorded::share_of(policy::HeadType type) const {
  double all = 0;
  double of_type = 0;
  for (const policy::LayerRecords& layer : records_) {
    for (const policy::SegmentRecord& record : layer) {
      if (record.dense) continue;
      for (const policy::HeadRecord& head : record.heads) {
        ++all;
        if (head.type == type) ++of_type;
      }
    }
  }
  return all > 0 ? of_type / all : 0;
}

}  // namespace ei::bench
