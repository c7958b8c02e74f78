// The decode half of the flash driver (see flash.h): few query rows over a long cache. Pieces are chunks of slots, so
// that all workers read memory even when there are fewer kv_heads than workers. Each chunk leaves a partial softmax;
// whoever finishes the last chunk of a kv_head joins them, always in slot order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/cpu/flash.h"
#include "kernels/attention/cpu/key_list.h"

namespace ei::kernels {

template <typename Isa, typename Unpack>
class Decode {
 public:
  static constexpr int64_t kChunk = 1024;  // slots per piece; fixed, so that results never depend on the workers
  static constexpr int kBlock = 128;       // slots per softmax step: scores and the K and V rows stay in the L1 cache

  static size_t scratch_bytes(const AttentionParams& params, int workers) {
    const Decode layout(params, nullptr, Worker{0, workers});
    return layout.bytes_;
  }

  // `header` holds one finished-chunk counter per kv_head, zero before the call.
  static void run(const AttentionParams& params, void* header, std::byte* scratch, WorkQueue& queue, Worker worker) {
    EI_CHECK_LE(params.kv.heads.size() * sizeof(int32_t), kScratchHeader);
    Decode decode(params, scratch, worker);
    const int64_t kv_heads = static_cast<int64_t>(params.kv.heads.size());
    for (int64_t piece = queue.take(); piece < decode.max_chunks_ * kv_heads; piece = queue.take()) {
      const int64_t kv_head = piece % kv_heads;
      const Range chunks = decode.chunks_of(kv_head);
      const int64_t chunk = piece / kv_heads;
      if (chunk >= chunks.end - chunks.begin) continue;
      decode.run_chunk(kv_head, chunk, (chunks.begin + chunk) * kChunk);
      std::atomic_ref<int32_t> finished(static_cast<int32_t*>(header)[kv_head]);
      if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks.end - chunks.begin)
        decode.join(kv_head, chunks.end - chunks.begin);
    }
  }

 private:
  Decode(const AttentionParams& params, std::byte* scratch, Worker worker)
      : params_(params),
        tokens_(static_cast<int>(params.tokens)),
        group_(params.num_heads / static_cast<int>(params.kv.heads.size())),
        rows_(tokens_ * group_),
        dim_(params.kv.head_dim),
        q_size_(int64_t{Isa::padded_rows(group_)} * dim_) {
    for (int64_t head = 0; head < static_cast<int64_t>(params.kv.heads.size()); ++head) {
      const Range chunks = chunks_of(head);
      max_chunks_ = std::max(max_chunks_, chunks.end - chunks.begin);
    }
    Carver carver(scratch);
    const int64_t partials = static_cast<int64_t>(params.kv.heads.size()) * max_chunks_ * rows_;
    max_ = carver.take<float>(partials);
    sum_ = carver.take<float>(partials);
    out_ = carver.take<float>(partials * dim_);
    for (int index = 0; index < worker.count; ++index) {
      auto* q = carver.take<typename Isa::Element>(tokens_ * q_size_);
      float* scores = carver.take<float>(int64_t{rows_} * kBlock);
      auto* unpacked = carver.take<std::byte>(unpacked_bytes<Unpack>(params.kv, kBlock));
      if (index != worker.index) continue;
      q_ = q;
      scores_ = scores;
      unpacked_ = unpacked;
    }
    bytes_ = carver.used();
  }

  // Chunks (anchored at slot 0) that hold something visible; one at least, so that every kv_head writes its rows.
  Range chunks_of(int64_t kv_head) const {
    const KeyList list = make_key_list(params_, kv_head, 0);
    const int64_t begin = visible_keys(params_, list, 0).begin;
    const int64_t end = visible_keys(params_, list, params_.tokens - 1).end;
    const int64_t first = begin / kChunk;
    return {first, std::max(first + 1, (end + kChunk - 1) / kChunk)};
  }
  int64_t partial_row(int64_t kv_head, int64_t chunk) const { return (kv_head * max_chunks_ + chunk) * rows_; }

  void run_chunk(int64_t kv_head, int64_t chunk, int64_t first_slot) {
    const KeyList list = make_key_list(params_, kv_head, 0);
    const int64_t head_length = list.head->length;
    pack_queries(kv_head);
    float* max = max_ + partial_row(kv_head, chunk);
    float* sum = sum_ + partial_row(kv_head, chunk);
    float* out = out_ + partial_row(kv_head, chunk) * dim_;
    std::fill(max, max + rows_, kNoScore);
    std::fill(sum, sum + rows_, 0.0f);
    std::fill(out, out + int64_t{rows_} * dim_, 0.0f);
    const int64_t begin = visible_keys(params_, list, 0).begin;
    const int64_t last = std::min(visible_keys(params_, list, params_.tokens - 1).end, head_length);
    const int64_t end = std::min(last, first_slot + kChunk);
    for (int64_t slot = first_slot; slot < end; slot += kBlock) {
      if (slot + kBlock <= begin) continue;
      const int count = static_cast<int>(std::min<int64_t>(kBlock, end - slot));
      for_page_runs(list, slot, count, [&](int at, int length, const void* keys, const void* values) {
        const Run run = unpack(
            {.rows = keys, .type = params_.kv.key_type, .ahead = rows_ahead(list, slot + at, last, keys, values).keys},
            length);
        for (int token = 0; token < tokens_; ++token) {
          Isa::scores(q_ + token * q_size_, group_, run.rows, length, run.type, dim_,
                      scores_ + int64_t{token} * group_ * kBlock + at, kBlock, run.ahead);
        }
      });
      softmax(list, slot, count, max, sum, out);
      for_page_runs(list, slot, count, [&](int at, int length, const void* keys, const void* values) {
        const Run run = unpack({.rows = values,
                                .type = params_.kv.value_type,
                                .ahead = rows_ahead(list, slot + at, last, keys, values).values},
                               length);
        for (int token = 0; token < tokens_; ++token) {
          const int64_t row = int64_t{token} * group_;
          Isa::accumulate(scores_ + row * kBlock + at, kBlock, group_, run.rows, length, run.type, dim_,
                          out + row * dim_, run.ahead);
        }
      });
    }
  }

  // Consecutive rows of one page, as the ISA reads them.
  struct Run {
    const void* rows;
    DType type;
    const void* ahead;
  };
  // Of q8_0 unpacked ones; what lies ahead of them is then nothing to ask for.
  Run unpack(const Run& run, int count) const {
    if (run.type != DType::kQ8_0) return run;
    Unpack::unpack(run.rows, int64_t{count} * dim_, unpacked_);
    return {.rows = unpacked_, .type = Unpack::kType, .ahead = unpacked_};
  }

  struct Rows {
    const void* keys;
    const void* values;
  };
  // The rows one block further on, or, where there are none, those of `slot` itself.
  Rows rows_ahead(const KeyList& list, int64_t slot, int64_t end, const void* keys, const void* values) const {
    Rows rows{keys, values};
    if (slot + kBlock < end) gather_rows(params_.kv, list, slot + kBlock, 1, &rows.keys, &rows.values);
    return rows;
  }

  void pack_queries(int64_t kv_head) {
    if (kv_head == packed_head_) return;
    packed_head_ = kv_head;
    const float scale = static_cast<float>(static_cast<double>(params_.scale) * kLog2e);
    const float* rows[kMaxPackRows];
    for (int token = 0; token < tokens_; ++token) {
      for (int begin = 0; begin < group_; begin += kMaxPackRows) {
        const int count = std::min(kMaxPackRows, group_ - begin);
        for (int i = 0; i < count; ++i)
          rows[i] = query_row(params_.q, params_.q_stride, kv_head, token * group_ + begin + i);
        Isa::pack_queries(rows, count, dim_, scale, q_ + token * q_size_ + int64_t{begin} * dim_);
      }
    }
  }
  template <typename T>
  T* query_row(T* base, int64_t stride, int64_t kv_head, int64_t row) const {
    return base + row / group_ * stride + (kv_head * group_ + row % group_) * dim_;
  }

  // Calls use(offset, length, keys, values) for each stretch of [slot, slot + count) that lies in one page.
  template <typename Use>
  void for_page_runs(const KeyList& list, int64_t slot, int count, Use use) const {
    for (int at = 0; at < count;) {
      const int64_t inside = (slot + at) % params_.kv.page_slots;
      const int length = static_cast<int>(std::min<int64_t>(count - at, params_.kv.page_slots - inside));
      const void* keys = nullptr;
      const void* values = nullptr;
      gather_rows(params_.kv, list, slot + at, 1, &keys, &values);
      use(at, length, keys, values);
      at += length;
    }
  }

  // Turns the scores of slots [slot, slot + count) into weights, row by row; what a row does not see weighs 0.
  void softmax(const KeyList& list, int64_t slot, int count, float* max, float* sum, float* out) {
    int begin = 0;
    int end = 0;
    for (int row = 0; row < rows_; ++row) {
      if (row % group_ == 0) {
        const Range range = visible_keys(params_, list, row / group_);
        begin = static_cast<int>(std::clamp<int64_t>(range.begin - slot, 0, count));
        end = std::max(begin, static_cast<int>(std::clamp<int64_t>(range.end - slot, 0, count)));
      }
      float* s = scores_ + int64_t{row} * kBlock;
      std::fill(s, s + begin, 0.0f);
      std::fill(s + end, s + count, 0.0f);
      if (begin == end) continue;
      const float highest = Isa::max(s + begin, end - begin);
      if (highest > max[row] + kLazyMax) {
        const float correction = std::exp2(max[row] - highest);
        sum[row] *= correction;
        for (int d = 0; d < dim_; ++d) out[int64_t{row} * dim_ + d] *= correction;
        max[row] = highest;
      }
      sum[row] += Isa::exp_sum(s + begin, end - begin, max[row]);
    }
  }

  void join(int64_t kv_head, int64_t chunks) {
    const int64_t base = partial_row(kv_head, 0);
    for (int row = 0; row < rows_; ++row) {
      float highest = kNoScore;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) highest = std::max(highest, max_[base + chunk * rows_ + row]);
      float* to = query_row(params_.out, params_.out_stride, kv_head, row);
      std::fill(to, to + dim_, 0.0f);
      float total = 0;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t partial = base + chunk * rows_ + row;
        const float weight = std::exp2(max_[partial] - highest);
        total += weight * sum_[partial];
        for (int d = 0; d < dim_; ++d) to[d] += weight * out_[partial * dim_ + d];
      }
      const float inverse = total > 0 ? 1.0f / total : 0.0f;
      for (int d = 0; d < dim_; ++d) to[d] *= inverse;
    }
  }

  static constexpr int kMaxPackRows = 16;

  const AttentionParams& params_;
  const int tokens_;
  const int group_;
  const int rows_;  // tokens x group
  const int dim_;
  const int64_t q_size_;  // packed queries of one token
  int64_t max_chunks_ = 0;
  int64_t packed_head_ = -1;
  float* max_;                          // [kv_heads, max_chunks, rows] partial softmax of every chunk
  float* sum_;                          // [kv_heads, max_chunks, rows]
  float* out_;                          // [kv_heads, max_chunks, rows, head_dim]
  typename Isa::Element* q_ = nullptr;  // this worker's packed queries
  float* scores_ = nullptr;             // [rows, kBlock]
  std::byte* unpacked_ = nullptr;       // [kBlock] rows of q8_0
  size_t bytes_ = 0;
};

}  // namespace ei::kernels
