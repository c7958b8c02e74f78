// The launches of a rating's products by mma.sync, for every GPU from compute capability 8.0 on.
#include <algorithm>

#include "kernels/attention/cuda/mma.cuh"
#include "kernels/attention/cuda/rows.cuh"
#include "kernels/block_scores/cuda/rating_sm80.cuh"

namespace ei::kernels::cuda {
namespace {

struct DeviceTools {
  // 16 bytes into shared memory, zeros where `take` is false.
  static __device__ __forceinline__ void copy(void* to, const void* from, bool take) {
    copy_piece(static_cast<uint32_t>(__cvta_generic_to_shared(to)), from, take);
  }
  static __device__ __forceinline__ void commit() { commit_copies(); }
  template <int kPending>
  static __device__ __forceinline__ void wait() {
    wait_copies<kPending>();
  }
  // sums[16 x 8] += a[16 x 32] b[32 x 8]
  static __device__ __forceinline__ void multiply(int32_t* sums, const uint32_t* a, uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  // sums[16 x 8] += a[16 x 16] b[16 x 8]
  template <typename T>
  static __device__ __forceinline__ void multiply(float* sums, const uint32_t* a, uint32_t b0, uint32_t b1) {
    multiply_add<T>(sums, a, b0, b1);
  }
  static __device__ __forceinline__ float exp2(float x) { return exp2_fast(x); }
};

template <class Tiles>
__global__ void __launch_bounds__(kTileThreads, Tiles::kDim <= 128 ? 2 : 1)
    tiles_kernel(const __grid_constant__ RatingArgs args, Products kind) {
  __shared__ typename Tiles::Shared shared;
  Tiles{args, {args.tasks, args.first_item[static_cast<int>(kind)]}, shared}.run();
}

template <class Tiles>
int launch_tiles(const RatingArgs& args, Products kind, int sms, cudaStream_t stream) {
  int per_sm = 0;
  const auto kernel = tiles_kernel<Tiles>;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kTileThreads, 0);
  if (error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(sms * std::max(per_sm, 1)), kTileThreads, 0, stream>>>(args, kind);
  return cudaGetLastError();
}

template <int kDim, typename T>
int launch_type(const RatingArgs& args, Products kind, int sms, cudaStream_t stream) {
  return kind == Products::kOwn
             ? launch_tiles<RatingTiles<kDim, T, Products::kOwn, DeviceTools>>(args, kind, sms, stream)
             : launch_tiles<RatingTiles<kDim, T, Products::kBounds, DeviceTools>>(args, kind, sms, stream);
}

template <int kDim>
int launch_dim(const RatingArgs& args, Products kind, int sms, cudaStream_t stream) {
  if (kind == Products::kPeaks) return launch_tiles<RoundedPeaks<kDim, DeviceTools>>(args, kind, sms, stream);
  return args.params.pages.shape.key_type == DType::kF16 ? launch_type<kDim, __half>(args, kind, sms, stream)
                                                         : launch_type<kDim, __nv_bfloat16>(args, kind, sms, stream);
}

}  // namespace

int rating_sm80(const RatingArgs& args, Products kind, int sms, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  switch (args.dim) {
    case 64: return launch_dim<64>(args, kind, sms, queue);
    case 96: return launch_dim<96>(args, kind, sms, queue);
    case 128: return launch_dim<128>(args, kind, sms, queue);
    default: return launch_dim<256>(args, kind, sms, queue);
  }
}

}  // namespace ei::kernels::cuda
