// The prefill ISA on matrix tiles (contract in flash.h, method in lanes.h), bf16 only. A column is 16 query rows; two
// of them, a pair, go through the tiles together, so that every tile of K or V that comes from the second-level cache
// is multiplied twice.
//
// The matrix unit and the vector unit work at the same time: while the softmax of pair p runs, the products O^T of pair
// p - 1 and then S^T of pair p + 1 are fed to the tiles a few at a time. The weights of a pair take the place of its
// scores, which keeps both pairs in the first-level cache.
#pragma once

#include "kernels/attention/cpu/lanes.h"

namespace ei::kernels {

template <typename V, typename Tiles>
struct LanesTiles {
  static_assert(V::kWidth == 16);
  static constexpr int kPairs = 4;
  static constexpr int kColumns = 2 * kPairs;
  static constexpr int kRows = 16 * kColumns;
  static constexpr int kKeys = 128;
  static constexpr int kStripe = 32;         // keys or elements of O that a step multiplies: two tiles
  static constexpr int kTileElements = 512;  // bf16 of one tile of K or V: 16 rows of 32

  using Element = uint16_t;
  static int padded_dim(int head_dim) { return static_cast<int>(round_up(head_dim, 32)); }
  static size_t work_bytes(int /*padded_dim*/) { return sizeof(Work); }
  struct Session {
    explicit Session(int /*head_dim*/) : before(Tiles::configure()) {}
    ~Session() { Tiles::restore(before); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    typename Tiles::Config before;
  };

  // to[column][dim / 2][16 rows][2]: tiles of B
  static void pack_queries(const float* const* rows, int count, int head_dim, float scale, Element* to) {
    const int dim = padded_dim(head_dim);
    const V factor = V::set1(scale);
    for (int column = 0; column < kColumns; ++column) {
      for (int at = 0; at < dim; at += 16) {
        V block[16];
        load_transposed<V>(rows + column * 16, at < head_dim ? count - column * 16 : 0, at, head_dim, block);
        for (int i = 0; i < 16; i += 2) {
          store_bits(V::pair(block[i] * factor, block[i + 1] * factor), to + (column * dim + at + i) * 16);
        }
      }
    }
  }

  // to[kKeys / 16][dim / 32][16 keys][32]: tiles of A
  static void pack_keys(const void* const* rows, int count, DType /*type*/, int head_dim, Element* to) {
    const int dim = padded_dim(head_dim);
    for (int key = 0; key < kKeys; ++key) {
      Element* tile_row = to + key / 16 * 16 * dim + key % 16 * 32;
      for (int at = 0; at < dim; at += 32, tile_row += kTileElements) {
        const int wide = key >= count ? 0 : head_dim - at < 32 ? head_dim - at : 32;
        if (wide == 32) {
          std::memcpy(tile_row, static_cast<const Element*>(rows[key]) + at, 64);
          continue;
        }
        std::memset(tile_row, 0, 64);
        if (wide > 0)
          std::memcpy(tile_row, static_cast<const Element*>(rows[key]) + at,
                      sizeof(Element) * static_cast<size_t>(wide));
      }
    }
  }

  // to[dim / 16][kKeys / 32][16 elements][32 keys]: tiles of A, V transposed
  static void pack_values(const void* const* rows, int count, DType /*type*/, int head_dim, Element* to) {
    alignas(64) static constexpr Element kZeros[16] = {};
    alignas(64) Element tails[32][16];
    for (int at = 0; at < padded_dim(head_dim); at += 16) {
      const int wide = head_dim - at < 16 ? head_dim - at : 16;
      for (int first = 0; first < kKeys; first += 32) {
        const Element* from[32];
        for (int key = 0; key < 32; ++key) {
          from[key] = kZeros;
          if (first + key >= count || wide <= 0) continue;
          from[key] = static_cast<const Element*>(rows[first + key]) + at;
          if (wide == 16) continue;
          std::memcpy(tails[key], kZeros, sizeof(kZeros));
          std::memcpy(tails[key], from[key], sizeof(Element) * static_cast<size_t>(wide));
          from[key] = tails[key];
        }
        V block[16];
        for (int i = 0; i < 16; ++i) block[i] = V::zip(from[2 * i], from[2 * i + 1]);
        V::transpose(block);
        for (int i = 0; i < 16; ++i) store_bits(block[i], to + at * kKeys + first / 32 * kTileElements + i * 32);
      }
    }
  }

  // Not inlined: on its own it keeps its pointers and constants in registers.
  [[gnu::noinline]] static void attend(const RowBlock<LanesTiles>& block, const Element* keys, const Element* values,
                                       int head_dim, void* memory) {
    auto& work = *static_cast<Work*>(memory);
    const int dim = padded_dim(head_dim);
    const int first = block.first / kStripe * kStripe;
    const int last = static_cast<int>(round_up(block.last, kStripe));
    const int pairs = (block.rows + 31) / 32;
    const auto scores_of = [&](int pair) {
      return Product{.a = keys + first * dim,
                     .a_tiles = dim / 32,
                     .b = block.q + pair * 32 * dim,
                     .b_column = 16 * dim,
                     .c = work.scores[pair % 2][0] + first * 16,
                     .c_column = kKeys * 16,
                     .high = (last - first) / 16,
                     .depth = dim / 32,
                     .from_zero = true};
    };
    const auto outputs_of = [&](int pair) {
      return Product{.a = values + first / 32 * kTileElements,
                     .a_tiles = kKeys / 32,
                     .b = weights_of(work, pair, 0) + first * 16,
                     .b_column = kKeys * 32,
                     .c = block.out + pair * 32 * dim,
                     .c_column = 16 * dim,
                     .high = dim / 16,
                     .depth = (last - first) / 32,
                     .from_zero = false};
    };
    scores_of(0).finish();
    for (int pair = 0; pair < pairs; ++pair) {
      Product behind = pair > 0 ? outputs_of(pair - 1) : Product{};
      Product ahead = pair + 1 < pairs ? scores_of(pair + 1) : Product{};
      // Both products' steps, spread evenly over the 16-key stretches of the softmax. The scores of the next pair go
      // where the weights of the last one lie: only when those have been used.
      const int stretches = 2 * (last - first) / 16;
      const int share = (ahead.steps() + behind.steps() + stretches - 1) / stretches;
      for (int column = 2 * pair; column < 2 * pair + 2; ++column) {
        softmax_column(block, column, first, last, dim, work, [&] {
          for (int i = 0; i < share; ++i) {
            if (!behind.step()) ahead.step();
          }
        });
      }
      behind.finish();
      ahead.finish();
    }
    outputs_of(pairs - 1).finish();
  }

  static void finish(const RowBlock<LanesTiles>& block, int count, int head_dim, float* const* rows) {
    for (int column = 0; column < kColumns && column * 16 < count; ++column) {
      const float* out = block.out + column * 16 * padded_dim(head_dim);
      finish_lanes<V>(block.sum + column * 16, count - column * 16, head_dim, rows + column * 16,
                      [&](int d) { return out + d * 16; });
    }
  }

 private:
  struct alignas(64) Work {
    float scores[2][2][kKeys * 16];  // [pair parity][column of the pair][key][row]; then the weights, half as wide
  };
  // [key / 2][row][2]: tiles of B
  static Element* weights_of(Work& work, int pair, int column) {
    return reinterpret_cast<Element*>(work.scores[pair % 2][column]);
  }

  // C (+)= A B for the two columns of a pair, in steps of two tiles of A by one tile of each column's B: four loads for
  // four products.
  struct Product {
    const Element* a = nullptr;  // tile (row, i) at a + (row * a_tiles + i) * kTileElements
    int a_tiles = 0;
    const Element* b = nullptr;  // tile i at b + i * kTileElements
    int b_column = 0;            // elements from one column's B to the other's
    float* c = nullptr;          // tile (row) at c + row * 256
    int c_column = 0;
    int high = 0;   // tiles of C, even
    int depth = 0;  // tiles of B
    bool from_zero = true;
    int row = 0;
    int inner = 0;

    int steps() const { return high / 2 * depth; }
    void finish() {
      while (step()) {
      }
    }
    bool step() {
      if (row >= high || depth == 0) return false;
      float* sums = c + row * 256;
      if (inner == 0) start(sums);
      const Element* left = a + (row * a_tiles + inner) * kTileElements;
      const Element* right = b + inner * kTileElements;
      Tiles::template load<4>(left);
      Tiles::template load<6>(right);
      Tiles::template dot<0, 4, 6>();
      Tiles::template load<7>(right + b_column);
      Tiles::template dot<1, 4, 7>();
      Tiles::template load<5>(left + a_tiles * kTileElements);
      Tiles::template dot<2, 5, 6>();
      Tiles::template dot<3, 5, 7>();
      if (++inner < depth) return true;
      Tiles::template store<0>(sums);
      Tiles::template store<1>(sums + c_column);
      Tiles::template store<2>(sums + 256);
      Tiles::template store<3>(sums + c_column + 256);
      inner = 0;
      row += 2;
      return true;
    }

   private:
    void start(const float* sums) {
      if (from_zero) {
        Tiles::template zero<0>();
        Tiles::template zero<1>();
        Tiles::template zero<2>();
        Tiles::template zero<3>();
      } else {
        Tiles::template load<0>(sums);
        Tiles::template load<1>(sums + c_column);
        Tiles::template load<2>(sums + 256);
        Tiles::template load<3>(sums + c_column + 256);
      }
    }
  };

  template <typename Meanwhile>
  static void softmax_column(const RowBlock<LanesTiles>& block, int column, int first, int last, int dim, Work& work,
                             Meanwhile meanwhile) {
    RowBlock<LanesTiles> own = block;
    own.max += column * 16;
    own.sum += column * 16;
    own.begin += column * 16;
    own.end += column * 16;
    const float* scores = work.scores[column / 2 % 2][column % 2];
    Element* weights = weights_of(work, column / 2, column % 2);
    V correction[1];
    const bool moved = softmax_lanes<V, 1, 4>(
        own, first, last, correction, [&](int key, int) { return scores + key * 16; },
        [&](int key, int, V p0, V p1) { store_bits(V::pair(p0, p1), weights + key * 16); }, meanwhile);
    if (!moved) return;
    float* out = block.out + column * 16 * dim;
    for (int d = 0; d < dim; ++d) (V::load(out + d * 16) * correction[0]).store(out + d * 16);
  }

  static void store_bits(V lanes, Element* to) { lanes.store(reinterpret_cast<float*>(to)); }
};

}  // namespace ei::kernels
