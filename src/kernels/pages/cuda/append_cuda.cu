#include <algorithm>

#include "kernels/pages/cuda/fp8_elements.cuh"
#include "kernels/pages/cuda/page_elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;

template <typename T>
__device__ void write_elements(const DevicePages& pages, void* page, int64_t slot, bool value, const float* head,
                               int lane) {
  auto* to = reinterpret_cast<T*>(static_cast<char*>(page) + pages.bytes_before(value));
  for (int32_t i = lane; i < pages.shape.head_dim; i += 32) to[pages.element(slot, i, value)] = from_float<T>(head[i]);
}

// 16 bytes at a time: rows of a block lie in pieces of eight elements.
template <typename T>
__device__ void write_pieces(const DevicePages& pages, void* page, int64_t slot, bool value, const float* head,
                             int lane) {
  const KvLayout layout = pages.layout();
  for (int32_t first = 8 * lane; first < pages.shape.head_dim; first += 8 * 32) {
    alignas(16) T piece[8];
    for (int i = 0; i < 8; ++i) piece[i] = from_float<T>(head[first + i]);
    *reinterpret_cast<uint4*>(static_cast<char*>(page) + layout.piece_in_page(slot, first, value)) =
        *reinterpret_cast<const uint4*>(piece);
  }
}

template <typename T>
__device__ void write_halves(const DevicePages& pages, void* page, int64_t slot, bool value, const float* head,
                             int lane) {
  if (pages.blocked) {
    write_pieces<T>(pages, page, slot, value, head, lane);
  } else {
    write_elements<T>(pages, page, slot, value, head, lane);
  }
}

__device__ void write_codes(const DevicePages& pages, void* page, int64_t slot, bool value, const float* head,
                            int lane) {
  const Fp8Layout layout = pages.codes();
  float largest = 0;
  for (int32_t i = lane; i < layout.head_dim; i += 32) largest = fmaxf(largest, fabsf(head[i]));
  const int32_t exponent = Fp8Layout::exponent_for(warp_max(largest));
  const float less = __int_as_float((127 - exponent) << 23);
  auto* codes = static_cast<char*>(page) + layout.row(slot, value);
  for (int32_t i = 4 * lane; i < layout.head_dim; i += 4 * 32)
    *reinterpret_cast<uint32_t*>(codes + i) =
        narrow_four(head[i] * less, head[i + 1] * less, head[i + 2] * less, head[i + 3] * less);
  if (lane == 0) static_cast<int8_t*>(page)[layout.exponent(slot, value)] = static_cast<int8_t>(exponent);
}

__device__ void write_row(const DevicePages& pages, void* page, int64_t slot, bool value, const float* head, int lane) {
  const DType type = pages.type(value);
  if (type == DType::kF8) {
    write_codes(pages, page, slot, value, head, lane);
  } else if (type == DType::kF32) {
    write_elements<float>(pages, page, slot, value, head, lane);
  } else if (type == DType::kBF16) {
    write_halves<__nv_bfloat16>(pages, page, slot, value, head, lane);
  } else {
    write_halves<__half>(pages, page, slot, value, head, lane);
  }
}

// Angles of a lane's first pairs, on their way while the head itself is.
struct EarlyAngles {
  static constexpr int kPairs = 2;  // of each lane: heads of 128
  float cos[kPairs];
  float sin[kPairs];
  __device__ EarlyAngles(const RotateAppend& params, int64_t token, int lane) {
    const int32_t half = params.dims / 2;
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
      const int32_t i = lane + 32 * k;
      cos[k] = i < half ? params.cos[token * half + i] : 0.0f;
      sin[k] = i < half ? params.sin[token * half + i] : 0.0f;
    }
  }
};

__device__ void rotate(const RotateAppend& params, int64_t token, const EarlyAngles& early, float* head, int lane) {
  const int32_t half = params.dims / 2;
#pragma unroll 2
  for (int32_t i = lane; i < half; i += 32) {
    const float cos = i < 32 ? early.cos[0] : i < 64 ? early.cos[1] : params.cos[token * half + i];
    const float sin = i < 32 ? early.sin[0] : i < 64 ? early.sin[1] : params.sin[token * half + i];
    float& a = head[params.interleaved ? 2 * i : i];
    float& b = head[params.interleaved ? 2 * i + 1 : i + half];
    const float x = a;
    const float y = b;
    a = x * cos - y * sin;
    b = x * sin + y * cos;
  }
}

// One warp for one head of one token: those of Q, then of K, then of V.
__global__ void __launch_bounds__(32 * kWarps, 6)
    rotate_append_kernel(RotateAppend params, int32_t heads, int32_t kv_heads) {
  extern __shared__ float heads_in_work[];
  const int32_t dim = params.pages.shape.head_dim;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int32_t all = heads + 2 * kv_heads;
  const uint32_t index = blockIdx.x * kWarps + static_cast<uint32_t>(warp);
  if (index >= params.q.rows * all) return;
  const int64_t token = index / static_cast<uint32_t>(all);
  const auto which = static_cast<int32_t>(index % static_cast<uint32_t>(all));
  const bool is_query = which < heads;
  const bool is_value = which >= heads + kv_heads;
  const int32_t number = is_query ? which : (which - heads) % kv_heads;
  const DeviceRows& rows = is_query ? params.q : is_value ? params.v : params.k;
  float* source = static_cast<float*>(rows.data) + token * rows.stride + static_cast<int64_t>(number) * dim;
  float* head = heads_in_work + warp * dim;
  const EarlyAngles early(params, token, lane);
  float squares = 0;
#pragma unroll 4
  for (int32_t i = lane; i < dim; i += 32) {
    const float value = source[i];
    head[i] = value;
    squares += value * value;
  }
  const float* gain = is_query ? params.q_gain : is_value ? nullptr : params.k_gain;
  if (gain != nullptr) {
    const float scale = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(dim) + params.eps);
    for (int32_t i = lane; i < dim; i += 32) head[i] = head[i] * scale * gain[i];
  }
  __syncwarp();
  if (!is_value) rotate(params, token, early, head, lane);
  __syncwarp();
  if (is_query) {
    for (int32_t i = lane; i < dim; i += 32) source[i] = head[i];
    return;
  }
  const int64_t slot = params.first_slots[number] + token;
  void* page = params.table[number * params.pages_per_head + slot / params.pages.shape.slots];
  write_row(params.pages, page, slot % params.pages.shape.slots, is_value, head, lane);
}

struct Moves {
  PageMove list[kMostMoves];
};

// A warp for each slot of a blocked page, in pieces of 16 bytes.
__device__ void move_pieces(const DevicePages& pages, const PageMove& move) {
  const KvLayout layout = pages.layout();
  const int32_t half = pages.shape.head_dim / 8;  // pieces of keys, then of values
  const auto* from = static_cast<const char*>(move.from);
  auto* to = static_cast<char*>(move.to);
  for (auto slot = static_cast<int32_t>(threadIdx.x / 32); slot < move.count;
       slot += static_cast<int32_t>(blockDim.x / 32)) {
    for (auto i = static_cast<int32_t>(threadIdx.x % 32); i < 2 * half; i += 32) {
      const bool value = i >= half;
      const int32_t dim = (value ? i - half : i) * 8;
      *reinterpret_cast<uint4*>(to + layout.piece_in_page(move.to_slot + slot, dim, value)) =
          *reinterpret_cast<const uint4*>(from + layout.piece_in_page(move.from_slot + slot, dim, value));
    }
  }
}

// The same for codes and their exponents.
__device__ void move_codes(const DevicePages& pages, const PageMove& move) {
  const Fp8Layout layout = pages.codes();
  const int32_t half = layout.head_dim / Fp8Layout::kPiece;
  const auto* from = static_cast<const char*>(move.from);
  auto* to = static_cast<char*>(move.to);
  for (auto slot = static_cast<int32_t>(threadIdx.x / 32); slot < move.count;
       slot += static_cast<int32_t>(blockDim.x / 32)) {
    const int64_t source = move.from_slot + slot;
    const int64_t target = move.to_slot + slot;
    for (auto i = static_cast<int32_t>(threadIdx.x % 32); i < 2 * half; i += 32) {
      const bool value = i >= half;
      const int32_t at = (value ? i - half : i) * Fp8Layout::kPiece;
      *reinterpret_cast<uint4*>(to + layout.row(target, value) + at) =
          *reinterpret_cast<const uint4*>(from + layout.row(source, value) + at);
    }
    if (threadIdx.x % 32 < 2) {
      const bool value = threadIdx.x % 32 == 1;
      to[layout.exponent(target, value)] = from[layout.exponent(source, value)];
    }
  }
}

__global__ void move_kernel(DevicePages pages, const __grid_constant__ Moves moves) {
  const PageMove& move = moves.list[blockIdx.x];
  if (pages.narrow()) return move_codes(pages, move);
  if (pages.blocked) return move_pieces(pages, move);
  const int32_t dim = pages.shape.head_dim;
  for (int part = 0; part < 2; ++part) {
    const bool value = part == 1;
    const bool wide = pages.type(value) == DType::kF32;
    const char* from = static_cast<const char*>(move.from) + pages.bytes_before(value);
    char* to = static_cast<char*>(move.to) + pages.bytes_before(value);
    for (int64_t i = threadIdx.x; i < static_cast<int64_t>(move.count) * dim; i += blockDim.x) {
      const int64_t slot = i / dim;
      const auto at = static_cast<int32_t>(i % dim);
      const int64_t source = pages.element(move.from_slot + slot, at, value);
      const int64_t target = pages.element(move.to_slot + slot, at, value);
      if (wide) {
        reinterpret_cast<uint32_t*>(to)[target] = reinterpret_cast<const uint32_t*>(from)[source];
      } else {
        reinterpret_cast<uint16_t*>(to)[target] = reinterpret_cast<const uint16_t*>(from)[source];
      }
    }
  }
}

}  // namespace

Status launch_rotate_append(const RotateAppend& params, void* stream) {
  const int32_t dim = params.pages.shape.head_dim;
  const auto heads = static_cast<int32_t>(params.q.cols / dim);
  const auto kv_heads = static_cast<int32_t>(params.k.cols / dim);
  const int64_t count = params.q.rows * (heads + 2 * kv_heads);
  if (count == 0) return {};
  EI_CHECK_LE(count, int64_t{1} << 31);
  const auto blocks = static_cast<unsigned>((count + kWarps - 1) / kWarps);
  const size_t shared = static_cast<size_t>(kWarps) * static_cast<size_t>(dim) * sizeof(float);
  rotate_append_kernel<<<blocks, kWarps * 32, shared, static_cast<cudaStream_t>(stream)>>>(params, heads, kv_heads);
  return launched("rotate_append");
}

Status launch_move_slots(const DevicePages& pages, std::span<const PageMove> moves, void* stream) {
  while (!moves.empty()) {
    const size_t count = std::min<size_t>(moves.size(), kMostMoves);
    Moves list;
    std::copy_n(moves.begin(), count, list.list);
    move_kernel<<<static_cast<unsigned>(count), 128, 0, static_cast<cudaStream_t>(stream)>>>(pages, list);
    EI_RETURN_IF_ERROR(launched("move_slots"));
    moves = moves.subspan(count);
  }
  return {};
}

}  // namespace ei::kernels::cuda
