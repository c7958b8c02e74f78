// Random attention inputs in the ragged store's shape, and a way to run a variant on them: for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/random.h"
#include "kernels/attention/attention.h"

namespace ei::kernels {

struct AttentionShape {
  int32_t head_dim = 64;
  int32_t kv_heads = 1;
  int32_t group = 1;
  int64_t tokens = 1;   // query rows; they are the last `tokens` positions
  int64_t context = 1;  // positions in the cache, the query rows included
  int32_t page_slots = 128;
  int32_t window = 0;
  DType key_type = DType::kF32;
  DType value_type = DType::kF32;
  bool compacted = false;  // every kv_head drops its own random share of the slots before the query rows
};

// Under a sanitizer the slow reference is many times slower: there one shape in six is run, always the same ones.
inline bool left_out(const AttentionShape& shape) {
#ifdef EI_SANITIZED
  uint64_t mix = 0;
  for (const int64_t fact : {int64_t{shape.head_dim}, int64_t{shape.kv_heads}, int64_t{shape.group}, shape.tokens,
                             shape.context, int64_t{shape.page_slots}, int64_t{shape.window},
                             int64_t{static_cast<int>(shape.key_type)}, int64_t{shape.compacted}}) {
    mix = (mix ^ static_cast<uint64_t>(fact)) * 0x9e3779b97f4a7c15u;
  }
  return (mix >> 40) % 6 != 0;
#else
  static_cast<void>(shape);
  return false;
#endif
}

// Owns queries, pages and positions of one random case.
class RandomAttention {
 public:
  RandomAttention(const AttentionShape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    const int64_t width = int64_t{shape.kv_heads} * shape.group * shape.head_dim;
    // Peaked softmax rows find errors that a flat average hides, so queries are larger than unit normal.
    q_.resize(static_cast<size_t>(shape.tokens * width));
    for (float& element : q_) element = 1.5f * random_.normal();
    positions_.resize(static_cast<size_t>(shape.kv_heads));
    for (int32_t head = 0; head < shape.kv_heads; ++head) fill_head(head);
  }
  RandomAttention(const RandomAttention&) = delete;
  RandomAttention& operator=(const RandomAttention&) = delete;

  const AttentionShape& shape() const { return shape_; }
  int64_t width() const { return int64_t{shape_.kv_heads} * shape_.group * shape_.head_dim; }
  const KvView& view() const { return view_; }

  // Rows [begin, begin + count) of the case, written to out[count, width]; the cache ends at the last of these rows.
  AttentionParams params(int64_t begin, int64_t count, float* out) {
    call_heads_ = heads_;
    for (KvHeadView& head : call_heads_) head.length -= shape_.tokens - begin - count;
    AttentionParams params;
    params.q = q_.data() + begin * width();
    params.out = out;
    params.q_stride = params.out_stride = width();
    params.tokens = count;
    params.num_heads = shape_.kv_heads * shape_.group;
    params.first_position = static_cast<int32_t>(shape_.context - shape_.tokens + begin);
    params.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    params.window = shape_.window;
    params.kv = view_;
    params.kv.heads = call_heads_;
    return params;
  }
  AttentionParams params(float* out) { return params(0, shape_.tokens, out); }

 private:
  void fill_head(int32_t index) {
    std::vector<int32_t>& positions = positions_[static_cast<size_t>(index)];
    const int64_t history = shape_.context - shape_.tokens;
    for (int64_t position = 0; shape_.compacted && position < history; ++position) {
      if (random_.below(index + 2) == 0) positions.push_back(static_cast<int32_t>(position));
    }
    KvHeadView head;
    head.listed_positions = positions.data();
    head.listed = static_cast<int64_t>(positions.size());
    head.tail_position = shape_.compacted ? static_cast<int32_t>(history) : 0;
    head.length = shape_.compacted ? head.listed + shape_.tokens : shape_.context;
    head.key_pages = make_pages(head.length, shape_.key_type);
    head.value_pages = make_pages(head.length, shape_.value_type);
    heads_.push_back(head);
    view_ = {shape_.key_type, shape_.value_type, shape_.head_dim, shape_.page_slots, heads_};
  }

  const void* const* make_pages(int64_t length, DType type) {
    const int64_t pages = (length + shape_.page_slots - 1) / shape_.page_slots;
    const int64_t elements = int64_t{shape_.page_slots} * shape_.head_dim;
    const size_t row_bytes = dtype_row_bytes(type, shape_.head_dim);
    const size_t page_bytes = dtype_row_bytes(type, elements);
    std::vector<float> row(static_cast<size_t>(shape_.head_dim));
    std::vector<const void*>& table = tables_.emplace_back(std::make_unique<std::vector<const void*>>()).operator*();
    for (int64_t page = 0; page < pages; ++page) {
      auto& bytes = storage_.emplace_back(std::make_unique<std::byte[]>(page_bytes));
      // Rows behind the length stay NaN: a kernel that reads them into a result is caught.
      std::memset(bytes.get(), 0xff, page_bytes);
      const int64_t rows = std::min<int64_t>(shape_.page_slots, length - page * shape_.page_slots);
      for (int64_t i = 0; i < rows; ++i) {
        for (float& element : row) element = random_.normal();
        store_row(row.data(), bytes.get() + static_cast<size_t>(i) * row_bytes, type, shape_.head_dim);
      }
      table.push_back(bytes.get());
    }
    return table.data();
  }

  AttentionShape shape_;
  Random random_;
  std::vector<float> q_;
  std::vector<std::vector<int32_t>> positions_;
  std::vector<KvHeadView> heads_;
  std::vector<KvHeadView> call_heads_;
  KvView view_;
  std::vector<std::unique_ptr<std::vector<const void*>>> tables_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

// Scratch memory as the contract wants it: aligned, dirty, with a zero header.
class AttentionScratch {
 public:
  explicit AttentionScratch(size_t bytes)
      : data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}))), bytes_(bytes) {
    std::memset(data_.get(), 0xff, bytes);
    clear_header();
  }
  void clear_header() { std::memset(data_.get(), 0, kScratchHeader); }
  void* data() { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_;
};

// Runs one call on `workers` threads.
inline void run_attention(const AttentionVariant& variant, const AttentionParams& params, int workers) {
  AttentionScratch scratch(variant.scratch_bytes(params, workers));
  WorkQueue queue;
  std::vector<std::thread> threads;
  for (int index = 1; index < workers; ++index) {
    threads.emplace_back([&, index] { variant.run(params, scratch.data(), queue, Worker{index, workers}); });
  }
  variant.run(params, scratch.data(), queue, Worker{0, workers});
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ei::kernels
