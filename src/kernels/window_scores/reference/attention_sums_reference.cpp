#include "kernels/window_scores/reference/attention_sums_reference.h"

#include <cmath>
#include <vector>

#include "kernels/window_scores/reference/window_scores_reference.h"

namespace ei::kernels {

void reference_attention_sums(const AttentionSumParams& params) {
  const auto group = static_cast<size_t>(params.queries.num_heads) / params.queries.kv.heads.size();
  for (size_t head = 0; head < static_cast<size_t>(params.queries.num_heads); ++head) {
    const int64_t length = params.queries.kv.heads[head / group].length;
    const auto row = static_cast<int64_t>(head) * params.stride;
    for (int64_t slot = 0; slot < length; ++slot)
      params.sums[row + slot] = slot < params.counted[head / group] ? params.before[row + slot] : 0;
  }
  // The mean over a window of one query is that query's attention.
  WindowScoreParams one = params.queries;
  std::vector<float> attention(static_cast<size_t>(params.queries.num_heads * params.stride));
  one.window = 1;
  one.scores = attention.data();
  one.score_stride = params.stride;
  one.entropy = nullptr;
  for (int64_t query = 0; query < params.queries.window; ++query, one.q += one.q_stride, ++one.positions) {
    reference_window_scores(one);
    for (size_t head = 0; head < static_cast<size_t>(params.queries.num_heads); ++head) {
      const auto row = static_cast<int64_t>(head) * params.stride;
      for (int64_t slot = 0; slot < params.queries.kv.heads[head / group].length; ++slot)
        params.sums[row + slot] += std::ldexp(
            std::nearbyint(std::ldexp(static_cast<double>(attention[static_cast<size_t>(row + slot)]), 32)), -32);
    }
  }
}

}  // namespace ei::kernels
