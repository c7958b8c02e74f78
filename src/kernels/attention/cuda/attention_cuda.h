// Attention on a GPU: what the cuda backend fills in and launches. The maths is attention.h's; keys and values lie as
// kv_layout.h says. No CUDA header is needed to include this.
//
// Everything a pointer here leads to is device memory and is read when the kernel runs, not when it is launched:
// lengths, page tables and lists may be written by earlier work of the same stream, and a captured graph sees what is
// there at each replay. Launches only enqueue; they return errors of arguments (EI_CHECK where only a bug can cause
// them) and of the launch itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {

// One kv_head of one layer, as KvHeadView on the device: `length` slots in pages of page_slots slots.
struct DeviceKvHead {
  const void* const* pages = nullptr;         // [ceil(length / page_slots)] device addresses, 128-byte aligned
  const int32_t* listed_positions = nullptr;  // [listed], ascending; null without
  int32_t length = 0;
  int32_t listed = 0;         // slots whose positions are listed: what survived a compaction
  int32_t tail_position = 0;  // position of slot `listed`; the slots behind it are consecutive
  int32_t unused = 0;
};

// One layer. Keys and values have one type, bf16 or f16 (decoding: fp8 too, whose pages lie as fp8_layout.h says), and
// head_dim is 64, 96, 128 or 256. Rows of a block behind
// `length` are never used, whatever they hold.
struct DeviceKv {
  DType type = DType::kBF16;
  int32_t head_dim = 0;
  int32_t page_slots = 0;  // a multiple of 8
  int32_t kv_heads = 0;
  const DeviceKvHead* heads = nullptr;  // [kv_heads]
};

// BlockPlan on the device. `block` is a multiple of 8 and divides `segment`. A plan speaks of slots that are positions:
// heads with listed positions are not allowed beside it.
struct DevicePlan {
  int32_t segment = 0;
  int32_t block = 0;
  int32_t first_segment = 0;
  int32_t num_segments = 0;
  const uint8_t* dense = nullptr;    // [num_segments], or null: none is dense
  const int64_t* offsets = nullptr;  // [kv_heads * num_segments + 1]
  const int32_t* blocks = nullptr;   // [offsets.back()], ascending inside a list
  // Lists in the order in which they are begun, longest first (order_lists fills it); null: kv_head by kv_head.
  const int32_t* order = nullptr;  // [kv_heads * num_segments]
};

// The queries of a chunk at positions first_position + [0, tokens), against everything in the cache they may see.
struct PrefillParams {
  const void* q = nullptr;   // [tokens, num_heads, head_dim], already rotated; 16-byte aligned
  void* out = nullptr;       // [tokens, num_heads, head_dim]; 16-byte aligned
  float* log_sum = nullptr;  // [tokens, num_heads], or null: log of the sum of exp(scores); -inf where nothing is seen
  DType q_type = DType::kBF16;    // that of the cache, or f32 (rounded to the cache's)
  DType out_type = DType::kBF16;  // bf16, f16 or f32
  int64_t q_stride = 0;           // elements between two tokens, a multiple of 8
  int64_t out_stride = 0;         // elements between two tokens, a multiple of 8
  int64_t tokens = 0;
  int32_t num_heads = 0;  // a multiple of kv.kv_heads
  int32_t first_position = 0;
  float scale = 0;
  float softcap = 0;                 // > 0: scores become softcap * tanh(scale * q.k / softcap)
  int32_t window = 0;                // 0: all earlier positions
  const DevicePlan* plan = nullptr;  // a host struct of device pointers; null: dense
  DeviceKv kv;
  void* workspace = nullptr;  // prefill_workspace_bytes(); one per stream
};

// The last `tokens` slots of every head are the query rows themselves; positions follow from the heads, so that a
// captured graph needs no new arguments from token to token.
struct DecodeParams {
  const void* q = nullptr;
  void* out = nullptr;
  float* log_sum = nullptr;
  DType q_type = DType::kBF16;
  DType out_type = DType::kBF16;
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  int64_t tokens = 1;  // few: keys are read once per 16 rows of tokens * group
  int32_t num_heads = 0;
  float scale = 0;
  float softcap = 0;
  int32_t window = 0;
  DeviceKv kv;
  void* workspace = nullptr;  // decode_workspace_bytes(); one per stream, zeroed once before its first use
};

// hopper: wgmma, compute capability 9.0 only; portable: mma.sync, 8.0 and later. Decoding has one kernel for both.
enum class KernelSet : uint8_t { kAuto, kHopper, kPortable };

// Facts of the current device that launches need; asked once.
struct DeviceTraits {
  int32_t capability = 0;  // 90: compute capability 9.0
  int32_t num_sms = 0;
  KernelSet set = KernelSet::kAuto;  // kAuto: the best the device can run
};
Result<DeviceTraits> device_traits(int device);

// Whether the kernels serve such a cache on such a device. One in fp8 is decoded where one in f16 is.
bool serves(const DeviceTraits& traits, DType kv_type, int32_t head_dim);

size_t prefill_workspace_bytes();
size_t decode_workspace_bytes(const DeviceTraits& traits, const DecodeParams& params);

// `stream` is a cudaStream_t.
Status launch_prefill(const DeviceTraits& traits, const PrefillParams& params, void* stream);
Status launch_decode(const DeviceTraits& traits, const DecodeParams& params, void* stream);
// order = the lists of the plan, longest first (equal ones by number), with many segments kv_head by kv_head.
// [kv_heads * num_segments]
Status order_lists(const DevicePlan& plan, int32_t kv_heads, int32_t* order, void* stream);

}  // namespace ei::kernels::cuda
