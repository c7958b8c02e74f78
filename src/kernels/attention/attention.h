// Causal attention over one layer of the ragged KV cache: contract shared by the reference and every ISA variant.
//
//   out[t, h] = softmax_s( scale * q[t, h] . K[s] ) V      over the slots s of kv_head h / group with
//   position(s) <= first_position + t   and, with a window w > 0,   position(s) > first_position + t - w
//
// The store already holds the keys and values of the `tokens` query rows themselves. A row that sees no slot at all
// gives zeros. Results do not depend on the number of workers nor, with `prompt`, on how a prompt is cut into calls:
// key tiles are anchored at slot 0 and every row is folded tile by tile in slot order. Without it a call of a few rows
// may split the keys among workers, which is quicker and rounds differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/workers.h"
#include "plan/block_plan.h"
#include "plan/kv_view.h"

namespace ei::kernels {

struct AttentionParams {
  const float* q = nullptr;  // [tokens, num_heads, head_dim], already rotated
  int64_t q_stride = 0;      // floats between two tokens
  float* out = nullptr;      // [tokens, num_heads, head_dim]
  int64_t out_stride = 0;    // floats between two tokens
  int64_t tokens = 0;
  bool prompt = false;    // rows of a prompt: however few, they round as they would among others
  int32_t num_heads = 0;  // a multiple of kv.heads.size(); group = num_heads / kv_heads
  int32_t first_position = 0;
  float scale = 0;
  bool scale_queries = false;       // where the model has the scale; only who rounds as libllama does must care
  int32_t window = 0;               // 0: all earlier positions
  const BlockPlan* plan = nullptr;  // null: dense; otherwise the blocks each segment reads
  KvView kv;
};

// One attention call is run by all workers together: each calls run() with its own index. `queue` starts reset and is
// shared; `scratch` is shared too, at least scratch_bytes(params, workers) bytes, 64-byte aligned, contents undefined,
// except that the first kScratchHeader bytes must be zero before the call.
inline constexpr size_t kScratchHeader = 4096;

struct AttentionVariant {
  std::string_view name;  // "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon", "neonfp16", "neonbf16"
  bool (*usable)();       // does this CPU (and this build) have it?
  // May this variant serve these KV element types? (Variants that multiply sixteen bits refuse other types: they
  // would lose bits.)
  bool (*accepts)(DType key_type, DType value_type);
  size_t (*scratch_bytes)(const AttentionParams& params, int workers);
  void (*run)(const AttentionParams& params, void* scratch, WorkQueue& queue, Worker worker);
};

// All variants compiled for this architecture, fastest first; the scalar reference is last and always usable.
const std::vector<const AttentionVariant*>& attention_variants();

// The fastest usable variant that accepts these types. `isa` (from EI_CPU_ISA, may be empty) caps the choice: only the
// variant of that name and those after it in the list are considered. Null when `isa` names no variant.
const AttentionVariant* choose_attention(DType key_type, DType value_type, std::string_view isa);

}  // namespace ei::kernels
