// Keys to 8 bits: one warp a panel, 16 bytes of the cache a lane at a time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/block_scores/cuda/rounded_keys.h"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 32 * kUnitPanels;  // a unit
constexpr int kPieceElements = 8;           // of 16 bytes

// Adding 1.5 * 2^23 leaves the rounded integer in the low bits.
__device__ uint32_t rounded_byte(float value) { return __float_as_uint(value + 12582912.0f) & 0xffu; }

// kPieces: pieces of a panel that a lane has.
template <typename T, int kPieces>
__global__ void __launch_bounds__(kThreads) round_keys_kernel(RoundKeys params) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const auto panel = static_cast<int32_t>(threadIdx.x / 32);  // in the unit
  const int64_t unit = blockIdx.x;
  const auto h = static_cast<int32_t>(blockIdx.y);
  const int32_t dim = params.pages.shape.head_dim;
  const KvLayout from = params.pages.layout();
  const KvLayout to{dim, 1};
  const int32_t per_row = dim / kPieceElements;
  const int64_t slot = unit * kUnitKeys + panel * kBlockKeys;
  const auto* page = static_cast<const char*>(params.heads[h].pages[slot / params.pages.shape.slots]);
  const auto in_page = static_cast<int32_t>(slot % params.pages.shape.slots);
  uint4 words[kPieces];
  float most = 0;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int32_t number = i * 32 + lane;  // piece number % per_row of key number / per_row
    words[i] = *reinterpret_cast<const uint4*>(
        page + from.piece_in_page(in_page + number / per_row, number % per_row * kPieceElements, false));
    const T* values = reinterpret_cast<const T*>(&words[i]);
#pragma unroll
    for (int e = 0; e < kPieceElements; ++e) most = fmaxf(most, fabsf(to_float(values[e])));
  }
  most = warp_max(most);
  const float inverse = most > 0 ? 127.0f / most : 0.0f;
  const int64_t place = h * params.out.units + unit;
  if (lane == 0) params.out.scales[place * kUnitPanels + panel] = most / 127.0f;
  auto* unit_bytes = static_cast<char*>(params.out.codes) + place * kUnitKeys * dim;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int32_t number = i * 32 + lane;
    const int32_t first = number % per_row * kPieceElements;  // element
    const UnitRow row = unit_row(panel, number / per_row);
    const T* values = reinterpret_cast<const T*>(&words[i]);
    uint32_t bytes[2] = {};
#pragma unroll
    for (int e = 0; e < kPieceElements; ++e) bytes[e / 4] |= rounded_byte(to_float(values[e]) * inverse) << (e % 4 * 8);
    const int32_t at = row.group * to.half_bytes() + to.piece_offset(row.row, first / 16) + first % 16;
    *reinterpret_cast<uint2*>(unit_bytes + at) = make_uint2(bytes[0], bytes[1]);
  }
}

template <typename T>
Status launch_type(const RoundKeys& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.units), static_cast<unsigned>(params.kv_heads));
  switch (params.pages.shape.head_dim) {
    case 64: round_keys_kernel<T, 2><<<grid, kThreads, 0, stream>>>(params); break;
    case 96: round_keys_kernel<T, 3><<<grid, kThreads, 0, stream>>>(params); break;
    case 128: round_keys_kernel<T, 4><<<grid, kThreads, 0, stream>>>(params); break;
    default: round_keys_kernel<T, 8><<<grid, kThreads, 0, stream>>>(params); break;
  }
  return launched("pack_keys");
}

}  // namespace

Status launch_round_keys(const RoundKeys& params, void* stream) {
  if (params.units == 0) return {};
  auto* queue = static_cast<cudaStream_t>(stream);
  return params.pages.shape.key_type == DType::kF16 ? launch_type<__half>(params, queue)
                                                    : launch_type<__nv_bfloat16>(params, queue);
}

}  // namespace ei::kernels::cuda
