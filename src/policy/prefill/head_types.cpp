#include "policy/prefill/head_types.h"

#include <algorithm>
#include <cmath>

namespace ei::policy {

namespace {
constexpr int32_t kFirstSampled = 2;  // segments: before, there is nothing far
constexpr int32_t kAllSampled = 8;    // before this one, and while the text is dense, every segment is
constexpr int32_t kTypesEvery = 16;   // later, where types alone are wanted
constexpr double kTypesMemory = 0.9;  // and what such a sample leaves of the means
// A head is local when less than this share of what it does not give to the sink, or less than this share of all, goes
// further back than a segment.
constexpr float kDistantShare = 0.015f;
constexpr float kDistantFloor = 0.003f;
// A head that looks at its own segment as well has more to look for than what it looks up now and then.
constexpr float kSinkOverOwn = 4;
// Products of 8 bits, in products of the model's weights, that a ranking may cost: with every row a tenth of the time
// at most, with some rows half of that.
constexpr double kAffordable = 0.3;
constexpr double kAffordableSomeRows = 0.15;
// Of what a ranking with all rows and heads about all keys takes, a quarter of the rows and half of the keys take this.
constexpr double kSomeRows = 1.0 / 8;

}  // namespace

const char* head_type_name(HeadType type) {
  switch (type) {
    case HeadType::kUnknown: return "unknown";
    case HeadType::kLocal: return "local";
    case HeadType::kSink: return "sink";
    case HeadType::kDiffuse: return "diffuse";
  }
  return "";
}

bool is_sampled_early(const PrefillOptions& options, int32_t segment) {
  if (segment < kFirstSampled) return false;
  return segment < kAllSampled || int64_t{segment} * options.segment < options.threshold;
}

bool is_sampled_segment(const PrefillOptions& options, int32_t segment) {
  if (options.select != BlockRank::kAdaptive || segment < kFirstSampled) return false;
  return is_sampled_early(options, segment) || segment % kTypesEvery == 0;
}

void fold_means(float keep, const AttentionSample& sample, SampleMeans& means) {
  const auto fold = [keep](float& mean, float value) { mean = keep * mean + (1 - keep) * value; };
  constexpr float kLeastFar = 1e-6f;
  fold(means.sink, sample.sink);
  fold(means.distant, sample.distant);
  fold(means.log_far, std::log(std::max(sample.far, kLeastFar)));
  fold(means.segment_entropy, sample.segment_entropy);
  fold(means.row_entropy, sample.row_entropy);
  if (means.samples == 0) means.first_segment_entropy = sample.segment_entropy;
  ++means.samples;
}

void add_sample(const PrefillOptions& options, int32_t segment, const AttentionSample& sample, SampleMeans& means) {
  const auto seen = static_cast<float>(means.samples);
  const bool plain = means.samples == 0 || is_sampled_early(options, segment);
  fold_means(plain ? seen / (seen + 1) : static_cast<float>(kTypesMemory), sample, means);
}

HeadType type_of(const SampleMeans& means) {
  if (means.samples == 0) return HeadType::kUnknown;
  if (means.distant < kDistantShare * (1 - means.sink) || means.distant < kDistantFloor) return HeadType::kLocal;
  const float own = 1 - means.sink - means.distant;
  return means.sink > kSinkOverOwn * own ? HeadType::kSink : HeadType::kDiffuse;
}

RankQueries rank_queries_at(const PrefillOptions& options, const PrefillShape& shape, int32_t segment) {
  if (options.select != BlockRank::kAdaptive) return RankQueries::kGroup;
  if (options.rank_queries != RankQueries::kAuto) return options.rank_queries;
  const double all = shape.per_key * static_cast<double>(int64_t{segment} * options.segment);
  if (all <= kAffordable * shape.products) return RankQueries::kAll;
  return kSomeRows * all <= kAffordableSomeRows * shape.products ? RankQueries::kHeads : RankQueries::kGroup;
}

BlockRanking ranking_for(const PrefillOptions& options, const PrefillShape& shape, const SegmentPlace& place,
                         HeadType type, int64_t candidates) {
  BlockRanking ranking;
  if (options.select != BlockRank::kAdaptive) return ranking;
  ranking.latest = type == HeadType::kLocal;
  const RankQueries queries = rank_queries_at(options, shape, place.segment);
  if (queries != RankQueries::kGroup) {
    ranking.queries = GroupQuery::kEach;
  } else if (type == HeadType::kSink) {
    ranking.queries = GroupQuery::kLeastLocal;
  }
  if (queries == RankQueries::kAll) return ranking;
  const auto part = [&](int64_t one_in) { return static_cast<int32_t>(std::max<int64_t>(1, place.rows / one_in)); };
  // What is missed in the last quarter of the layers misleads few others.
  const bool late = place.layer >= shape.layers * 3 / 4;
  if (type == HeadType::kDiffuse) ranking.rows = part(late ? 8 : 4);
  if (type == HeadType::kSink) ranking.rows = part(2);
  // What a sink head looks up now and then is what a bound over many keys misses.
  if (type == HeadType::kDiffuse) ranking.candidates = static_cast<int32_t>(candidates / options.block);
  return ranking;
}

}  // namespace ei::policy
