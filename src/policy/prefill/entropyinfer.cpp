// EntropyInfer as this engine reads it: the entropies of sampled attention divide one density over heads and layers.
//
// What a segment needs is how many different blocks its rows look at, and how much hangs on them. A sample of its rows
// tells: over how many far blocks the segment as a whole spreads, exp(H_segment); how many different places its rows
// look at, exp(H_segment - H_row), the exponential of their mutual information; and the share of attention that goes
// far at all. A head whose single rows spread thin tolerates a partial choice, for its output is a mean of many values;
// one whose rows look up single places does not.
//
//   w[l, h] = exp(H_segment)^a * exp(H_segment - H_row)^b * far^c       from means over the samples so far
//   share[l, h] = min(1, kappa * w[l, h]),   kappa such that the mean of all shares is the density
//   count = max(share * blocks before the segment, local budget)
//
// kappa is made of what all layers knew at the end of the pool of segments before, so that it does not depend on how a
// prompt is cut; w of the segment's own layer is up to date.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

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
      const double kappa = kappa_at(history, record.segment);
      for (HeadRecord& head : record.heads) {
        const SampleMeans& means = head.means;
        head.rigid = means.segment_entropy - means.first_segment_entropy < std::log(kOpened);
        head.blocks = count(kappa, place.layer, means, record.segment);
        head.budget = static_cast<float>(head.blocks) * static_cast<float>(options().block);
      }
    }
  }

 protected:
  Sampling sampling() const override { return options().sample_mean ? Sampling::kMean : Sampling::kHeads; }

  int64_t most_read(const SegmentPlace& place, const PrefillHistory& history, size_t kv_head, HeadType) const override {
    // Means move from segment to segment.
    constexpr int64_t kRatedPerRead = 2;
    const SampleMeans means = history.previous != nullptr ? history.previous->heads[kv_head].means : SampleMeans{};
    return kRatedPerRead * count(kappa_at(history, place.segment), place.layer, means, place.segment) * options().block;
  }

 private:
  double weight(int32_t layer, const SampleMeans& means) const {
    const double early = 1 + options().early_weight / std::pow(1.0 + layer, 2);
    return early * std::exp(static_cast<double>(means.log_weight));
  }

  // The share of the text that the kv_heads read on the average.
  double density(int32_t segment) const {
    if (options().base_budget == 0) return options().density;
    const double before = static_cast<double>(segment) * options().segment;
    return before > 0 ? std::min(1.0, options().base_budget / before) : 1;
  }

  // 0: nothing is known yet.
  double kappa_at(const PrefillHistory& history, int32_t segment) const {
    const int32_t known = segment / kPoolSegments * kPoolSegments;
    std::vector<double> weights;
    for (size_t l = 0; l < history.layers.size(); ++l) {
      const LayerRecords& layer = history.layers[l];
      const auto behind = std::partition_point(layer.begin(), layer.end(),
                                               [&](const SegmentRecord& record) { return record.segment < known; });
      if (behind == layer.begin()) continue;
      for (const HeadRecord& head : std::prev(behind)->heads)
        if (head.means.samples > 0) weights.push_back(weight(static_cast<int32_t>(l), head.means));
    }
    return weights.empty() ? 0 : fill(weights, density(segment));
  }

  // kappa with mean over min(1, kappa * weight) = density.
  static double fill(std::vector<double>& weights, double density) {
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

  int32_t count(double kappa, int32_t layer, const SampleMeans& means, int32_t segment) const {
    const int32_t all = visible(segment);
    if (density(segment) >= 1) return all;
    const bool known = kappa > 0 && means.samples > 0;
    const double share = known ? std::min(1.0, kappa * weight(layer, means)) : density(segment);
    const auto blocks = static_cast<int32_t>(std::ceil(share * all));
    return std::min(all, std::max(blocks, std::max(1, options().local_budget / options().block)));
  }
};

}  // namespace

std::unique_ptr<PrefillMethod> make_entropy_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<EntropyMethod>(options, shape);
}

}  // namespace ei::policy
