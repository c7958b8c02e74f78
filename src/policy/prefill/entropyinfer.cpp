// EntropyInfer as this engine reads it: the entropies of sampled attention divide one density over heads and layers.
//
// What a segment needs is how many different blocks its rows look at, and how much hangs on them. A sample of its rows
// tells: over how many far blocks the segment as a whole spreads, exp(H_segment); how many different places its rows
// look at, exp(H_segment - H_row), the exponential of their mutual information; and the share of attention that goes
// far at all. A head whose single rows spread thin tolerates a partial choice, for its output is a mean of many values;
// one whose rows look up single places does not.
//
// This file stands in the order in which it runs, with two files beside it: head_types.cpp, which other methods use
// too, and entropy_pool.cpp. In one layer of a chunk (PrefillWalk::decide), for each segment:
//
//   1. samples()                  Is the segment measured? If so the attention of some of its rows has been sampled.
//                                 (The first ones: is_sampled_early() in head_types.cpp.)
//   2. begin_segment()            kappa, the same for all heads and layers: by what all layers knew before the pool of
//                                 segments that this one is in (entropy_pool.cpp).
//   3. rated_tokens(), ranking()  Of each head, how many blocks are rated, by which rows and queries. By the means
//                                 *before* this segment. (Whether all may rate: rank_queries_at(); heads of many
//                                 places, by type: ranking_for(); both in head_types.cpp.)
//   4. fold()                     What was sampled enters the means. (Of shares and entropies: fold_means() in
//                                 head_types.cpp.)
//
// and, when all segments of the chunk have come so far, for each:
//
//   5. decide()                   How many blocks each head reads. By the means *with* this segment's sample.
//
// Steps 3 and 5 count by different means: how much a head rates follows from what it had shown before the segment, how
// much it reads from what it has shown with it.
//
// Then blocks are rated as step 3 says, and those with the best ratings are read, as many as step 5 says. A block's
// rating is the largest score that any rating row gives any of its keys, less the logarithm of all that the row attends
// to (kernels/block_scores).
//
// How many:
//
//   w[l, h] = (exp(H_segment)^a * exp(H_segment - H_row)^b * far^c)^(n / (n + 2))     from running means of the samples
//                                                                                     so far; n heads share
//   share[l, h] : 1 - share[l, h] = kappa * w[l, h] : 1,   kappa such that the mean of all shares is
//                 density + density_base / tokens before the segment
//   count = share * blocks before the segment, and at least the local budget
//
// n counts the kv_heads of all layers that choose but the last, whose rows hardly attend. --base-budget N makes the
// mean share N tokens, whatever lies before. Odds, so that shares are in proportion to weights while little is read,
// and no head reads everything while another one starves where much is.
#include <algorithm>
#include <cmath>
#include <optional>

#include "policy/entries.h"
#include "policy/prefill/entropy_pool.h"
#include "policy/prefill/head_types.h"

namespace ei::policy {
namespace {

class EntropyMethod : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  // 1. Is the segment measured? And what of it: the attention of each query head, no scores of mid-ranges.

  // A sample costs what lies before it. Half as many in every doubling of the text keep that in proportion to the
  // tokens, and a mean over the last samples reaches back a part of the text instead of a number of segments.
  bool samples(int32_t segment) const override {
    constexpr int32_t kPerDoubling = 8;  // samples at least in every doubling of the text
    if (is_sampled_early(options(), segment)) return true;
    int32_t every = options().sample_every;
    while (segment / every >= 2 * kPerDoubling) every *= 2;
    return segment >= kPerDoubling && segment % every == 0;
  }
  Sampling sampling() const override { return Sampling::kHeads; }
  bool reads_midrange() const override { return false; }

  // 2. kappa, of the pool of segments that this one is in: kappa_of() and overshoot() in entropy_pool.cpp.

  // What layers know of each other is what all knew at the end of the last pool, so that it does not depend on how a
  // prompt is cut. A head's own weight is up to date.
  int32_t pool_segments() const override { return kPoolSegments; }

  void begin_segment(const PrefillHistory& history, SegmentRecord& record) const override {
    if (record.pool.density > 0) return;  // made in a layer before this one
    const int32_t known = pool_begin(record.segment);
    if (history.previous != nullptr && pool_begin(history.previous->segment) == known &&
        history.previous->pool.density > 0) {
      record.pool = history.previous->pool;
      return;
    }
    constexpr double kMost = 0.9;  // odds of everything are infinite
    record.pool.density = std::min(density(known), kMost);
    const std::vector<HeadWeight> weights = weights_before(history.layers, known, weight_of());
    if (weights.empty()) return;  // nothing was sampled: no kappa, and all heads read the mean share
    record.pool.filled = kappa_of(weights, record.pool.density);
    // Weights grow with the text, so by the end of its pool kappa reads too much. By what factor the pool before would
    // have, had its kappa not been divided, is known: so much is taken off beforehand.
    record.pool.kappa = record.pool.filled / overshoot(history.layers, known, weight_of());
  }

  // 3. Who rates, and how many blocks? By the means before the segment.

  // The other queries than a group's mean that ranking() may ask for.
  RankedBy ranked_by(int32_t segment) const override {
    const RankedBy types = PrefillMethod::ranked_by(segment);
    return {.heads = types.heads || places_decide(), .groups = types.groups};
  }

  // In proportion to what the head would read by what it has shown before the segment, whose own sample may still move
  // that; and no fewer than are read.
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory& history, const SegmentRecord& record,
                       size_t kv_head) const override {
    if (reads_whole(place.layer, kv_head)) return int64_t{place.segment} * options().segment;
    const double rated = std::max(1.0, options().rated_per_read);
    return static_cast<int64_t>(rated * count(record, known_weight(history.means_before(kv_head)))) * options().block;
  }

  int64_t candidates(const SegmentPlace&, int64_t rated) const override {
    return options().rated_per_read > 0 ? std::max<int64_t>(options().threshold, rated) : 0;
  }

  BlockRanking ranking(const SegmentPlace& place, const SampleMeans& before, int64_t rated) const override {
    // Every row of every head rates every block, while that costs little beside the model's own products. (But for
    // local heads: here and below they rate nothing, the sink and the latest blocks will do.)
    const bool cheap = rank_queries_at(options(), shape(), place.segment) == RankQueries::kAll;
    if (cheap || !places_decide()) return PrefillMethod::ranking(place, before, rated);
    // A head that was never sampled: every row, still.
    if (before.samples == 0) return {.queries = GroupQuery::kEach};
    // A head of many places: as its type says, each query head for itself or one query for the group (ranking_for()).
    const double places = std::exp(std::max(0.0f, before.segment_entropy - before.row_entropy));
    if (places >= options().few_places) return PrefillMethod::ranking(place, before, rated);
    return few_rows(place, before, places, rated);
  }

  // Rows that look at the same few places may speak for each other, and a row that looks elsewhere than the others is
  // found by its query (BlockRanking::rows). The fewer rows rate, the more blocks: of each pair that is read so many
  // are rated.
  BlockRanking few_rows(const SegmentPlace& place, const SampleMeans& before, double places, int64_t rated) const {
    BlockRanking ranking{.latest = type_of(before) == HeadType::kLocal, .queries = GroupQuery::kEach};
    constexpr double kLeastPart = 1.0 / 16;
    const double part = std::max(std::pow(places / options().few_places, 2), kLeastPart);
    ranking.rows = static_cast<int32_t>(std::ceil(part * static_cast<double>(place.rows)));
    const int64_t among = candidates(place, static_cast<int64_t>(static_cast<double>(rated) / part));
    if (among < int64_t{place.segment} * options().segment)
      ranking.candidates = static_cast<int32_t>(among / options().block);
    return ranking;
  }

  // 4. What was sampled enters the means.

  // A head that opens up is believed sooner than one that closes.
  void fold(int32_t /*segment*/, const AttentionSample& sample, SampleMeans& means) const override {
    const bool first = means.samples == 0;
    const float keep = first ? 0 : static_cast<float>(options().sample_memory);
    const float fresh = log_weight(sample);
    const bool opens = !first && fresh > means.log_weight;
    const float held = opens ? static_cast<float>(options().open_memory) : keep;
    means.log_weight = held * means.log_weight + (1 - held) * fresh;
    fold_means(keep, sample, means);
  }

  // 5. How many blocks are read? By the means with the segment's sample.

  void decide(const SegmentPlace& place, const PrefillHistory& history, std::span<SegmentRecord> run) const override {
    // A head that spreads over this many times as many blocks as when it was first seen has opened up: it is dynamic.
    constexpr float kOpened = 2;
    for (SegmentRecord& record : run) {
      for (size_t h = 0; h < record.heads.size(); ++h) {
        HeadRecord& head = record.heads[h];
        const SampleMeans& with = head.means;
        std::optional<double> own = known_weight(with);
        if (own && options().shuffle > 0)
          own = shuffled_weight(weights_before(history.layers, pool_begin(record.segment), weight_of()),
                                {place.layer, h}, options().shuffle, *own);
        head.blocks = reads_whole(place.layer, h) ? visible(record.segment) : count(record, own);
        head.budget = static_cast<float>(head.blocks) * static_cast<float>(options().block);
        // Reported, and decides nothing.
        head.rigid = with.segment_entropy - with.first_segment_entropy < std::log(kOpened);
      }
    }
  }

 private:
  // What the steps are made of: the equations at the top, in their order.

  // The logarithm of w, before few heads are pulled together.
  float log_weight(const AttentionSample& sample) const {
    constexpr float kLeastFar = 1e-6f;
    const float distinct = std::max(0.0f, sample.segment_entropy - sample.row_entropy);
    return static_cast<float>(options().spread_power) * sample.segment_entropy +
           static_cast<float>(options().distinct_power) * distinct +
           static_cast<float>(options().far_power) * std::log(std::max(sample.far, kLeastFar));
  }

  // w. Pulled towards 1, the more the fewer share: among few heads the errors of the samples weigh more than what they
  // tell, as if two heads more had shown nothing.
  double weight(const SampleMeans& means) const {
    constexpr double kUntold = 2;
    const double heads = shape().choosing_heads;
    const double power = heads > 0 ? heads / (heads + kUntold) : 1;
    return std::exp(power * static_cast<double>(means.log_weight));
  }
  WeightOf weight_of() const {
    return [this](const SampleMeans& means) { return weight(means); };
  }
  // Nothing of a head that was never sampled.
  std::optional<double> known_weight(const SampleMeans& means) const {
    return means.samples > 0 ? std::optional<double>(weight(means)) : std::nullopt;
  }

  // The share of the text before a segment that the kv_heads read on the average.
  double density(int32_t segment) const {
    const double before = static_cast<double>(segment) * options().segment;
    if (before == 0) return 1;
    if (options().base_budget > 0) return std::min(1.0, options().base_budget / before);
    return std::min(1.0, options().density + options().density_base / before);
  }

  // Blocks that a kv_head of this weight reads: of none, or without a kappa, the mean share.
  int32_t count(const SegmentRecord& record, std::optional<double> weight) const {
    const int32_t all = visible(record.segment);
    double share = density(record.segment);
    if (share >= 1) return all;
    // The text grows inside a pool, and what is read of it with it.
    const double kappa = record.pool.kappa * odds(share) / odds(record.pool.density);
    if (kappa > 0 && weight.value_or(0) > 0) share = share_of(kappa, *weight);
    constexpr double kRounding = 1e-9;  // a whole number of blocks stays one
    const auto blocks = static_cast<int32_t>(std::ceil(share * all - kRounding));
    return std::min(all, std::max(blocks, std::max(1, options().local_budget / options().block)));
  }

  // For research: does an option have it read everything, whatever its weight?
  bool reads_whole(int32_t layer, size_t kv_head) const {
    return layer == options().whole_layer &&
           (options().whole_head < 0 || kv_head == static_cast<size_t>(options().whole_head));
  }

  // Do the places that its rows look at say who rates for a head? Not where an option does.
  bool places_decide() const { return options().rank_queries == RankQueries::kAuto && options().few_places > 0; }
};

std::unique_ptr<PrefillMethod> make_entropy_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<EntropyMethod>(options, shape);
}

PrefillOptions entropy_preset() {
  PrefillOptions options{.rule = PrefillRule::kEntropy, .base_budget = 0, .select = BlockRank::kAdaptive};
  // The entropy rule reads none of these. They are what other rules find in this preset, as in --method entropyinfer
  // --budget-rule habit.
  options.logit_scale = LogitScale::kInverseSqrtDim;
  options.early_share = 4;
  options.candidate_share = 2;
  return options;
}

}  // namespace

Entry entropyinfer_entry() {
  return {.method = {.name = "entropyinfer",
                     .summary = "reads and keeps by attention entropies",
                     .paper = "Xu et al., 2026, arXiv 2606.09508",
                     .changes = "budgets by entropies of sampled attention, ragged per kv_head, blocks by peak scores; "
                                "compression repeats",
                     .prefill = entropy_preset(),
                     .kv = latent_preset()},
          .prefill = {.name = "entropy",
                      .about = "of sampled attention",
                      .make = make_entropy_method,
                      .select = BlockRank::kAdaptive,
                      .bounded = false,
                      .by_density = true,
                      .reads = {"density", "density-base", "local-budget", "rank-queries", "spread-power",
                                "distinct-power", "far-power", "sample-every", "sample-memory", "open-memory",
                                "shuffle", "whole-layer", "whole-head", "few-places", "rated-per-read"}}};
}

}  // namespace ei::policy
