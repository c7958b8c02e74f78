#include "kernels/window_scores/reference/window_scores_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ei::kernels {
namespace {

// Adds the attention of one query to every slot of its kv_head it may see; returns its entropy.
double add_attention(const WindowScoreParams& params, int64_t query, int64_t q_head, std::vector<double>& sums) {
  const KvView& kv = params.kv;
  const int64_t group = params.num_heads / static_cast<int64_t>(kv.heads.size());
  const KvHeadView& head = kv.heads[static_cast<size_t>(q_head / group)];
  const float* q = params.q + query * params.q_stride + q_head * kv.head_dim;
  std::vector<double> weights;
  for (int64_t slot = 0; slot < head.length && head.position(slot) <= params.positions[query]; ++slot) {
    const void* page = head.key_pages[slot / kv.page_slots];
    const int64_t begin = (slot % kv.page_slots) * kv.head_dim;
    double product = 0;
    for (int64_t d = 0; d < kv.head_dim; ++d)
      product += static_cast<double>(q[d]) * static_cast<double>(load_element(page, kv.key_type, begin + d));
    weights.push_back(static_cast<double>(params.scale) * product);
  }
  if (weights.empty()) return 0;
  const double max = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - max);
  double entropy = 0;
  for (size_t slot = 0; slot < weights.size(); ++slot) {
    const double share = weights[slot] / total;
    sums[slot] += share;
    if (share > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace

void reference_window_scores(const WindowScoreParams& params) {
  const int64_t group = params.num_heads / static_cast<int64_t>(params.kv.heads.size());
  for (int64_t q_head = 0; q_head < params.num_heads; ++q_head) {
    const int64_t length = params.kv.heads[static_cast<size_t>(q_head / group)].length;
    std::vector<double> sums(static_cast<size_t>(length));
    double entropy = 0;
    for (int64_t query = 0; query < params.window; ++query) entropy += add_attention(params, query, q_head, sums);
    if (params.entropy != nullptr)
      params.entropy[q_head] = static_cast<float>(entropy / static_cast<double>(params.window));
    for (int64_t slot = 0; slot < length; ++slot) {
      const double mean = sums[static_cast<size_t>(slot)] / static_cast<double>(params.window);
      params.scores[q_head * params.score_stride + slot] = static_cast<float>(mean);
    }
  }
}

}  // namespace ei::kernels
