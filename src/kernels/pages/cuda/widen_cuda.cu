#include <algorithm>

#include "kernels/pages/cuda/fp8_elements.cuh"
#include "kernels/pages/cuda/widen_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr unsigned kMostCtas = 1056;  // eight for each multiprocessor of a large GPU

// A warp for each block of 8 keys; a lane has 8 codes at a time, so that lanes write whole lines, and several loads on
// their way.
__global__ void __launch_bounds__(32 * kWarps) widen_kernel(const __grid_constant__ WidenPages params) {
  constexpr int kAhead = 4;
  const auto h = static_cast<int32_t>(blockIdx.y);
  const DeviceKvHead head = params.heads[h];
  const Fp8Layout narrow{params.to.shape.head_dim};
  const int32_t blocks = (head.length + kBlockKeys - 1) / kBlockKeys;
  const int32_t page_blocks = params.to.shape.slots / kBlockKeys;
  const int32_t half = narrow.half_bytes() / 8;  // eights of keys, then of values
  const int32_t in_row = narrow.head_dim / 8;
  auto* own = static_cast<char*>(params.memory) + h * params.head_bytes;
  for (auto block = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / 32); block < blocks;
       block += static_cast<int32_t>(gridDim.x) * kWarps) {
    const int32_t page = block / page_blocks;
    const int32_t inside = block - page * page_blocks;
    const auto* from = static_cast<const uint8_t*>(head.pages[page]) + int64_t{inside} * narrow.block_bytes();
    const auto* exponents = reinterpret_cast<const int8_t*>(from + 2 * narrow.half_bytes());
    char* to = own + page * params.page_bytes;
    for (auto first = static_cast<int32_t>(threadIdx.x % 32); first < 2 * half; first += 32 * kAhead) {
      uint2 codes[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (first + 32 * k < 2 * half) codes[k] = reinterpret_cast<const uint2*>(from)[first + 32 * k];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int32_t i = first + 32 * k;
        if (i >= 2 * half) break;
        const bool value = i >= half;
        const int32_t row = (value ? i - half : i) / in_row;
        const int32_t dim = i % in_row * 8;
        const int64_t at =
            2 * params.to.element(int64_t{inside} * kBlockKeys + row, dim, value) + params.to.bytes_before(value);
        *reinterpret_cast<uint4*>(to + at) = widen_eight(codes[k], exponents[(value ? kBlockKeys : 0) + row]);
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
