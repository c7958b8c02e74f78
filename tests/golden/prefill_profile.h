// What a set of kernels measures in one layer of a golden case.
#pragma once

#include <vector>

#include "golden/generator.h"
#include "golden/kernel_set.h"
#include "kernels/block_scores/block_scores.h"
#include "policy/prefill/options.h"

namespace ei::golden {

policy::PrefillOptions read_prefill_options(const Json& golden_case);

struct Profile {
  kernels::BlockRows rows;
  std::vector<float> scores;          // rows
  std::vector<float> probabilities;   // rows, fused with the layer before where asked for
  std::vector<float> entropy;         // [kv_heads, segments]
  std::vector<float> entropy_scaled;  // of scores / sqrt(head_dim), without fusion
};

// `previous`: the fused probabilities of the layer before; null: none.
Profile measure(const KernelSet& set, const policy::PrefillOptions& options, const KernelInputs& inputs,
                const std::vector<float>* previous);

}  // namespace ei::golden
