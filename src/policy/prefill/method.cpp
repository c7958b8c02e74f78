#include "policy/prefill/method.h"

#include "policy/prefill/head_types.h"

namespace ei::policy {

bool PrefillMethod::samples(int32_t segment) const { return is_sampled_segment(options_, segment); }

bool PrefillMethod::ranks_by_heads(int32_t segment) const {
  return rank_queries_at(options_, shape_, segment) != RankQueries::kGroup;
}

void PrefillMethod::rank(const SegmentPlace& place, const PrefillHistory& history, SegmentRecord& record) const {
  begin_segment(history, record);
  for (size_t h = 0; h < record.heads.size(); ++h) {
    HeadRecord& head = record.heads[h];
    head.type = type_of(history.previous != nullptr ? history.previous->heads[h].means : SampleMeans{});
    head.ranking = ranking_for(options_, shape_, place, head.type, most_read(place, history, record, h));
    head.ranking.latest = head.ranking.latest || !place.attends;
    head.ranking.sampling = place.sampled ? sampling() : Sampling::kNone;
  }
}

void PrefillMethod::observe(const SegmentRecord* previous, SegmentRecord& record) const {
  for (size_t h = 0; h < record.heads.size(); ++h) {
    HeadRecord& head = record.heads[h];
    if (previous != nullptr) head.means = previous->heads[h].means;
    if (head.sampled) add_sample(options_, record.segment, head.sample, head.means);
  }
}

std::unique_ptr<PrefillMethod> make_prefill_method(const PrefillOptions& options, const PrefillShape& shape) {
  switch (options.rule) {
    case PrefillRule::kDense: return nullptr;
    case PrefillRule::kEntropy: return make_entropy_method(options, shape);
    case PrefillRule::kGrowth: return make_growth_method(options, shape);
    case PrefillRule::kLevel: return make_level_method(options, shape);
    case PrefillRule::kHabit: return make_habit_method(options, shape);
    case PrefillRule::kFixed: return make_fixed_method(options, shape);
  }
  return nullptr;
}

}  // namespace ei::policy
