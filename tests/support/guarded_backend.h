// For tests: a backend whose memory nobody above it can touch, as if it lay on a device. What it hands out is mapped
// without any rights, which come back only while the stream runs or copies; host() jobs, too, run without them. Who
// follows a pointer where it must not dies of it. Counts how often the host waits for the stream.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "backend/backend.h"
#include "base/check.h"

namespace ei {

class Guard {
 public:
  void add(void* data, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    ranges_[data] = whole_pages(bytes);
    protect(data, ranges_[data], open_ > 0);
  }
  void remove(void* data) {
    const std::scoped_lock lock(mutex_);
    protect(data, ranges_.at(data), true);
    ranges_.erase(data);
  }
  // Opens the memory while it lives, or closes it.
  class Lifted {
   public:
    explicit Lifted(Guard& guard, int change = 1) : guard_(guard), change_(change) { guard_.shift(change_); }
    ~Lifted() { guard_.shift(-change_); }
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;

   private:
    Guard& guard_;
    const int change_;
  };
  int64_t waits = 0;
  // While the stream runs: behind every attention and every host job. Null: nobody asks.
  std::function<void()> on_step;

 private:
  static size_t whole_pages(size_t bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }
  static void protect(void* data, size_t bytes, bool open) {
    EI_CHECK_EQ(::mprotect(data, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
  }
  void shift(int change) {
    const std::scoped_lock lock(mutex_);
    const bool was = open_ > 0;
    open_ += change;
    if (was == (open_ > 0)) return;
    for (const auto& [data, bytes] : ranges_) protect(data, bytes, open_ > 0);
  }

  std::mutex mutex_;
  std::map<void*, size_t> ranges_;
  int open_ = 0;
};

class GuardedStream final : public Stream {
 public:
  GuardedStream(std::unique_ptr<Stream> inner, const Backend& memory, Guard& guard)
      : inner_(std::move(inner)), memory_(memory), guard_(guard) {}

  void enter(Phase phase, int64_t tokens) override { inner_->enter(phase, tokens); }
  void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) override {
    inner_->embed(table, tokens, scale, out);
  }
  void matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) override {
    inner_->matmul(weight, x, y, bias);
  }
  void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) override { inner_->rms_norm(x, gain, eps, y); }
  void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) override {
    inner_->add_rms_norm(x, sum, gain, eps, y);
  }
  void rotate_append(const RotateAppendParams& params) override { inner_->rotate_append(params); }
  void attention(const kernels::AttentionParams& params) override {
    inner_->attention(params);
    if (guard_.on_step) inner_->host([this] { guard_.on_step(); });
  }
  void activate(Activation kind, Matrix gate, Matrix up, Matrix out) override { inner_->activate(kind, gate, up, out); }
  void softcap(Matrix x, float cap) override { inner_->softcap(x, cap); }
  void copy(Matrix from, Matrix to) override { inner_->copy(from, to); }
  void block_extremes(const kernels::BlockExtremesParams& params) override { inner_->block_extremes(params); }
  void query_midrange(const kernels::QueryMidrangeParams& params) override { inner_->query_midrange(params); }
  void block_scores(const kernels::BlockScoreParams& params) override { inner_->block_scores(params); }
  void block_entropy(const kernels::BlockEntropyParams& params) override { inner_->block_entropy(params); }
  void row_scores(const kernels::RowScoreParams& params) override { inner_->row_scores(params); }
  void pack_keys(const kernels::PackKeysParams& params) override { inner_->pack_keys(params); }
  void peak_scores(const kernels::PeakScoreParams& params, std::span<const uint8_t> segments) override {
    inner_->peak_scores(params, segments);
  }
  void select_blocks(const kernels::SelectBlocksParams& params) override { inner_->select_blocks(params); }
  void window_scores(const kernels::WindowScoreParams& params) override { inner_->window_scores(params); }
  void attention_sums(const kernels::AttentionSumParams& params) override { inner_->attention_sums(params); }
  void host(std::function<void()> job) override {
    inner_->host([this, job = std::move(job)] {
      const Guard::Lifted closed(guard_, -1);
      job();
      if (guard_.on_step) guard_.on_step();
    });
  }
  Result<Matrix> scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) override {
    Buffer& buffer = scratch_[slot.id()];
    const size_t bytes = static_cast<size_t>(rows * cols) * sizeof(float);
    if (buffer.bytes() < bytes) {
      EI_ASSIGN_OR_RETURN(buffer, memory_.allocate(bytes));
    }
    return Matrix{static_cast<float*>(buffer.data()), rows, cols, cols};
  }
  Result<float*> shared(const ScratchSlot& slot, int64_t count) override { return inner_->shared(slot, count); }
  const void* stage(const void* data, size_t bytes) override { return inner_->stage(data, bytes); }
  Status synchronize() override {
    ++guard_.waits;
    const Guard::Lifted open(guard_);
    return inner_->synchronize();
  }
  Status read(Matrix from, float* to) override {
    const Guard::Lifted open(guard_);
    return inner_->read(from, to);
  }
  Times times() const override { return inner_->times(); }

 private:
  std::unique_ptr<Stream> inner_;
  const Backend& memory_;
  Guard& guard_;
  std::map<int, Buffer> scratch_;
};

class GuardedBackend final : public Backend {
 public:
  GuardedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Guard> guard)
      : inner_(std::move(inner)), guard_(std::move(guard)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string describe(DType key_type, DType value_type, std::span<const HostTensor> matrices) const override {
    return inner_->describe(key_type, value_type, matrices);
  }
  DType default_kv_type() const override { return inner_->default_kv_type(); }
  int64_t preferred_chunk() const override { return inner_->preferred_chunk(); }
  Result<Buffer> allocate(size_t bytes) const override {
    EI_ASSIGN_OR_RETURN(Buffer memory, inner_->allocate(bytes));
    if (memory.data() == nullptr) return memory;
    struct Owner {
      std::shared_ptr<Guard> guard;
      Buffer memory;
    };
    auto* owner = new Owner{guard_, std::move(memory)};
    guard_->add(owner->memory.data(), bytes);
    return Buffer(
        owner->memory.data(), bytes,
        [](void* data, size_t, void* held) {
          const std::unique_ptr<Owner> gone(static_cast<Owner*>(held));
          gone->guard->remove(data);
        },
        owner);
  }
  Status copy_in(void* to, const void* from, size_t bytes) const override {
    const Guard::Lifted open(*guard_);
    return inner_->copy_in(to, from, bytes);
  }
  Status copy_out(void* to, const void* from, size_t bytes) const override {
    const Guard::Lifted open(*guard_);
    return inner_->copy_out(to, from, bytes);
  }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    const Guard::Lifted open(*guard_);
    return inner_->copy_within(to, from, bytes);
  }
  void discard(void* data, size_t bytes) const override { inner_->discard(data, bytes); }
  KvPageLayout page_layout(const KvPageShape& shape) const override { return inner_->page_layout(shape); }
  Status move_slots(const KvPageShape& shape, std::span<const KvMove> moves) const override {
    const Guard::Lifted open(*guard_);
    return inner_->move_slots(shape, moves);
  }
  Status read_slots(const KvPageShape& shape, const void* page, int64_t count, void* keys,
                    void* values) const override {
    const Guard::Lifted open(*guard_);
    return inner_->read_slots(shape, page, count, keys, values);
  }
  Status write_slots(const KvPageShape& shape, void* page, int64_t count, const void* keys,
                     const void* values) const override {
    const Guard::Lifted open(*guard_);
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
    EI_ASSIGN_OR_RETURN(auto stream, inner_->new_stream(cancel));
    return std::unique_ptr<Stream>(std::make_unique<GuardedStream>(std::move(stream), *this, *guard_));
  }

 private:
  std::unique_ptr<Backend> inner_;
  std::shared_ptr<Guard> guard_;
};

}  // namespace ei
