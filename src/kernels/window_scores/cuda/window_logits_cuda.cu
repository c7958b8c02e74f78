// Products of recorded queries with the keys of blocked pages by mma.sync. Queries are taken as the sum of two numbers
// of 16 bits, so that nothing but the keys' own rounding shows.
#include <algorithm>

#include "kernels/attention/cuda/mma.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/window_scores/cuda/window_logits.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlocks = 8;  // of a tile
constexpr int kTileKeys = kBlocks * kBlockKeys;
constexpr int64_t kMostCtas = 400;  // some for every multiprocessor there is

template <typename T>
__device__ uint32_t packed(float a, float b) {
  const T pair[2] = {from_float<T>(a), from_float<T>(b)};
  return *reinterpret_cast<const uint32_t*>(pair);
}

template <int kDim, typename T>
struct WindowTile {
  static constexpr int kHalf = KvLayout{kDim, 2}.half_bytes();
  static constexpr int kBytes = kBlocks * kHalf;

  const WindowScores& params;
  const DeviceKvHead& head;
  uint32_t memory;  // [2, kBytes]

  // Brings the keys of a tile into one half of the memory.
  __device__ void fetch(int64_t tile, int into) const {
    constexpr int kPieces = kHalf / 16;
    const int64_t page_blocks = params.pages.shape.slots / kBlockKeys;
    for (auto i = static_cast<int>(threadIdx.x); i < kBlocks * kPieces; i += kThreads) {
      const int64_t block = tile * kBlocks + i / kPieces;
      const bool there = block * kBlockKeys < head.length;
      const auto* page = static_cast<const uint8_t*>(head.pages[there ? block / page_blocks : 0]);
      copy_piece(memory + static_cast<uint32_t>(into * kBytes + i * 16),
                 page + (there ? block % page_blocks : 0) * (2 * kHalf) + i % kPieces * 16, there);
    }
    commit_copies();
  }

  // scores += (high + low) K^T of all blocks of a tile.
  __device__ void multiply(float (&scores)[4 * kBlocks], const uint32_t (&high)[kDim / 4],
                           const uint32_t (&low)[kDim / 4], int from) const {
    constexpr KvLayout kLayout{kDim, 2};
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int deep = 0; deep < kDim / 32; ++deep) {
      const uint32_t row =
          memory + static_cast<uint32_t>(from * kBytes + kLayout.piece_offset(lane % 8, 4 * deep + lane / 8));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        uint32_t b[4];
        load_matrices<false>(b, row + block * kHalf);
        multiply_add<T>(scores + 4 * block, high + 8 * deep, b[0], b[1]);
        multiply_add<T>(scores + 4 * block, high + 8 * deep + 4, b[2], b[3]);
        multiply_add<T>(scores + 4 * block, low + 8 * deep, b[0], b[1]);
        multiply_add<T>(scores + 4 * block, low + 8 * deep + 4, b[2], b[3]);
      }
    }
  }
};

// The words of a thread's two rows: what the type holds of them, or what is left of that.
template <int kDim, typename T>
__device__ void load_queries(const float* const (&rows)[2], bool rest, uint32_t (&q)[kDim / 4]) {
  const int column = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
  for (int i = 0; i < kDim / 4; ++i) {  // word 4 s + 2 h + r: step s of 16 columns, half h of them, row r
    const float* from = rows[i % 2];
    float2 pair = make_float2(0, 0);
    if (from != nullptr) pair = *reinterpret_cast<const float2*>(from + i / 4 * 16 + i / 2 % 2 * 8 + column);
    if (rest) {
      pair.x -= to_float(from_float<T>(pair.x));
      pair.y -= to_float(from_float<T>(pair.y));
    }
    q[i] = packed<T>(pair.x, pair.y);
  }
}

template <int kDim, typename T>
__global__ void __launch_bounds__(kThreads)
    logits_kernel(WindowScores params, int32_t kv_head, int32_t group, float* logits, int64_t stride) {
  using Tile = WindowTile<kDim, T>;
  __shared__ __align__(1024) uint8_t keys[2 * Tile::kBytes];
  const DeviceKvHead head = params.heads[kv_head];
  const Tile tile{params, head, static_cast<uint32_t>(__cvta_generic_to_shared(keys))};
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t rows = group * params.window;
  const int64_t tiles = (head.length + kTileKeys - 1) / kTileKeys;
  for (int64_t first = 0; first < rows; first += 16 * kWarps) {
    const float* queries[2];
    int64_t places[2];
    int32_t newest[2];
    for (int r = 0; r < 2; ++r) {
      places[r] = first + threadIdx.x / 32 * 16 + lane / 4 + 8 * r;
      const bool there = places[r] < rows;
      const int64_t query = there ? places[r] % params.window : 0;
      queries[r] =
          !there ? nullptr : params.q + query * params.q_stride + (kv_head * group + places[r] / params.window) * kDim;
      newest[r] = params.positions[query];
    }
    uint32_t high[kDim / 4];
    uint32_t low[kDim / 4];
    load_queries<kDim, T>(queries, false, high);
    load_queries<kDim, T>(queries, true, low);
    int at = 0;
    if (blockIdx.x < tiles) tile.fetch(blockIdx.x, at);
    for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x, at ^= 1) {
      if (number + gridDim.x < tiles) {
        tile.fetch(number + gridDim.x, at ^ 1);
        wait_copies<1>();
      } else {
        wait_copies<0>();
      }
      __syncthreads();
      float scores[4 * kBlocks] = {};
      tile.multiply(scores, high, low, at);
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) {  // word 4 b + 2 r: block b, row r
        const int r = i % 2;
        const int64_t slot = number * kTileKeys + i / 2 * kBlockKeys + lane % 4 * 2;
        float pair[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int64_t key = slot + c;
          const int32_t position = key < head.listed && key < head.length
                                       ? head.listed_positions[key]
                                       : head.tail_position + static_cast<int32_t>(key - head.listed);
          pair[c] = position > newest[r] ? -INFINITY : params.scale * scores[2 * i + c];
        }
        if (places[r] >= rows || slot >= head.length) continue;
        // Behind the last slot there is room up to the next one that is even.
        *reinterpret_cast<float2*>(logits + places[r] * stride + slot) = make_float2(pair[0], pair[1]);
      }
      __syncthreads();  // before the next but one tile comes
    }
  }
}

template <int kDim, typename T>
void launch(const WindowScores& params, const WindowLogits& to, cudaStream_t stream) {
  const int64_t tiles = (to.length + kTileKeys - 1) / kTileKeys;
  const auto ctas = static_cast<unsigned>(std::min(tiles, kMostCtas));
  logits_kernel<kDim, T><<<ctas, kThreads, 0, stream>>>(params, to.kv_head, to.group, to.logits, to.stride);
}

template <typename T>
bool launch_type(const WindowScores& params, const WindowLogits& to, cudaStream_t stream) {
  switch (params.pages.shape.head_dim) {
    case 64: launch<64, T>(params, to, stream); return true;
    case 96: launch<96, T>(params, to, stream); return true;
    case 128: launch<128, T>(params, to, stream); return true;
    default: return false;
  }
}

}  // namespace

bool launch_window_logits(const WindowScores& params, const WindowLogits& to, void* stream) {
  // Pairs of floats are read.
  if (!params.pages.blocked || params.q_stride % 2 != 0) return false;
  auto* queue = static_cast<cudaStream_t>(stream);
  return params.pages.shape.key_type == DType::kF16 ? launch_type<__half>(params, to, queue)
                                                    : launch_type<__nv_bfloat16>(params, to, queue);
}

}  // namespace ei::kernels::cuda
