// For the tests of this room: a Backend that is nothing but memory, watches every copy, and can run out.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/backend.h"
#include "base/check.h"

namespace ei::kv {

class FakeBackend final : public Backend {
 public:
  std::atomic<int64_t> limit = int64_t{1} << 40;  // bytes that may be allocated at the same time
  std::atomic<bool> copies_fail = false;
  std::atomic<bool> device_fails = false;  // then there is no memory, whatever the limit
  bool takes_q8 = true;

  ~FakeBackend() override { EI_CHECK(blocks_.empty()); }

  int64_t live_bytes() const { return live_.load(); }
  int64_t peak_bytes() const { return peak_.load(); }

  std::string_view name() const override { return "fake"; }
  std::string describe(DType, DType, std::span<const HostTensor>) const override { return "memory only"; }
  DType default_kv_type() const override { return DType::kF32; }
  bool holds_q8() const override { return takes_q8; }

  Result<Buffer> allocate(size_t bytes) const override {
    if (device_fails) return Error{ErrorKind::kDevice, "the device failed"};
    if (live_.load() + static_cast<int64_t>(bytes) > limit.load()) {
      return make_error(ErrorKind::kMemory, "limit of %lld bytes", static_cast<long long>(limit.load()));
    }
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return make_error(ErrorKind::kMemory, "mmap of %zu bytes failed", bytes);
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<const std::byte*>(data)] = bytes;
    live_ += static_cast<int64_t>(bytes);
    if (live_ > peak_) peak_ = live_.load();
    return Buffer(data, bytes, release, const_cast<FakeBackend*>(this));
  }
  Status copy_in(void* to, const void* from, size_t bytes) const override {
    check_inside(to, bytes);
    return copy(to, from, bytes);
  }
  Status copy_out(void* to, const void* from, size_t bytes) const override {
    check_inside(from, bytes);
    return copy(to, from, bytes);
  }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    check_inside(to, bytes);
    check_inside(from, bytes);
    const auto* a = static_cast<const std::byte*>(to);
    const auto* b = static_cast<const std::byte*>(from);
    EI_CHECK(a + bytes <= b || b + bytes <= a);
    return copy(to, from, bytes);
  }
  void discard(void* data, size_t bytes) const override {
    check_inside(data, bytes);
    EI_CHECK_EQ(::madvise(data, bytes, MADV_DONTNEED), 0);
  }

  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor>, MatrixUse) const override {
    return no_maths();
  }
  int64_t packed_bytes(std::span<const HostTensor>) const override { return 0; }
  Result<std::unique_ptr<Weight>> load_table(const HostTensor&) const override { return no_maths(); }
  Result<std::unique_ptr<Weight>> load_vector(std::span<const HostTensor>) const override { return no_maths(); }
  Result<std::unique_ptr<Stream>> new_stream(const CancelToken*) const override { return no_maths(); }

 private:
  static Error no_maths() { return make_error(ErrorKind::kDevice, "this backend is memory only"); }
  static void release(void* data, size_t bytes, void* owner) {
    auto* self = static_cast<FakeBackend*>(owner);
    {
      const std::lock_guard lock(self->mutex_);
      self->blocks_.erase(static_cast<const std::byte*>(data));
      self->live_ -= static_cast<int64_t>(bytes);
    }
    ::munmap(data, bytes);
  }
  Status copy(void* to, const void* from, size_t bytes) const {
    if (copies_fail.load()) return make_error(ErrorKind::kDevice, "the device is gone");
    std::memcpy(to, from, bytes);
    return {};
  }
  void check_inside(const void* data, size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<const std::byte*>(data);
    auto block = blocks_.upper_bound(at);
    EI_CHECK(block != blocks_.begin());
    --block;
    EI_CHECK(at + bytes <= block->first + block->second);
  }

  mutable std::mutex mutex_;
  mutable std::map<const std::byte*, size_t> blocks_;
  mutable std::atomic<int64_t> live_{0};
  mutable std::atomic<int64_t> peak_{0};
};

}  // namespace ei::kv
