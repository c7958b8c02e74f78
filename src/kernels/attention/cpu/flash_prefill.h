// The prefill half of the flash driver (see flash.h).
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/attention/cpu/flash.h"
#include "kernels/attention/cpu/key_list.h"

namespace ei::kernels {

// One worker's memory for one query tile.
template <typename Isa>
struct PrefillScratch {
  typename Isa::Element* q;       // [rows, padded_dim]
  float* out;                     // [rows, padded_dim]
  float* max;                     // [rows]
  float* sum;                     // [rows]
  int64_t* begin;                 // [rows] visible entries of the key list
  int64_t* end;                   // [rows]
  typename Isa::Element* keys;    // [kKeys, padded_dim]
  typename Isa::Element* values;  // [kKeys, padded_dim]
  const void** key_rows;          // [kKeys]
  const void** value_rows;        // [kKeys]
  void* work;
  std::byte* unpacked;  // [kKeys] rows of q8_0
  size_t bytes;

  PrefillScratch(void* base, int64_t rows, int dim, int64_t unpacked_size) {
    Carver carver(base);
    q = carver.take<typename Isa::Element>(rows * dim);
    out = carver.take<float>(rows * dim);
    max = carver.take<float>(rows);
    sum = carver.take<float>(rows);
    begin = carver.take<int64_t>(rows);
    end = carver.take<int64_t>(rows);
    keys = carver.take<typename Isa::Element>(int64_t{Isa::kKeys} * dim);
    values = carver.take<typename Isa::Element>(int64_t{Isa::kKeys} * dim);
    key_rows = carver.take<const void*>(Isa::kKeys);
    value_rows = carver.take<const void*>(Isa::kKeys);
    work = carver.take<std::byte>(static_cast<int64_t>(Isa::work_bytes(dim)));
    unpacked = carver.take<std::byte>(unpacked_size);
    bytes = carver.used();
  }
};

template <typename Isa, typename Unpack>
class Prefill {
 public:
  static size_t scratch_bytes(const AttentionParams& params, int workers) {
    const int64_t rows = round_up(tile_tokens(params, 1) * group_of(params), Isa::kRows);
    const PrefillScratch<Isa> layout(nullptr, rows, Isa::padded_dim(params.kv.head_dim),
                                     unpacked_bytes<Unpack>(params.kv, Isa::kKeys));
    return layout.bytes * static_cast<size_t>(workers);
  }

  static void run(const AttentionParams& params, std::byte* scratch, WorkQueue& queue, Worker worker) {
    const int64_t kv_heads = static_cast<int64_t>(params.kv.heads.size());
    const QueryTiles tiles(params, tile_tokens(params, worker.count));
    std::byte* own = scratch + scratch_bytes(params, 1) * static_cast<size_t>(worker.index);
    const typename Isa::Session session(params.kv.head_dim);
    for (int64_t piece = queue.take(); piece < tiles.count() * kv_heads; piece = queue.take()) {
      Prefill(params, piece % kv_heads, tiles.tokens(piece / kv_heads), own).run_tile();
    }
  }

 private:
  static int64_t group_of(const AttentionParams& params) {
    return params.num_heads / static_cast<int64_t>(params.kv.heads.size());
  }

  // Many rows share a packed key tile, so that packing is a few percent, while their q and out stay in the L2 cache.
  // Whole blocks of them: the rows that fill up a block cost as much as real ones. Fewer rows when there would not be a
  // handful of pieces per worker. Rows are independent: the choice is free.
  static int64_t tile_tokens(const AttentionParams& params, int workers) {
    const int64_t pieces_wanted = workers > 1 ? int64_t{4} * workers : 1;
    const int64_t rows_of_kv_head = params.tokens * group_of(params);
    const int64_t rows_by_cache = std::clamp<int64_t>(32768 / params.kv.head_dim, 128, 512) / Isa::kRows * Isa::kRows;
    const int64_t rows_by_balance = rows_of_kv_head * static_cast<int64_t>(params.kv.heads.size()) / pieces_wanted;
    const int64_t rows = std::min(rows_by_cache, std::max<int64_t>(64, rows_by_balance));
    return std::clamp<int64_t>(rows / group_of(params), 1, std::max<int64_t>(1, params.tokens));
  }

  Prefill(const AttentionParams& params, int64_t kv_head, Range tokens, std::byte* scratch)
      : params_(params),
        kv_head_(kv_head),
        tokens_(tokens),
        group_(group_of(params)),
        rows_((tokens.end - tokens.begin) * group_),
        head_dim_(params.kv.head_dim),
        dim_(Isa::padded_dim(head_dim_)),
        blocks_((rows_ + Isa::kRows - 1) / Isa::kRows),
        scratch_(scratch, round_up(tile_tokens(params, 1) * group_, Isa::kRows), dim_,
                 unpacked_bytes<Unpack>(params.kv, Isa::kKeys)),
        list_(make_key_list(params, kv_head, tokens.begin)) {}

  void run_tile() {
    start();
    const int64_t first = *std::min_element(scratch_.begin, scratch_.begin + rows_);
    const int64_t last = *std::max_element(scratch_.end, scratch_.end + rows_);
    for (int64_t tile = first / Isa::kKeys * Isa::kKeys; tile < last; tile += Isa::kKeys)
      fold(tile, static_cast<int>(std::min<int64_t>(Isa::kKeys, last - tile)));
    finish();
  }

  // Row r is token r / group, head r % group of the group: neighbours see almost the same keys.
  template <typename T>
  void row_pointers(T* base, int64_t stride, int64_t block, int count, T** to) const {
    for (int i = 0; i < count; ++i) {
      const int64_t row = block * Isa::kRows + i;
      to[i] = base + (tokens_.begin + row / group_) * stride + (kv_head_ * group_ + row % group_) * head_dim_;
    }
  }
  int count_of(int64_t block) const {
    return static_cast<int>(std::min<int64_t>(Isa::kRows, rows_ - block * Isa::kRows));
  }

  void start() {
    const float scale = static_cast<float>(static_cast<double>(params_.scale) * kLog2e);
    const float* rows[Isa::kRows];
    for (int64_t block = 0; block < blocks_; ++block) {
      row_pointers(params_.q, params_.q_stride, block, count_of(block), rows);
      Isa::pack_queries(rows, count_of(block), head_dim_, scale, scratch_.q + block * Isa::kRows * dim_);
    }
    const int64_t padded = blocks_ * Isa::kRows;
    std::memset(scratch_.out, 0, static_cast<size_t>(padded * dim_) * sizeof(float));
    for (int64_t row = 0; row < padded; ++row) {
      scratch_.max[row] = kNoScore;
      scratch_.sum[row] = 0;
      // Rows that only fill up a block see what the last real row sees, so that they never force a mask.
      const int64_t real = std::min(row, rows_ - 1);
      const Range range = real % group_ == 0 && row == real
                              ? visible_keys(params_, list_, tokens_.begin + real / group_)
                              : Range{scratch_.begin[row - 1], scratch_.end[row - 1]};
      scratch_.begin[row] = range.begin;
      scratch_.end[row] = range.end;
    }
  }

  // Rows that the ISA reads in place of these, and their type: its own, or unpacked ones of q8_0.
  DType unpack(const void** rows, int count, DType type) {
    if (type != DType::kQ8_0) return type;
    const size_t row_bytes = dtype_row_bytes(Unpack::kType, head_dim_);
    for (int i = 0; i < count; ++i) {
      std::byte* to = scratch_.unpacked + static_cast<size_t>(i) * row_bytes;
      Unpack::unpack(rows[i], head_dim_, to);
      rows[i] = to;
    }
    return Unpack::kType;
  }

  // Folds entries [tile, tile + count) of the key list into every row that sees some of them.
  void fold(int64_t tile, int count) {
    gather_rows(params_.kv, list_, tile, count, scratch_.key_rows, scratch_.value_rows);
    const DType key_type = unpack(scratch_.key_rows, count, params_.kv.key_type);
    Isa::pack_keys(scratch_.key_rows, count, key_type, head_dim_, scratch_.keys);
    const DType value_type = unpack(scratch_.value_rows, count, params_.kv.value_type);
    Isa::pack_values(scratch_.value_rows, count, value_type, head_dim_, scratch_.values);
    for (int64_t index = 0; index < blocks_; ++index) {
      int32_t begin[Isa::kRows];
      int32_t end[Isa::kRows];
      RowBlock<Isa> block = block_at(index);
      block.begin = begin;
      block.end = end;
      block.first = Isa::kKeys;
      for (int i = 0; i < Isa::kRows; ++i) {
        const int64_t row = index * Isa::kRows + i;
        begin[i] = static_cast<int32_t>(std::clamp<int64_t>(scratch_.begin[row] - tile, 0, Isa::kKeys));
        end[i] = static_cast<int32_t>(std::clamp<int64_t>(scratch_.end[row] - tile, 0, Isa::kKeys));
        block.masked = block.masked || begin[i] > 0 || end[i] < Isa::kKeys;
        if (begin[i] >= end[i]) continue;
        block.first = std::min(block.first, begin[i]);
        block.last = std::max(block.last, end[i]);
      }
      if (block.first < block.last) Isa::attend(block, scratch_.keys, scratch_.values, head_dim_, scratch_.work);
    }
  }

  RowBlock<Isa> block_at(int64_t index) const {
    const int64_t row = index * Isa::kRows;
    RowBlock<Isa> block;
    block.q = scratch_.q + row * dim_;
    block.out = scratch_.out + row * dim_;
    block.max = scratch_.max + row;
    block.sum = scratch_.sum + row;
    block.rows = count_of(index);
    return block;
  }

  void finish() {
    float* rows[Isa::kRows];
    for (int64_t index = 0; index < blocks_; ++index) {
      row_pointers(params_.out, params_.out_stride, index, count_of(index), rows);
      Isa::finish(block_at(index), count_of(index), head_dim_, rows);
    }
  }

  const AttentionParams& params_;
  const int64_t kv_head_;
  const Range tokens_;
  const int64_t group_;
  const int64_t rows_;
  const int head_dim_;
  const int dim_;
  const int64_t blocks_;
  PrefillScratch<Isa> scratch_;
  const KeyList list_;
};

}  // namespace ei::kernels
