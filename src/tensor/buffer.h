// Owning, move-only memory. The backend that made a Buffer decides where it lies (host or device) and how it is freed.
#pragma once

#include <cstddef>
#include <utility>

namespace ei {

class Buffer {
 public:
  using Release = void (*)(void* data, size_t bytes, void* owner);

  Buffer() = default;
  Buffer(void* data, size_t bytes, Release release, void* owner)
      : data_(data), bytes_(bytes), release_(release), owner_(owner) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_, owner_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    std::swap(owner_, other.owner_);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Release release_ = nullptr;
  void* owner_ = nullptr;
};

}  // namespace ei
