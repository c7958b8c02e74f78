#include "golden/kernel_set.h"

#include <ostream>

#include "kernels/attention/reference/attention_scalar.h"
#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/block_scores/reference/block_scores_reference.h"
#include "kernels/window_scores/cpu/window_scores.h"
#include "kernels/window_scores/reference/window_scores_reference.h"
#include "support/random_kv.h"

namespace ei::golden {
namespace {

constexpr Worker kAlone{0, 1};

}  // namespace

void KernelSet::block_extremes(const kernels::BlockExtremesParams& params) const {
  fast ? kernels::block_extremes(params, kAlone) : kernels::reference_block_extremes(params);
}

void KernelSet::query_midrange(const kernels::QueryMidrangeParams& params) const {
  fast ? kernels::query_midrange(params, kAlone) : kernels::reference_query_midrange(params);
}

void KernelSet::block_scores(const kernels::BlockScoreParams& params) const {
  WorkQueue queue;
  fast ? kernels::block_scores(params, queue) : kernels::reference_block_scores(params);
}

void KernelSet::block_entropy(const kernels::BlockEntropyParams& params) const {
  WorkQueue queue;
  fast ? kernels::block_entropy(params, queue) : kernels::reference_block_entropy(params);
}

void KernelSet::select_blocks(const kernels::SelectBlocksParams& params) const {
  WorkQueue queue;
  fast ? kernels::select_blocks(params, queue) : kernels::reference_select_blocks(params);
}

void KernelSet::window_scores(const kernels::WindowScoreParams& params) const {
  if (!fast) {
    kernels::reference_window_scores(params);
    return;
  }
  const kernels::WindowVariant& variant = kernels::choose_window(attention->name, params.kv);
  kernels::AttentionScratch scratch(variant.scratch_bytes(params, 1) + kernels::kScratchHeader);
  WorkQueue queue;
  variant.score(params, scratch.data(), queue, kAlone);
  variant.merge(params, scratch.data(), kAlone);
}

void PrintTo(const KernelSet& set, std::ostream* out) { *out << set.name(); }

std::vector<KernelSet> kernel_sets() {
  const kernels::AttentionVariant* scalar = &kernels::scalar_attention();
  std::vector<KernelSet> sets = {{.attention = scalar}};
  for (const kernels::AttentionVariant* variant : kernels::attention_variants()) {
    if (variant == scalar || !variant->usable()) continue;
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (!variant->accepts(type, type)) continue;
      sets.push_back({.attention = variant, .kv_type = type, .fast = true});
      break;
    }
  }
  return sets;
}

}  // namespace ei::golden
