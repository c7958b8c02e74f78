#include <algorithm>

#include "kernels/products/cuda/dequantise_cuda.h"
#include "kernels/products/cuda/weight_blocks.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count) {
  constexpr int64_t kMostBlocks = 1 << 16;
  return static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
}

template <typename Type, typename To>
__global__ void dequantise_kernel(const uint8_t* from, int64_t count, float scale, To* out) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const uint8_t* block = from + i / Type::kWeights * Type::kBytes;
    out[i] = from_float<To>(scale * Type::weight(block, static_cast<int>(i % Type::kWeights)));
  }
}

// A thread writes one byte of codes, and the first of a scale's block also that.
template <typename Type>
__global__ void split_kernel(const uint8_t* from, int64_t count, uint8_t* codes, __half* scales) {
  constexpr bool kNibbles = Type::kForm.codes == Codes::kNibbles;
  constexpr int kBlock = Type::kForm.block;
  const int64_t bytes = kNibbles ? count / 2 : count;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t at = first; at < bytes; at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    // Nibbles: byte j of a block of 32 holds weights j and j + 16.
    const int64_t weight = kNibbles ? at / 16 * 32 + at % 16 : at;
    const uint8_t* block = from + weight / Type::kWeights * Type::kBytes;
    const auto i = static_cast<int>(weight % Type::kWeights);
    codes[at] =
        static_cast<uint8_t>(kNibbles ? Type::code(block, i) | Type::code(block, i + 16) << 4 : Type::code(block, i));
    if (weight % kBlock != 0) continue;
    const float2 scale = Type::scale(block, i);
    if (kNibbles) {
      scales[weight / kBlock * 2] = __float2half_rn(scale.x);
      scales[weight / kBlock * 2 + 1] = __float2half_rn(scale.y);
    } else {
      scales[weight / kBlock] = __float2half_rn(scale.x);
    }
  }
}

// Eight weights as bf16, to where 16 bytes may be written at once.
__device__ void write_eight(const float (&values)[8], __nv_bfloat16* to) {
  __nv_bfloat162 pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}

// A thread has 16 bytes of codes: 16 weights, or a block of 32.
template <bool kNibbles>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(const uint4* codes, const __half* scales, int block, int64_t pieces, __nv_bfloat16* out) {
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  const uint4 bits = __ldcs(codes + piece);
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  constexpr int kEach = kNibbles ? 32 : 16;
  __nv_bfloat16* to = out + piece * kEach;
  float2 scale = make_float2(0, 0);
  if (kNibbles) {
    scale = __half22float2(reinterpret_cast<const __half2*>(scales)[piece]);
  } else {
    scale.x = __half2float(scales[piece * kEach / block]);
  }
#pragma unroll
  for (int eight = 0; eight < kEach / 8; ++eight) {
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = eight * 8 + i;  // nibbles: weights from 16 on lie above those before
      const uint32_t byte = words[at % 16 / 4] >> 8 * (at % 4) & 255u;
      const float code = kNibbles ? static_cast<float>(at < 16 ? byte & 15u : byte >> 4)
                                  : static_cast<float>(static_cast<int8_t>(byte));
      values[i] = kNibbles ? scale.x * code + scale.y : scale.x * code;
    }
    write_eight(values, to + eight * 8);
  }
}

}  // namespace

Status launch_decode_codes(const DeviceCodes& from, int64_t first, int64_t rows, void* out, void* stream) {
  if (rows == 0) return {};
  const bool nibbles = from.form.codes == Codes::kNibbles;
  const int64_t before = first * from.cols;
  const auto* codes =
      reinterpret_cast<const uint4*>(static_cast<const char*>(from.codes) + from.form.code_bytes(before));
  const auto* scales =
      reinterpret_cast<const __half*>(static_cast<const char*>(from.scales) + from.form.scale_bytes(before));
  const int64_t pieces = from.form.code_bytes(rows * from.cols) / static_cast<int64_t>(sizeof(uint4));
  auto* kernel = nibbles ? decode_kernel<true> : decode_kernel<false>;
  kernel<<<static_cast<unsigned>((pieces + kThreads - 1) / kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      codes, scales, from.form.block, pieces, static_cast<__nv_bfloat16*>(out));
  return launched("decoding weights");
}

bool dequantises(uint32_t ggml_type) {
  return with_weight_type(ggml_type, [](auto) {});
}

Status launch_dequantise(uint32_t ggml_type, const void* from, int64_t count, float scale, DType type, void* out,
                         void* stream) {
  if (count == 0) return {};
  const bool known = with_weight_type(ggml_type, [&](auto file_type) {
    using Type = decltype(file_type);
    EI_CHECK_EQ(count % Type::kWeights, 0);
    with_row_type(type, [&](auto to) {
      dequantise_kernel<Type><<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const uint8_t*>(from), count, scale, static_cast<decltype(to)*>(out));
    });
  });
  EI_CHECK(known);
  return launched("dequantise");
}

CodeForm code_form(uint32_t ggml_type) {
  CodeForm form;
  with_coded_type(ggml_type, [&](auto type) { form = decltype(type)::kForm; });
  return form;
}

Status launch_split_codes(uint32_t ggml_type, const void* from, int64_t first, int64_t count, const DeviceCodes& to,
                          void* stream) {
  if (count == 0) return {};
  const bool known = with_coded_type(ggml_type, [&](auto file_type) {
    using Type = decltype(file_type);
    EI_CHECK(count % Type::kWeights == 0 && first % Type::kWeights == 0);
    split_kernel<Type><<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const uint8_t*>(from), count, static_cast<uint8_t*>(to.codes) + to.form.code_bytes(first),
        reinterpret_cast<__half*>(static_cast<char*>(to.scales) + to.form.scale_bytes(first)));
  });
  EI_CHECK(known);
  return launched("split");
}

}  // namespace ei::kernels::cuda
