#include "policy/prefill/method.h"

#include "base/check.h"
#include "policy/prefill/habit_shares.h"
#include "policy/prefill/head_types.h"
#include "policy/registry.h"

namespace ei::policy {

bool PrefillMethod::samples(int32_t segment) const { return is_sampled_segment(options_, segment); }

void PrefillMethod::fold(int32_t segment, const AttentionSample& sample, SampleMeans& means) const {
  add_sample(options_, segment, sample, means);
}

RankedBy PrefillMethod::ranked_by(int32_t segment) const {
  const bool groups = rank_queries_at(options_, shape_, segment) == RankQueries::kGroup;
  return {.heads = !groups, .groups = groups};
}

BlockRanking PrefillMethod::ranking(const SegmentPlace& place, const SampleMeans& before, int64_t rated) const {
  return ranking_for(options_, shape_, place, type_of(before), candidates(place, rated));
}

int64_t PrefillMethod::candidates(const SegmentPlace& place, int64_t rated) const {
  return candidate_tokens(options_, place.segment, rated);
}

void PrefillMethod::rank(const SegmentPlace& place, const PrefillHistory& history, SegmentRecord& record) const {
  begin_segment(history, record);
  for (size_t h = 0; h < record.heads.size(); ++h) {
    HeadRecord& head = record.heads[h];
    const SampleMeans before = history.means_before(h);
    head.type = type_of(before);
    head.ranking = ranking(place, before, rated_tokens(place, history, record, h));
    head.ranking.latest = head.ranking.latest || !place.attends;
    EI_CHECK(head.ranking.latest || ranked_by(place.segment).allows(head.ranking.queries));
    head.ranking.sampling = place.sampled ? sampling() : Sampling::kNone;
  }
}

void PrefillMethod::observe(const SegmentRecord* previous, SegmentRecord& record) const {
  for (size_t h = 0; h < record.heads.size(); ++h) {
    HeadRecord& head = record.heads[h];
    if (previous != nullptr) head.means = previous->heads[h].means;
    if (head.sampled) fold(record.segment, head.sample, head.means);
  }
}

std::unique_ptr<PrefillMethod> make_prefill_method(const PrefillOptions& options, const PrefillShape& shape) {
  if (options.rule == PrefillRule::kDense) return nullptr;
  const PrefillEntry* entry = find_prefill_rule(options.rule);
  EI_CHECK(entry != nullptr);
  return entry->make(options, shape);
}

}  // namespace ei::policy
