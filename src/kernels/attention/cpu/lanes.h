// Attention with query rows in vector lanes, shared by the x86 variants: S^T = K Q^T and O^T = V^T P^T. Sixteen (or
// eight) queries sit side by side in one register, so the softmax runs down the rows of S^T without any horizontal
// step, and elements of K and V are broadcast from where they lie. V (vec_*.h) is the vector type.
#pragma once

#include <cstring>

#include "kernels/attention/cpu/flash.h"

namespace ei::kernels {

// 2^x. Degree 4: relative error 3e-6, enough where weights become bf16; degree 5: 1e-7.
template <int degree, typename V>
inline V exp2_of(V x) {
  const V magic = V::set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V whole = (x + magic) - magic;
  const V f = x - whole;
  V p;
  if constexpr (degree == 4) {
    p = V::set1(0.009582853f);
    p = V::fma(p, f, V::set1(0.05590643f));
    p = V::fma(p, f, V::set1(0.24024099f));
    p = V::fma(p, f, V::set1(0.6931242f));
  } else {
    p = V::set1(0.0013264727f);
    p = V::fma(p, f, V::set1(0.009671513f));
    p = V::fma(p, f, V::set1(0.055507336f));
    p = V::fma(p, f, V::set1(0.24022242f));
    p = V::fma(p, f, V::set1(0.693147f));
  }
  p = V::fma(p, f, V::set1(1.0f));
  return V::scale_by_power(p, whole);
}

// The online softmax of one block of rows over keys [first, last) of a tile; both are multiples of four.
//   score(key, v)         where the scores of `key` for the v-th vector of rows lie
//   emit(key, v, p0, p1)  takes the weights of keys key, key + 1
//   meanwhile()           called every 16 keys of the exp pass: other work to mix in
// Fills `correction`, what O must be multiplied by before the weights are used; false when that is 1 in every lane.
template <typename V, int vecs, int degree, bool masked, typename Isa, typename Score, typename Emit,
          typename Meanwhile>
inline bool softmax_lanes(const RowBlock<Isa>& block, int first, int last, V (&correction)[vecs], Score score,
                          Emit emit, Meanwhile meanwhile) {
  constexpr int kWidth = V::kWidth;
  const V none = V::set1(kNoScore);
  V begin[vecs], end[vecs], old_max[vecs], max[vecs], sum[vecs];
  for (int v = 0; v < vecs; ++v) {
    if constexpr (masked) {
      // Key k is seen when begin - 1 < k < end; small integers, so floats compare them exactly.
      float limits[2][kWidth];
      for (int i = 0; i < kWidth; ++i) {
        limits[0][i] = static_cast<float>(block.begin[v * kWidth + i] - 1);
        limits[1][i] = static_cast<float>(block.end[v * kWidth + i]);
      }
      begin[v] = V::load(limits[0]);
      end[v] = V::load(limits[1]);
    }
    old_max[v] = V::load(block.max + v * kWidth);
  }
  const auto seen = [&](int key, int v) {
    const V at = V::set1(static_cast<float>(key));
    return (begin[v] < at) & (at < end[v]);
  };
  for (int v = 0; v < vecs; ++v) {
    V best[4] = {none, none, none, none};  // four chains hide the latency of max
    for (int key = first; key < last; key += 4) {
      for (int i = 0; i < 4; ++i) {
        V s = V::load(score(key + i, v));
        if constexpr (masked) s = V::select(seen(key + i, v), s, none);
        best[i] = V::max(best[i], s);
      }
    }
    max[v] = V::max(V::max(best[0], best[1]), V::max(best[2], best[3]));
  }
  bool any_moved = false;
  for (int v = 0; v < vecs; ++v) {
    const auto moved = old_max[v] + V::set1(kLazyMax) < max[v];
    any_moved = any_moved || moved.any();
    max[v] = V::select(moved, max[v], old_max[v]);
    correction[v] = exp2_of<degree>(old_max[v] - max[v]);
    max[v].store(block.max + v * kWidth);
    sum[v] = V::load(block.sum + v * kWidth) * correction[v];
  }
  const auto weight = [&](int key, int v) {
    const V p = exp2_of<degree>(V::load(score(key, v)) - max[v]);
    if constexpr (masked) return V::select(seen(key, v), p, V::zero());
    return p;
  };
  for (int key = first; key < last; key += 2) {
    if (key % 16 == 0) meanwhile();
    for (int v = 0; v < vecs; ++v) {
      const V p0 = weight(key, v);
      const V p1 = weight(key + 1, v);
      sum[v] = sum[v] + (p0 + p1);
      emit(key, v, p0, p1);
    }
  }
  for (int v = 0; v < vecs; ++v) sum[v].store(block.sum + v * kWidth);
  return any_moved;
}

// Dispatches on block.masked, so that the common case carries no masks.
template <typename V, int vecs, int degree, typename Isa, typename Score, typename Emit, typename Meanwhile>
inline bool softmax_lanes(const RowBlock<Isa>& block, int first, int last, V (&correction)[vecs], Score score,
                          Emit emit, Meanwhile meanwhile) {
  if (block.masked) return softmax_lanes<V, vecs, degree, true>(block, first, last, correction, score, emit, meanwhile);
  return softmax_lanes<V, vecs, degree, false>(block, first, last, correction, score, emit, meanwhile);
}

// Columns [at, at + kWidth) of up to kWidth rows, transposed; zeros where there is no row or no column.
template <typename V>
inline void load_transposed(const float* const* rows, int count, int at, int cols, V (&to)[V::kWidth]) {
  const int wide = cols - at < V::kWidth ? cols - at : V::kWidth;
  for (int i = 0; i < V::kWidth; ++i) to[i] = i < count ? V::load_first(rows[i] + at, wide, 0) : V::zero();
  V::transpose(to);
}

// rows[r][d] = out(d)[r] / sum[r] for one vector of rows. out(d) is where element d of these rows lies.
template <typename V, typename Out>
inline void finish_lanes(const float* sum, int count, int head_dim, float* const* rows, Out out) {
  constexpr int kWidth = V::kWidth;
  float inverse[kWidth];
  for (int i = 0; i < kWidth; ++i) inverse[i] = sum[i] > 0 ? 1.0f / sum[i] : 0.0f;
  const V factor = V::load(inverse);
  for (int at = 0; at < head_dim; at += kWidth) {
    const int wide = head_dim - at < kWidth ? head_dim - at : kWidth;
    V block[kWidth];
    for (int i = 0; i < kWidth; ++i) block[i] = i < wide ? V::load(out(at + i)) * factor : V::zero();
    V::transpose(block);
    for (int i = 0; i < kWidth && i < count; ++i) block[i].store_first(rows[i] + at, wide);
  }
}

// `high` rows of C += A B, C[high, vecs * kWidth]: A is broadcast element by element from a(row, depth), B is read from
// b(depth, v), vectors of lanes. With `pairs` an element is two bf16 and one step multiplies two.
template <typename V, int high, int vecs, bool pairs, typename A, typename B>
inline void multiply_lanes(V (&c)[high][vecs], int depth, A a, B b) {
  for (int i = 0; i < depth; ++i) {
    V right[vecs];
    for (int v = 0; v < vecs; ++v) right[v] = V::load(b(i, v));
    for (int row = 0; row < high; ++row) {
      const V left = V::set1(*a(row, i));
      for (int v = 0; v < vecs; ++v) {
        if constexpr (pairs) {
          c[row][v] = V::dot_pairs(left, right[v], c[row][v]);
        } else {
          c[row][v] = V::fma(left, right[v], c[row][v]);
        }
      }
    }
  }
}

}  // namespace ei::kernels
