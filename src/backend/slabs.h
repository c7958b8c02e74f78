// Many small matrices side by side in few large blocks of memory: blocks that huge pages serve, where each matrix by
// itself would lie in small ones and cost a look-up of addresses every few rows.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

namespace ei {

class Slabs {
 public:
  // A slab, or a piece of one that keeps the whole of it.
  struct Slab {
    std::shared_ptr<void> owner;  // null: no memory
    std::byte* data = nullptr;
  };
  // Makes a block of that many bytes, its data aligned for whatever is placed in it.
  using NewSlab = std::function<Slab(size_t bytes)>;

  static constexpr size_t kSlabBytes = size_t{16} << 20;
  static constexpr size_t kLargestShared = kSlabBytes / 4;  // anything larger gets a slab of its own

  explicit Slabs(NewSlab new_slab) : new_slab_(std::move(new_slab)) {}
  // Room for `bytes`, at a multiple of `align` from a slab's beginning. It lives as long as one of its pieces does.
  Slab place(size_t bytes, size_t align);

 private:
  const NewSlab new_slab_;
  std::mutex mutex_;  // guards what follows
  std::weak_ptr<void> owner_;
  std::byte* data_ = nullptr;
  size_t used_ = 0;
};

}  // namespace ei
