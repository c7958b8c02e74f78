// The flash-attention driver shared by all ISA variants: what an ISA must provide, and how it becomes a variant.
//
// Prefill (flash_prefill.h): a piece of work is a tile of query rows (tokens x the heads of one group) of one kv_head.
// Each key tile is gathered from the pages and packed once into the ISA's layout, then every block of rows folds it:
// S = Q K^T, online softmax in base 2, O += P V. Decode (flash_decode.h): few rows, so the keys are split instead.
//
// Everything here is a template over the ISA, and ISA structs live in unnamed namespaces: every variant file gets its
// own copy compiled with its own instructions, and none leaks into code that runs on older CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"

namespace ei::kernels {

// Smaller than any score, yet finite: rows that have seen nothing keep it, and differences never become NaN.
inline constexpr float kNoScore = -1e30f;
inline constexpr double kLog2e = 1.4426950408889634;
// A row's maximum follows its scores only when they pass it by this much: weights may then reach 2^8, which costs no
// precision, and almost every tile or block leaves O as it is. Each row decides for itself, by its own scores.
inline constexpr float kLazyMax = 8;

// kRows query rows while one key tile is folded into them. Layouts of q and out are the ISA's own.
template <typename Isa>
struct RowBlock {
  const typename Isa::Element* q = nullptr;  // [kRows, padded_dim], from pack_queries
  float* out = nullptr;                      // [kRows, padded_dim], unnormalised, zero at first
  float* max = nullptr;                      // [kRows], kNoScore at first
  float* sum = nullptr;                      // [kRows], zero at first
  // Row r sees the keys [begin[r], end[r]) of the tile, possibly none. Others must weigh exactly 0 and leave the row
  // bit for bit as it was: that is what makes results independent of how a prompt is cut.
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
  int32_t first = 0;    // no row sees a key before `first`
  int32_t last = 0;     // or one from `last` on
  bool masked = false;  // false: every row sees all kKeys keys of the tile
  int32_t rows = 0;     // rows that are wanted; those behind them may be left alone
};

// A prefill ISA is a struct of static members:
//
//   using Element = ...;                    // packed element: float, or uint16_t holding bf16
//   static constexpr int kRows, kKeys;      // rows per block, keys per tile
//   static int padded_dim(int head_dim);    // what the layouts below are sized for, a multiple of 8
//   static size_t work_bytes(int padded_dim);
//                                           // private memory of one worker for attend(): S, P, ...; 64-byte aligned
//   struct Session { explicit Session(int head_dim); ~Session(); };   // held by a worker around its pieces (AMX tiles)
//
//   // Rows behind `count` become zeros. `scale` already holds log2(e).
//   static void pack_queries(const float* const* rows, int count, int head_dim, float scale, Element* to);
//   static void pack_keys(const void* const* rows, int count, DType type, int head_dim, Element* to);
//   static void pack_values(const void* const* rows, int count, DType type, int head_dim, Element* to);
//   static void attend(const RowBlock<Isa>& block, const Element* keys, const Element* values, int head_dim, void*
//   work);
//   // rows[r] = out[r] / sum[r], zeros where sum[r] == 0
//   static void finish(const RowBlock<Isa>& block, int count, int head_dim, float* const* rows);
//
// A decode ISA (reads K and V rows where they lie, `count` consecutive rows of one page; `rows` are those of one token,
// so that what a row gives does not depend on other tokens):
//
//   using Element = ...;
//   static int padded_rows(int rows);      // q is sized [padded_rows, head_dim]
//   static void pack_queries(const float* const* rows, int count, int head_dim, float scale, Element* to);
//   static void scores(const Element* q, int rows, const void* keys, int count, DType type, int head_dim,
//                      float* s, int s_stride, const void* ahead);
//   static float max(const float* s, int count);                    // count >= 1
//   static float exp_sum(float* s, int count, float max);           // s = c exp2(s - max), s - max <= kLazyMax, c the
//                                                                   // ISA's constant; returns their sum
//   static void accumulate(const float* p, int p_stride, int rows, const void* values, int count, DType type,
//                          int head_dim, float* out, const void* ahead);   // out[rows, head_dim] += p values
//
// `ahead` is where the rows wanted one block later begin: an ISA may ask for as many of them as it reads, or ignore it.
//
// No ISA sees q8_0: a third struct unpacks such rows, a tile or a block at a time, to a type that the ISA reads. Its
// loops go over unpacked rows in the L1 cache, while from memory comes half of what f16 would take.
//
//   static constexpr DType kType;
//   static void unpack(const void* from, int64_t count, void* to);   // elements, whole rows

// Up to this many tokens a call without a plan takes the decode path, unless they belong to a prompt.
inline constexpr int64_t kDecodeTokens = 4;
inline bool is_decode(const AttentionParams& params) {
  return params.plan == nullptr && !params.prompt && params.tokens <= kDecodeTokens;
}

constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

inline bool has_q8(const KvView& kv) { return kv.key_type == DType::kQ8_0 || kv.value_type == DType::kQ8_0; }
// Bytes of `rows` unpacked rows; none where nothing is to be unpacked.
template <typename Unpack>
int64_t unpacked_bytes(const KvView& kv, int64_t rows) {
  return has_q8(kv) ? rows * static_cast<int64_t>(dtype_row_bytes(Unpack::kType, kv.head_dim)) : 0;
}

// Cuts one piece of memory into 64-byte aligned arrays; with a null base it only counts the bytes.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <typename T>
  T* take(int64_t count) {
    T* array = base_ != nullptr ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += static_cast<size_t>(round_up(count * static_cast<int64_t>(sizeof(T)), 64));
    return array;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace ei::kernels
