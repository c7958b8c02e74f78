#include "golden/prefill_profile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ei::golden {

using policy::PrefillOptions;
using policy::PrefillRule;
using policy::RigidTest;

PrefillOptions read_prefill_options(const Json& golden_case) {
  const Json& params = golden_case.at("params");
  PrefillOptions options;
  params.at("S").get_to(options.segment);
  params.at("B").get_to(options.block);
  params.at("T").get_to(options.threshold);
  params.at("layer_fusion").get_to(options.layer_fusion);
  if (golden_case.at("method") == "critiprefill") {
    options.rule = PrefillRule::kFixed;
    params.at("budget").get_to(options.base_budget);
  } else {
    options.rule = PrefillRule::kGrowth;
    params.at("B0").get_to(options.base_budget);
    params.at("e_t").get_to(options.e_t);
    params.at("delta_t").get_to(options.delta_t);
    params.at("alpha").get_to(options.alpha);
  }
  options.rigid_test = RigidTest::kWholeTrace;
  return options;
}

Profile measure(const KernelSet& set, const PrefillOptions& options, const KernelInputs& inputs,
                const std::vector<float>* previous) {
  const Shape& shape = inputs.shape();
  const int64_t segments = (shape.tokens + options.segment - 1) / options.segment;
  const int64_t blocks = (segments - 1) * options.grid().blocks_per_segment();
  Profile profile;
  profile.rows = {options.grid(), shape.kv_heads, 0, static_cast<int32_t>(segments), blocks};
  const size_t lists = static_cast<size_t>(shape.kv_heads * segments);
  profile.scores.resize(lists * static_cast<size_t>(blocks));
  profile.probabilities.resize(profile.scores.size());
  profile.entropy.resize(lists);
  profile.entropy_scaled.resize(lists);

  const DType type = inputs.kv().key_type;
  std::vector<std::byte> max(static_cast<size_t>(blocks * shape.kv_heads * shape.head_dim) * dtype_bytes(type));
  std::vector<std::byte> min(max.size());
  const int64_t block_stride = int64_t{shape.kv_heads} * shape.head_dim;
  const kernels::BlockExtremes keys{max.data(), min.data(), type, shape.head_dim, block_stride};
  set.block_extremes({inputs.kv(), options.block, 0, blocks, keys});
  std::vector<float> queries(static_cast<size_t>(segments * inputs.q_stride()));
  set.query_midrange({.q = inputs.q(0),
                      .q_stride = inputs.q_stride(),
                      .tokens = shape.tokens,
                      .segment = options.segment,
                      .num_heads = shape.num_heads,
                      .head_dim = shape.head_dim,
                      .out = queries.data()});
  kernels::BlockScoreParams score{.rows = profile.rows,
                                  .queries = queries.data(),
                                  .num_heads = shape.num_heads,
                                  .head_dim = shape.head_dim,
                                  .keys = keys,
                                  .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                                  .scores = profile.scores.data()};
  kernels::BlockEntropyParams entropy{
      .rows = profile.rows, .scores = profile.scores.data(), .entropy = profile.entropy_scaled.data()};
  set.block_scores(score);
  set.block_entropy(entropy);
  score.scale = 1;
  entropy.previous = previous == nullptr ? nullptr : previous->data();
  entropy.probabilities = profile.probabilities.data();
  entropy.entropy = profile.entropy.data();
  set.block_scores(score);
  set.block_entropy(entropy);

  // The released code has segment 0, which sees nothing, look at all blocks evenly.
  for (int32_t head = 0; head < shape.kv_heads && blocks > 0; ++head) {
    const auto row = profile.probabilities.begin() + profile.rows.offset(head, 0);
    std::fill(row, row + blocks, 1 / static_cast<float>(blocks));
    const size_t first = static_cast<size_t>(head * segments);
    profile.entropy[first] = profile.entropy_scaled[first] = std::log(static_cast<float>(blocks));
  }
  return profile;
}

}  // namespace ei::golden
