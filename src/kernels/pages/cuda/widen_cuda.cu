#include <algorithm>

#include "kernels/pages/cuda/fp8_elements.cuh"
#include "kernels/pages/cuda/widen_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr unsigned kMostCtas = 1056;  // eight for each multiprocessor of a large GPU

// A warp for each block of 8 keys; a lane has 16 codes at a time, of one row.
__global__ void __launch_bounds__(32 * kWarps) widen_kernel(const __grid_constant__ WidenPages params) {
  const auto h = static_cast<int32_t>(blockIdx.y);
  const DeviceKvHead head = params.heads[h];
  const Fp8Layout narrow{params.to.shape.head_dim};
  const int32_t blocks = (head.length + kBlockKeys - 1) / kBlockKeys;
  const int32_t page_blocks = params.to.shape.slots / kBlockKeys;
  const int32_t half = narrow.half_bytes() / Fp8Layout::kPiece;    // pieces of keys, then of values
  const int32_t row_pieces = narrow.head_dim / Fp8Layout::kPiece;  // of a row
  auto* own = static_cast<char*>(params.memory) + h * params.head_bytes;
  for (auto block = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / 32); block < blocks;
       block += static_cast<int32_t>(gridDim.x) * kWarps) {
    const int32_t page = block / page_blocks;
    const int32_t inside = block - page * page_blocks;
    const auto* from = static_cast<const uint8_t*>(head.pages[page]) + int64_t{inside} * narrow.block_bytes();
    const auto* exponents = reinterpret_cast<const int8_t*>(from + 2 * narrow.half_bytes());
    char* to = own + page * params.page_bytes;
    for (auto i = static_cast<int32_t>(threadIdx.x % 32); i < 2 * half; i += 32) {
      const bool value = i >= half;
      const int32_t in_half = value ? i - half : i;
      const int32_t row = in_half / row_pieces;
      const int32_t dim = (in_half - row * row_pieces) * Fp8Layout::kPiece;
      uint4 pieces[2];
      widen_piece(reinterpret_cast<const uint4*>(from)[i], exponents[(value ? kBlockKeys : 0) + row], pieces);
      const int64_t slot = int64_t{inside} * kBlockKeys + row;
      for (int part = 0; part < 2; ++part) {
        const int64_t at = 2 * params.to.element(slot, dim + 8 * part, value) + params.to.bytes_before(value);
        *reinterpret_cast<uint4*>(to + at) = pieces[part];
      }
    }
  }
}

}  // namespace

Status launch_widen(const WidenPages& params, void* stream) {
  if (params.longest == 0) return {};
  const int64_t blocks = (params.longest + kBlockKeys - 1) / kBlockKeys;
  const auto ctas = static_cast<unsigned>((blocks + kWarps - 1) / kWarps);
  const dim3 grid(std::min(ctas, std::max(kMostCtas / static_cast<unsigned>(params.kv_heads), 1u)),
                  static_cast<unsigned>(params.kv_heads));
  widen_kernel<<<grid, 32 * kWarps, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return launched("widening the cache");
}

}  // namespace ei::kernels::cuda
