// Small host data on its way to the GPU: written into pinned memory, sent in the stream's order, there until reset().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "tensor/buffer.h"

namespace ei {

class CudaStaging {
 public:
  static constexpr size_t kBlockBytes = size_t{4} << 20;

  // The same bytes on both sides, 256-byte aligned.
  struct Piece {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    size_t bytes = 0;
  };

  Result<Piece> take(size_t bytes);
  static Status send(const Piece& piece, cudaStream_t stream);
  // Everything that was taken since the last reset(), in one copy or few.
  Status send_all(cudaStream_t stream);
  // Everything sent has arrived.
  void reset();

 private:
  struct Block {
    Buffer host;
    Buffer device;
    size_t used = 0;
  };
  std::vector<Block> blocks_;
  size_t current_ = 0;
};

// Gives out neighbouring arrays of one staged piece.
class CudaPacker {
 public:
  explicit CudaPacker(const CudaStaging::Piece& piece) : piece_(piece) {}
  template <typename T>
  struct Array {
    T* host;
    T* device;
  };
  template <typename T>
  Array<T> take(int64_t count) {
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    const Array<T> array{reinterpret_cast<T*>(piece_.host + used_), reinterpret_cast<T*>(piece_.device + used_)};
    used_ += static_cast<size_t>(count) * sizeof(T);
    EI_CHECK_LE(used_, piece_.bytes);
    return array;
  }

 private:
  CudaStaging::Piece piece_;
  size_t used_ = 0;
};

// A block of each kind that grows: what it held before is kept until release_retired().
class CudaRoom {
 public:
  Result<void*> device(size_t bytes) { return grow(device_, bytes, false); }
  Result<void*> pinned(size_t bytes) { return grow(pinned_, bytes, true); }
  size_t device_bytes() const { return device_.bytes(); }
  void release_retired() { retired_.clear(); }

 private:
  Result<void*> grow(Buffer& memory, size_t bytes, bool on_host);

  Buffer device_;
  Buffer pinned_;
  std::vector<Buffer> retired_;
};

}  // namespace ei
