// EntropyInfer as this engine reads it: the entropies of sampled attention divide one density over heads and layers.
//
// What a segment needs is how many different blocks its rows look at, and how much hangs on them. A sample of its rows
// tells: over how many far blocks the segment as a whole spreads, exp(H_segment); how many different places its rows
// look at, exp(H_segment - H_row), the exponential of their mutual information; and the share of attention that goes
// far at all. A head whose single rows spread thin tolerates a partial choice, for its output is a mean of many values;
// one whose rows look up single places does not.
//
//   w[l, h] = exp(H_segment)^a * exp(H_segment - H_row)^b * far^c     from running means of the samples so far
//   share[l, h] = min(1, kappa * w[l, h]),   kappa such that the mean of all shares is
//                 density + density_base / tokens before the segment
//   count = max(share * blocks before the segment, local budget)
//
// kappa is made of what all layers knew at the end of the pool of segments before, so that it does not depend on how a
// prompt is cut; w of the segment's own layer is up to date. Weights grow inside a pool: kappa is divided by how much
// too much that would have read in the last one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include "base/random.h"
#include "policy/entries.h"
#include "policy/prefill/head_types.h"

namespace ei::policy {
namespace {

constexpr int32_t kPoolSegments = 8;
// A head that spreads over this many times as many blocks as when it was first seen has opened up: it is dynamic.
constexpr float kOpened = 2;

class EntropyMethod : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  int32_t pool_segments() const override { return kPoolSegments; }
  bool reads_midrange() const override { return false; }

  void decide(const SegmentPlace& place, const PrefillHistory& history, std::span<SegmentRecord> run) const override {
    for (SegmentRecord& record : run) {
      const Pool pool = pool_at(history, record.segment);
      for (size_t h = 0; h < record.heads.size(); ++h) {
        HeadRecord& head = record.heads[h];
        head.rigid = head.means.segment_entropy - head.means.first_segment_entropy < std::log(kOpened);
        head.blocks = count(pool, place.layer, h, head.means, record.segment);
        head.budget = static_cast<float>(head.blocks) * static_cast<float>(options().block);
      }
    }
  }

 protected:
  Sampling sampling() const override { return Sampling::kHeads; }

  int64_t most_read(const SegmentPlace& place, const PrefillHistory& history, size_t kv_head, HeadType) const override {
    // Means move from segment to segment.
    constexpr int64_t kRatedPerRead = 2;
    const SampleMeans means = history.previous != nullptr ? history.previous->heads[kv_head].means : SampleMeans{};
    const Pool pool = pool_at(history, place.segment);
    return kRatedPerRead * count(pool, place.layer, kv_head, means, place.segment) * options().block;
  }

 private:
  struct Place {
    int32_t layer;
    size_t kv_head;
    bool operator==(const Place&) const = default;
  };
  // What all layers knew at the end of the pool of segments before.
  struct Pool {
    std::vector<Place> places;
    std::vector<double> weights;  // of these
    double kappa = 0;             // 0: nothing is known yet
  };

  static double weight(const SampleMeans& means) { return std::exp(static_cast<double>(means.log_weight)); }

  // The share of the text that the kv_heads read on the average.
  double density(int32_t segment) const {
    const double before = static_cast<double>(segment) * options().segment;
    if (before == 0) return 1;
    if (options().base_budget > 0) return std::min(1.0, options().base_budget / before);
    return std::min(1.0, options().density + options().density_base / before);
  }

  // The records of all layers at the end of the segments before `known`.
  static Pool snapshot(const PrefillHistory& history, int32_t known) {
    Pool pool;
    for (size_t l = 0; l < history.layers.size(); ++l) {
      const LayerRecords& layer = history.layers[l];
      const auto behind = first_from(layer, known);
      if (behind == layer.begin()) continue;
      const std::vector<HeadRecord>& heads = std::prev(behind)->heads;
      for (size_t h = 0; h < heads.size(); ++h) {
        if (heads[h].means.samples == 0) continue;
        pool.places.push_back({static_cast<int32_t>(l), h});
        pool.weights.push_back(weight(heads[h].means));
      }
    }
    return pool;
  }

  static LayerRecords::const_iterator first_from(const LayerRecords& layer, int32_t segment) {
    return std::partition_point(layer.begin(), layer.end(),
                                [&](const SegmentRecord& record) { return record.segment < segment; });
  }

  Pool pool_at(const PrefillHistory& history, int32_t segment) const {
    const int32_t known = segment / kPoolSegments * kPoolSegments;
    Pool pool = snapshot(history, known);
    if (pool.weights.empty()) return pool;
    pool.kappa = fill(pool.weights, density(segment)) / overshoot(history, known);
    if (options().shuffle > 0) shuffle(pool.weights);
    return pool;
  }

  // Weights grow inside a pool, with the text and where heads open up: how much more than the density the last pool
  // would have read by the kappa of its beginning.
  double overshoot(const PrefillHistory& history, int32_t known) const {
    const int32_t begin = known - kPoolSegments;
    const Pool before = begin > 0 ? snapshot(history, begin) : Pool{};
    if (before.weights.empty()) return 1;
    double read = 0;
    double wanted = 0;
    for (const LayerRecords& layer : history.layers) {
      for (auto record = first_from(layer, begin); record != layer.end() && record->segment < known; ++record) {
        const double kappa = fill(before.weights, density(record->segment));
        for (const HeadRecord& head : record->heads) {
          if (head.means.samples == 0) continue;
          read += std::min(1.0, kappa * weight(head.means));
          wanted += density(record->segment);
        }
      }
    }
    return read > 0 ? read / wanted : 1;
  }

  // kappa with mean over min(1, kappa * weight) = density.
  static double fill(std::vector<double> weights, double density) {
    std::sort(weights.begin(), weights.end(), std::greater<>());
    double rest = 0;
    for (const double one : weights) rest += one;
    double places = density * static_cast<double>(weights.size());
    for (const double largest : weights) {
      if (rest <= 0) break;
      const double kappa = places / rest;
      if (kappa * largest <= 1) return kappa;
      places -= 1;  // this one reads everything
      rest -= largest;
    }
    return weights.back() > 0 ? 1 / weights.back() : 0;
  }

  // For research: the same weights for other heads.
  void shuffle(std::vector<double>& weights) const {
    Random random(static_cast<uint64_t>(options().shuffle));
    for (size_t i = weights.size(); i > 1; --i)
      std::swap(weights[i - 1], weights[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  }

  int32_t count(const Pool& pool, int32_t layer, size_t kv_head, const SampleMeans& means, int32_t segment) const {
    const int32_t all = visible(segment);
    if (density(segment) >= 1) return all;
    double share = density(segment);
    if (pool.kappa > 0 && means.samples > 0) {
      double own = weight(means);
      const auto place = std::find(pool.places.begin(), pool.places.end(), Place{layer, kv_head});
      if (options().shuffle > 0 && place != pool.places.end())
        own = pool.weights[static_cast<size_t>(place - pool.places.begin())];
      share = std::min(1.0, pool.kappa * own);
    }
    constexpr double kRounding = 1e-9;  // a whole number of blocks stays one
    const auto blocks = static_cast<int32_t>(std::ceil(share * all - kRounding));
    return std::min(all, std::max(blocks, std::max(1, options().local_budget / options().block)));
  }
};

std::unique_ptr<PrefillMethod> make_entropy_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<EntropyMethod>(options, shape);
}

}  // namespace

Entry entropyinfer_entry() {
  return {
      .method = {.name = "entropyinfer",
                 .summary = "sparse prefill, entropies of sampled attention divide what is read; repeated latent KV "
                            "compression",
                 .prefill = {.rule = PrefillRule::kEntropy,
                             .base_budget = 0,
                             .logit_scale = LogitScale::kInverseSqrtDim,
                             .early_share = 4,
                             .select = BlockRank::kAdaptive,
                             .candidate_share = 2},
                 .kv = {.rule = KvRule::kLatent}},
      // Attention is sampled while blocks are ranked so.
      .prefill = {.name = "entropy",
                  .about = "of sampled attention",
                  .make = make_entropy_method,
                  .select = BlockRank::kAdaptive}};
}

}  // namespace ei::policy
