// The launches of attention_cuda.h: arguments checked, work counted, kernels chosen.
#include <algorithm>

#include "base/check.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/launches.h"
#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {
namespace {

// Factors of the kernels, which take exponents of two; see PrefillArgs::scale.
constexpr float kLog2E = 1.44269504f;

bool hopper(const DeviceTraits& traits) {
  EI_CHECK(traits.set != KernelSet::kHopper || traits.capability == 90);
  return traits.set == KernelSet::kHopper || (traits.set == KernelSet::kAuto && traits.capability == 90);
}

void check_cache(const DeviceTraits& traits, const DeviceKv& kv, DType q_type, int32_t num_heads) {
  EI_CHECK(serves(traits, host_type(kv.type), kv.head_dim));
  EI_CHECK(kv.kv_heads > 0 && num_heads % kv.kv_heads == 0);
  EI_CHECK(kv.page_slots > 0 && kv.page_slots % kBlockKeys == 0);
  EI_CHECK(q_type == kv.type || q_type == DType::kF32);
}

// Two fit on an SM.
int32_t decode_ctas(const DeviceTraits& traits) { return 2 * traits.num_sms; }

int32_t decode_lines_per_head(const DecodeParams& params) {
  const int64_t rows = params.tokens * (params.num_heads / params.kv.kv_heads);
  return static_cast<int32_t>((rows + kLineRows - 1) / kLineRows);
}
// Counters come first in the workspace, a multiple of 256 bytes.
size_t decode_counter_bytes(const DecodeParams& params) {
  const size_t lines = static_cast<size_t>(decode_lines_per_head(params)) * static_cast<size_t>(params.kv.kv_heads);
  return (lines * sizeof(uint32_t) + 255) / 256 * 256;
}

DecodeArgs decode_args(const DecodeParams& params) {
  DecodeArgs args{};
  args.q = params.q;
  args.out = params.out;
  args.log_sum = params.log_sum;
  args.heads = params.kv.heads;
  args.arrived = static_cast<uint32_t*>(params.workspace);
  args.parts = reinterpret_cast<float*>(static_cast<std::byte*>(params.workspace) + decode_counter_bytes(params));
  args.q_stride = params.q_stride;
  args.out_stride = params.out_stride;
  args.tokens = static_cast<int32_t>(params.tokens);
  args.kv_heads = params.kv.kv_heads;
  args.group = params.num_heads / params.kv.kv_heads;
  args.window = params.window;
  args.page_blocks = params.kv.page_slots / kBlockKeys;
  args.lines_per_head = decode_lines_per_head(params);
  args.scale = params.softcap > 0 ? 2 * kLog2E * params.scale / params.softcap : kLog2E * params.scale;
  args.softcap = kLog2E * params.softcap;
  args.q_type = params.q_type;
  args.out_type = params.out_type;
  return args;
}

// One of a set of kernels by head_dim, in the order of the arguments.
template <typename Launch>
Launch of_dim(int32_t head_dim, Launch dim64, Launch dim96, Launch dim128, Launch dim256) {
  switch (head_dim) {
    case 64: return dim64;
    case 96: return dim96;
    case 128: return dim128;
    default: return dim256;
  }
}

}  // namespace

PrefillArgs prefill_args(const PrefillParams& params, int item_rows) {
  PrefillArgs args{};
  args.q = params.q;
  args.out = params.out;
  args.log_sum = params.log_sum;
  args.heads = params.kv.heads;
  args.next_item = static_cast<uint32_t*>(params.workspace);
  args.q_stride = params.q_stride;
  args.out_stride = params.out_stride;
  args.tokens = static_cast<int32_t>(params.tokens);
  args.kv_heads = params.kv.kv_heads;
  args.group = params.num_heads / params.kv.kv_heads;
  args.first_position = params.first_position;
  args.window = params.window;
  args.page_blocks = params.kv.page_slots / kBlockKeys;
  args.scale = params.softcap > 0 ? 2 * kLog2E * params.scale / params.softcap : kLog2E * params.scale;
  args.softcap = kLog2E * params.softcap;
  args.q_type = params.q_type;
  args.out_type = params.out_type;
  int64_t lists = args.kv_heads;
  int64_t tokens = params.tokens;
  if (const DevicePlan* plan = params.plan; plan != nullptr) {
    EI_CHECK(plan->block > 0 && plan->block % kBlockKeys == 0 && plan->segment % plan->block == 0);
    EI_CHECK_LE(int64_t{plan->first_segment} * plan->segment, params.first_position);
    EI_CHECK_GE(int64_t{plan->first_segment + plan->num_segments} * plan->segment,
                params.first_position + params.tokens);
    args.offsets = plan->offsets;
    args.blocks = plan->blocks;
    args.dense = plan->dense;
    args.order = plan->order;
    args.segment = plan->segment;
    args.block_parts = plan->block / kBlockKeys;
    args.first_segment = plan->first_segment;
    args.num_segments = plan->num_segments;
    lists *= plan->num_segments;
    tokens = std::min<int64_t>(tokens, plan->segment);
  }
  args.tiles = static_cast<int32_t>((tokens * args.group + item_rows - 1) / item_rows);
  args.item_rows = item_rows;
  args.items = static_cast<int32_t>(lists * args.tiles);
  return args;
}

size_t prefill_workspace_bytes() { return 256; }

Status launch_prefill(const DeviceTraits& traits, const PrefillParams& params, void* stream) {
  check_cache(traits, params.kv, params.q_type, params.num_heads);
  EI_CHECK(params.kv.type != DType::kF8);
  EI_CHECK(params.q_stride % 8 == 0 && params.out_stride % 8 == 0);
  EI_CHECK(params.workspace != nullptr && params.scale > 0);
  if (params.tokens == 0) return {};
  const int item_rows = hopper(traits) ? hopper_item_rows(params.kv.head_dim) : kPortableItemRows;
  const PrefillArgs args = prefill_args(params, item_rows);
  const auto to = static_cast<cudaStream_t>(stream);
  EI_RETURN_IF_ERROR(cuda_status(cudaMemsetAsync(args.next_item, 0, sizeof(uint32_t), to), "attention"));
  const int32_t dim = params.kv.head_dim;
  const auto launch = hopper(traits)
                          ? of_dim(dim, prefill_64_sm90a, prefill_96_sm90a, prefill_128_sm90a, prefill_256_sm90a)
                          : of_dim(dim, prefill_64_sm80, prefill_96_sm80, prefill_128_sm80, prefill_256_sm80);
  return cuda_status(launch(args, params.kv.type, traits.num_sms, to), "attention");
}

size_t decode_workspace_bytes(const DeviceTraits& traits, const DecodeParams& params) {
  const int64_t lines = int64_t{decode_lines_per_head(params)} * params.kv.kv_heads;
  const int64_t part_floats = int64_t{kLineRows} * (params.kv.head_dim + 2);
  return decode_counter_bytes(params) +
         static_cast<size_t>((decode_ctas(traits) + lines) * part_floats) * sizeof(float);
}

Status launch_decode(const DeviceTraits& traits, const DecodeParams& params, void* stream) {
  check_cache(traits, params.kv, params.q_type, params.num_heads);
  EI_CHECK(params.q_stride % 8 == 0 && params.out_stride % 8 == 0);
  EI_CHECK(params.workspace != nullptr && params.scale > 0);
  if (params.tokens == 0) return {};
  const auto launch = of_dim(params.kv.head_dim, decode_64, decode_96, decode_128, decode_256);
  return cuda_status(
      launch(decode_args(params), params.kv.type, decode_ctas(traits), static_cast<cudaStream_t>(stream)), "attention");
}

}  // namespace ei::kernels::cuda
