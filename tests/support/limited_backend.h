// For tests: a backend with so much memory for KV pages and no more, which can be held while rows are read for a file.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "backend/backend.h"

namespace ei {

class LimitedBackend final : public Backend {
 public:
  struct Memory {
    std::atomic<int64_t> live{0};
    std::atomic<int64_t> limit{int64_t{1} << 60};
    std::atomic<int64_t> refusals{0};
    std::function<void()> on_read{};  // of rows by the host; null: nobody asks
  };

  LimitedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Memory> memory)
      : inner_(std::move(inner)), memory_(std::move(memory)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string describe(DType key_type, DType value_type, std::span<const HostTensor> matrices) const override {
    return inner_->describe(key_type, value_type, matrices);
  }
  DType default_kv_type() const override { return inner_->default_kv_type(); }
  bool holds_q8() const override { return inner_->holds_q8(); }
  int64_t preferred_chunk() const override { return inner_->preferred_chunk(); }
  bool decodes_together() const override { return inner_->decodes_together(); }
  Status takes_cache(DType key_type, DType value_type, int32_t head_dim) const override {
    return inner_->takes_cache(key_type, value_type, head_dim);
  }
  int64_t layer_room(DType key_type, int64_t row, int64_t tokens) const override {
    return inner_->layer_room(key_type, row, tokens);
  }
  bool rates_peaks(const kernels::KeyIndexShape& shape) const override { return inner_->rates_peaks(shape); }
  std::string_view rated_blocks() const override { return inner_->rated_blocks(); }
  bool scores_rows() const override { return inner_->scores_rows(); }
  double rating_cost() const override { return inner_->rating_cost(); }
  int64_t stream_room(const PromptShape& shape) const override { return inner_->stream_room(shape); }
  int64_t taken_bytes(int64_t bytes) const override { return inner_->taken_bytes(bytes); }
  kernels::KeyIndexBytes key_index_bytes(const kernels::KeyIndexShape& shape, int64_t tokens,
                                         int64_t segments) const override {
    return inner_->key_index_bytes(shape, tokens, segments);
  }
  int64_t free_memory() const override { return inner_->free_memory(); }
  int64_t held_bytes(const HostTensor& tensor) const override { return inner_->held_bytes(tensor); }
  Result<Buffer> allocate(size_t bytes) const override {
    const auto asked = static_cast<int64_t>(bytes);
    if (memory_->live + asked > memory_->limit) {
      ++memory_->refusals;
      return make_error(ErrorKind::kMemory, "out of memory for the KV cache");
    }
    EI_ASSIGN_OR_RETURN(Buffer inner, inner_->allocate(bytes));
    struct Owner {
      std::shared_ptr<Memory> memory;
      Buffer inner;
    };
    memory_->live += asked;
    auto* owner = new Owner{memory_, std::move(inner)};
    return Buffer(
        owner->inner.data(), bytes,
        [](void*, size_t size, void* held) {
          const std::unique_ptr<Owner> gone(static_cast<Owner*>(held));
          gone->memory->live -= static_cast<int64_t>(size);
        },
        owner);
  }
  Status copy_in(void* to, const void* from, size_t bytes) const override { return inner_->copy_in(to, from, bytes); }
  Status copy_out(void* to, const void* from, size_t bytes) const override { return inner_->copy_out(to, from, bytes); }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    return inner_->copy_within(to, from, bytes);
  }
  void discard(void* data, size_t bytes) const override { inner_->discard(data, bytes); }
  KvPageLayout page_layout(const KvPageShape& shape) const override { return inner_->page_layout(shape); }
  Status keep_sums(const KeptSums& kept) const override { return inner_->keep_sums(kept); }
  Status move_slots(const KvPageShape& shape, std::span<const KvMove> moves) const override {
    return inner_->move_slots(shape, moves);
  }
  Status read_slots(const KvPageShape& shape, const void* page, int64_t count, void* keys,
                    void* values) const override {
    if (memory_->on_read) memory_->on_read();
    return inner_->read_slots(shape, page, count, keys, values);
  }
  Status write_slots(const KvPageShape& shape, void* page, int64_t count, const void* keys,
                     const void* values) const override {
    return inner_->write_slots(shape, page, count, keys, values);
  }
  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts, MatrixUse use) const override {
    return inner_->load_matrix(parts, use);
  }
  int64_t packed_bytes(std::span<const HostTensor> matrices) const override { return inner_->packed_bytes(matrices); }
  Result<std::unique_ptr<Weight>> load_table(const HostTensor& table) const override {
    return inner_->load_table(table);
  }
  Result<std::unique_ptr<Weight>> load_vector(std::span<const HostTensor> parts) const override {
    return inner_->load_vector(parts);
  }
  Result<std::unique_ptr<Stream>> new_stream(const CancelToken* cancel) const override {
    return inner_->new_stream(cancel);
  }

 private:
  std::unique_ptr<Backend> inner_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace ei
