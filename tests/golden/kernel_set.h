// Which kernels the golden cases run on: the reference, and every set of fast ones that this machine can use.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/block_scores/block_scores.h"
#include "kernels/window_scores/window_scores.h"

namespace ei::golden {

struct KernelSet {
  const kernels::AttentionVariant* attention = nullptr;
  DType kv_type = DType::kF32;  // golden values are exact in all of them
  bool fast = false;            // all operations as the cpu backend runs them, not only attention

  std::string name() const { return fast ? std::string(attention->name) : "reference"; }
  // What attention may add to the manifest's tolerance: matrices of 16 bits round weights (docs/numerics.md).
  double attention_rounding() const { return kv_type == DType::kF32 ? 0 : 3e-2; }

  void block_extremes(const kernels::BlockExtremesParams& params) const;
  void query_midrange(const kernels::QueryMidrangeParams& params) const;
  void block_scores(const kernels::BlockScoreParams& params) const;
  void block_entropy(const kernels::BlockEntropyParams& params) const;
  void select_blocks(const kernels::SelectBlocksParams& params) const;
  void window_scores(const kernels::WindowScoreParams& params) const;
};
void PrintTo(const KernelSet& set, std::ostream* out);  // NOLINT(readability-identifier-naming): GoogleTest's name

std::vector<KernelSet> kernel_sets();

}  // namespace ei::golden
