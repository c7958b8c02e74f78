#include <algorithm>

#include "kernels/products/cuda/dequantise_cuda.h"
#include "kernels/products/cuda/weight_blocks.cuh"
#include "kernels/products/cuda/weight_codes.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count) {
  constexpr int64_t kMostBlocks = 1 << 16;
  return static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
}

template <typename Type, typename To>
__global__ void dequantise_kernel(Type type, const uint8_t* from, int64_t count, float scale, To* out) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const uint8_t* block = from + i / Type::kWeights * Type::kBytes;
    out[i] = from_float<To>(scale * type.weight(block, static_cast<int>(i % Type::kWeights)));
  }
}

template <typename Type>
__global__ void split_kernel(Type type, const uint8_t* from, int64_t count, uint8_t* codes, void* scales) {
  split_weights(type, from, count, codes, scales);
}

template <Codes kCodes>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(const uint4* codes, const void* scales, int block, int64_t pieces, __nv_bfloat16* out) {
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (piece < pieces) decode_piece<kCodes>(codes, scales, block, piece, out);
}

}  // namespace

Status launch_decode_codes(const DeviceCodes& from, int64_t first, int64_t rows, void* out, void* stream) {
  if (rows == 0) return {};
  const int64_t before = first * from.cols;
  const auto* codes =
      reinterpret_cast<const uint4*>(static_cast<const char*>(from.codes) + from.form.code_bytes(before));
  const void* scales = static_cast<const char*>(from.scales) + from.form.scale_bytes(before);
  const int64_t pieces = from.form.code_bytes(rows * from.cols) / static_cast<int64_t>(sizeof(uint4));
  const auto blocks = static_cast<unsigned>((pieces + kThreads - 1) / kThreads);
  with_codes(from.form.codes, [&](auto kind) {
    decode_kernel<decltype(kind)::value><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        codes, scales, from.form.block, pieces, static_cast<__nv_bfloat16*>(out));
  });
  return launched("decoding weights");
}

bool dequantises(uint32_t ggml_type) {
  return with_weight_type({ggml_type}, [](auto) {});
}

Status launch_dequantise(const FileType& from_type, const void* from, int64_t count, float scale, DType type, void* out,
                         void* stream) {
  if (count == 0) return {};
  const bool known = with_weight_type(from_type, [&](auto file_type) {
    using Type = decltype(file_type);
    EI_CHECK_EQ(count % Type::kWeights, 0);
    with_row_type(type, [&](auto to) {
      dequantise_kernel<Type><<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          file_type, static_cast<const uint8_t*>(from), count, scale, static_cast<decltype(to)*>(out));
    });
  });
  EI_CHECK(known);
  return launched("dequantise");
}

CodeForm code_form(uint32_t ggml_type) {
  CodeForm form;
  with_coded_type({ggml_type}, [&](auto type) { form = decltype(type)::kForm; });
  return form;
}

Status launch_split_codes(const FileType& from_type, const void* from, int64_t first, int64_t count,
                          const DeviceCodes& to, void* stream) {
  if (count == 0) return {};
  const bool known = with_coded_type(from_type, [&](auto file_type) {
    using Type = decltype(file_type);
    EI_CHECK(count % Type::kWeights == 0 && first % Type::kWeights == 0);
    split_kernel<Type><<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        file_type, static_cast<const uint8_t*>(from), count,
        static_cast<uint8_t*>(to.codes) + to.form.code_bytes(first),
        static_cast<char*>(to.scales) + to.form.scale_bytes(first));
  });
  EI_CHECK(known);
  return launched("split");
}

}  // namespace ei::kernels::cuda
