// The loops behind WindowVariant, over any vector type V (vec_*.h). Lanes are queries: sixteen rows of one query head
// are multiplied by every key at once, so maximum and sum of the softmax need no step across lanes, and the only
// horizontal sum is the score of a slot itself.
//
// A piece multiplies all keys first, [keys, 16], and takes the weights against the highest products then: equal keys
// get equal scores, wherever they lie, and a ranking breaks their tie by the slot. Products are scaled behind the
// difference to the highest, so that large ones lose nothing. Product multiplies, and says how it wants the queries:
//   static constexpr int kQueryWords;                                      // 32-bit words of a query element
//   static bool accepts(const KvView& kv);
//   static void pack(const float* q, int row, int32_t dim, void* queries);    // q null: zeros
//   static void multiply(const void* queries, const KvView& kv, const KvHeadView& head, int64_t slot, int64_t end,
//                        float* keys, float* products);
// the last for kTile keys from `slot` on, of which those from `end` on are zeros; `keys` is room for [kTile, dim]
// floats. V and Product live in unnamed namespaces, so every variant file compiles its own copy.
#pragma once

#include <cmath>

#include "kernels/attention/cpu/flash.h"
#include "kernels/attention/cpu/lanes.h"
#include "kernels/simd/q8_rows.h"
#include "kernels/window_scores/cpu/window_scores.h"

namespace ei::kernels {

struct WindowTile {
  static constexpr int kRows = 16;
  static constexpr int kKeys = 4;   // multiplied together
  static constexpr int kTile = 64;  // keys; a multiple of kKeys
};

// Products of floats, any key type.
template <typename V>
struct FloatProduct : WindowTile {
  static constexpr int kVecs = kRows / V::kWidth;
  static constexpr int kQueryWords = 1;

  static bool accepts(const KvView& kv) { return kv.head_dim % V::kWidth == 0; }

  static void pack(const float* q, int row, int32_t dim, void* queries) {
    auto* to = static_cast<float*>(queries) + row;  // [dim, kRows]
    for (int64_t d = 0; d < dim; ++d) to[d * kRows] = q != nullptr ? q[d] : 0.0f;
  }

  static void multiply(const void* queries, const KvView& kv, const KvHeadView& head, int64_t slot, int64_t end,
                       float* keys, float* logits) {
    const int64_t dim = kv.head_dim;
    load_keys(kv, head, slot, end, keys);
    for (int64_t key = 0; key < kTile; key += kKeys)
      multiply_keys(static_cast<const float*>(queries), keys + key * dim, dim, logits + key * kRows);
  }

  static void load_keys(const KvView& kv, const KvHeadView& head, int64_t slot, int64_t end, float* keys) {
    const int64_t dim = kv.head_dim;
    for (int64_t key = 0; key < kTile; ++key) {
      const void* page = slot + key < end ? head.key_pages[(slot + key) / kv.page_slots] : nullptr;
      const int64_t begin = (slot + key) % kv.page_slots * dim;
      if (page != nullptr && kv.key_type == DType::kQ8_0) {
        unpack_q8(static_cast<const Q8Block*>(page) + begin / kQ8Elements, dim, keys + key * dim);
        continue;
      }
      for (int64_t d = 0; d < dim; d += V::kWidth) {
        const V values = page != nullptr ? V::load_typed(page, kv.key_type, begin + d, V::kWidth) : V::zero();
        values.store(keys + key * dim + d);
      }
    }
  }

 private:
  // Not inlined: on its own it keeps its sums in registers.
  [[gnu::noinline]] static void multiply_keys(const float* queries, const float* keys, int64_t dim, float* logits) {
    V sums[kKeys][kVecs];
    for (int key = 0; key < kKeys; ++key)
      for (int v = 0; v < kVecs; ++v) sums[key][v] = V::zero();
    for (int64_t d = 0; d < dim; ++d) {
      V rows[kVecs];
      for (int v = 0; v < kVecs; ++v) rows[v] = V::load(queries + d * kRows + v * V::kWidth);
      for (int key = 0; key < kKeys; ++key) {
        const V element = V::set1(keys[key * dim + d]);
        for (int v = 0; v < kVecs; ++v) sums[key][v] = V::fma(rows[v], element, sums[key][v]);
      }
    }
    for (int key = 0; key < kKeys; ++key)
      for (int v = 0; v < kVecs; ++v) sums[key][v].store(logits + key * kRows + v * V::kWidth);
  }
};

template <typename V, typename Product>
struct WindowLoops : WindowTile {
  static constexpr int kVecs = kRows / V::kWidth;
  static constexpr float kLeastExponent = -150;  // 2^-150 is 0

  // One piece: `rows` queries of one query head.
  struct Piece {
    int64_t head = 0;
    int64_t batch = 0;
    int64_t first_row = 0;
    int64_t rows = 0;
  };
  // What a worker works in.
  struct Room {
    float* weights = nullptr;  // [slots rounded up to kTile, kRows]: products first
    float* queries = nullptr;  // packed
    float* keys = nullptr;     // [kTile, head_dim]
  };

  static int64_t batches(const WindowScoreParams& params) { return (params.window + kRows - 1) / kRows; }
  static int64_t longest(const WindowScoreParams& params) {
    int64_t slots = 0;
    for (const KvHeadView& head : params.kv.heads) slots = head.length > slots ? head.length : slots;
    return (slots + kTile - 1) / kTile * kTile;
  }
  static int64_t room_floats(const WindowScoreParams& params) {
    return kRows * longest(params) + (kRows * Product::kQueryWords + kTile) * int64_t{params.kv.head_dim};
  }
  // The first batch of a head writes its scores in place, the others theirs to [batches - 1, num_heads, longest].
  static int64_t partial_floats(const WindowScoreParams& params) {
    return (batches(params) - 1) * params.num_heads * longest(params);
  }
  // Entropies of every batch of every head, summed over its rows: [batches, num_heads], in front of the workers' rooms.
  static int64_t entropy_floats(const WindowScoreParams& params) {
    return params.entropy != nullptr ? (batches(params) * params.num_heads + 15) / 16 * 16 : 0;
  }
  static float* partial(const WindowScoreParams& params, float* scratch, int64_t batch, int64_t head) {
    if (batch == 0) return params.scores + head * params.score_stride;
    return scratch + ((batch - 1) * params.num_heads + head) * longest(params);
  }

  static bool accepts(const KvView& kv) { return Product::accepts(kv); }

  static Room room_at(const WindowScoreParams& params, float* rooms, Worker worker) {
    Room room;
    room.weights = rooms + worker.index * room_floats(params);
    room.queries = room.weights + kRows * longest(params);
    room.keys = room.queries + kRows * Product::kQueryWords * int64_t{params.kv.head_dim};
    return room;
  }

  static Piece piece_at(const WindowScoreParams& params, int64_t index) {
    Piece piece{.head = index / batches(params), .batch = index % batches(params)};
    piece.first_row = piece.batch * kRows;
    const int64_t left = params.window - piece.first_row;
    piece.rows = left < kRows ? left : kRows;
    return piece;
  }

  static size_t scratch_bytes(const WindowScoreParams& params, int workers) {
    const int64_t floats = partial_floats(params) + entropy_floats(params) + workers * room_floats(params);
    return static_cast<size_t>(floats) * sizeof(float);
  }

  static void score(const WindowScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    auto* memory = static_cast<float*>(scratch);
    float* entropies = memory + partial_floats(params);
    const Room room = room_at(params, entropies + entropy_floats(params), worker);
    const int64_t pieces = batches(params) * params.num_heads;
    for (int64_t index = queue.take(); index < pieces; index = queue.take()) {
      const Piece piece = piece_at(params, index);
      const float entropy = score_piece(params, piece, room, partial(params, memory, piece.batch, piece.head));
      if (params.entropy != nullptr) entropies[piece.batch * params.num_heads + piece.head] = entropy;
    }
  }

  static void merge(const WindowScoreParams& params, void* scratch, Worker worker) {
    const int64_t group = params.num_heads / static_cast<int64_t>(params.kv.heads.size());
    for (int64_t head = 0; head < params.num_heads; ++head) {
      const Range slots = even_share(params.kv.heads[static_cast<size_t>(head / group)].length, worker);
      float* sum = params.scores + head * params.score_stride;
      for (int64_t batch = 1; batch < batches(params); ++batch) {
        const float* more = partial(params, static_cast<float*>(scratch), batch, head);
        for (int64_t slot = slots.begin; slot < slots.end; ++slot) sum[slot] += more[slot];
      }
    }
    if (params.entropy != nullptr && worker.index == 0) merge_entropy(params, static_cast<const float*>(scratch));
  }

  // Weights of a piece in room.weights [slots, kRows], of as many slots as any of its rows sees, which it returns. A
  // row's times its share are its attention over `rows`; entropies where they are wanted.
  template <bool kEntropy>
  static int64_t weigh_piece(const WindowScoreParams& params, const Piece& piece, const Room& room, float rows,
                             float (&share)[kRows], float (&entropy)[kRows]) {
    const int64_t group = params.num_heads / static_cast<int64_t>(params.kv.heads.size());
    const KvHeadView& head = params.kv.heads[static_cast<size_t>(piece.head / group)];
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = (piece.first_row + r) * params.q_stride + piece.head * params.kv.head_dim;
      Product::pack(r < piece.rows ? params.q + at : nullptr, r, params.kv.head_dim, room.queries);
    }
    int64_t seen[kRows] = {};  // slots [0, seen) are not behind the row; rows that are none see nothing
    int64_t all = head.length;
    int64_t most = 0;
    for (int64_t r = 0; r < piece.rows; ++r) {
      seen[r] = first_slot_at_or_after(head, params.positions[piece.first_row + r] + 1);
      all = seen[r] < all ? seen[r] : all;
      most = seen[r] > most ? seen[r] : most;
    }
    V max[kVecs];
    for (int v = 0; v < kVecs; ++v) max[v] = V::set1(kNoScore);
    for (int64_t slot = 0; slot < most; slot += kTile) {
      float* tile = room.weights + slot * kRows;
      Product::multiply(room.queries, params.kv, head, slot, most, room.keys, tile);
      const int64_t end = most - slot < kTile ? most - slot : kTile;
      for (int64_t key = all > slot ? all - slot : 0; key < end; ++key)
        for (int64_t r = 0; r < kRows; ++r)
          if (slot + key >= seen[r]) tile[key * kRows + r] = kNoScore;
      for (int64_t key = 0; key < end; ++key)
        for (int v = 0; v < kVecs; ++v) max[v] = V::max(max[v], V::load(tile + key * kRows + v * V::kWidth));
    }
    const auto scale = static_cast<float>(static_cast<double>(params.scale) * kLog2e);
    weigh<kEntropy>(room.weights, most, max, scale, share, entropy);
    for (int64_t r = 0; r < kRows; ++r) {
      share[r] = seen[r] > 0 ? 1.0f / (share[r] * rows) : 0.0f;
      if (seen[r] == 0) entropy[r] = 0;
    }
    return most;
  }

 private:
  static void merge_entropy(const WindowScoreParams& params, const float* scratch) {
    const float* entropies = scratch + partial_floats(params);
    for (int64_t head = 0; head < params.num_heads; ++head) {
      float sum = 0;
      for (int64_t batch = 0; batch < batches(params); ++batch) sum += entropies[batch * params.num_heads + head];
      params.entropy[head] = sum / static_cast<float>(params.window);
    }
  }

  // The entropies of the rows, added up, where they are wanted.
  static float score_piece(const WindowScoreParams& params, const Piece& piece, const Room& room, float* out) {
    const int64_t group = params.num_heads / static_cast<int64_t>(params.kv.heads.size());
    const KvHeadView& head = params.kv.heads[static_cast<size_t>(piece.head / group)];
    const auto rows = static_cast<float>(params.window);
    float share[kRows];
    float entropy[kRows] = {};
    const int64_t most = params.entropy != nullptr ? weigh_piece<true>(params, piece, room, rows, share, entropy)
                                                   : weigh_piece<false>(params, piece, room, rows, share, entropy);
    add_up(room.weights, most, share, out);
    for (int64_t slot = most; slot < head.length; ++slot) out[slot] = 0;
    float spread = 0;
    for (int64_t r = 0; r < kRows; ++r) spread += entropy[r];
    return spread;
  }

  // Products become weights 2^x, x = scale (product - max); `sums`: of every row, S. Where they are wanted, entropies
  // of the rows as well: with weights 2^x / S that is ln S - ln 2 * sum(2^x x) / S.
  template <bool kEntropy>
  static void weigh(float* weights, int64_t slots, const V (&max)[kVecs], float scale, float* sums, float* entropies) {
    const V factor = V::set1(scale);
    V sum[kVecs];
    V product[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = product[v] = V::zero();
    for (int64_t slot = 0; slot < slots; ++slot) {
      for (int v = 0; v < kVecs; ++v) {
        float* at = weights + slot * kRows + v * V::kWidth;
        const V exponent = (V::load(at) - max[v]) * factor;
        const V weight = exp2_of<5>(exponent);
        weight.store(at);
        sum[v] = sum[v] + weight;
        // Below this a weight is nothing, and its exponent may be beyond all numbers.
        if constexpr (kEntropy) product[v] = V::fma(weight, V::max(exponent, V::set1(kLeastExponent)), product[v]);
      }
    }
    for (int v = 0; v < kVecs; ++v) sum[v].store(sums + v * V::kWidth);
    if constexpr (!kEntropy) return;
    for (int v = 0; v < kVecs; ++v) product[v].store(entropies + v * V::kWidth);
    for (int r = 0; r < kRows; ++r)
      if (sums[r] > 0) entropies[r] = std::log(sums[r]) - entropies[r] / (sums[r] * static_cast<float>(kLog2e));
  }

  // out[slot] = the weights of the slot, each row's times its share.
  static void add_up(const float* weights, int64_t slots, const float* share, float* out) {
    V factor[kVecs];
    for (int v = 0; v < kVecs; ++v) factor[v] = V::load(share + v * V::kWidth);
    for (int64_t slot = 0; slot < slots; ++slot) {
      V sum = V::load(weights + slot * kRows) * factor[0];
      for (int v = 1; v < kVecs; ++v) sum = V::fma(V::load(weights + slot * kRows + v * V::kWidth), factor[v], sum);
      out[slot] = sum.sum();
    }
  }
};

}  // namespace ei::kernels
