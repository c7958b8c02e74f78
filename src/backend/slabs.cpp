#include "backend/slabs.h"

namespace ei {

Slabs::Slab Slabs::place(size_t bytes, size_t align) {
  if (bytes > kLargestShared) return new_slab_(bytes);
  const std::scoped_lock lock(mutex_);
  size_t begin = (used_ + align - 1) / align * align;
  std::shared_ptr<void> owner = owner_.lock();
  if (owner == nullptr || begin + bytes > kSlabBytes) {
    Slab fresh = new_slab_(kSlabBytes);
    if (fresh.owner == nullptr) return new_slab_(bytes);  // what is wanted may still be there
    owner = std::move(fresh.owner);
    owner_ = owner;
    data_ = fresh.data;
    begin = 0;
  }
  used_ = begin + bytes;
  return {std::move(owner), data_ + begin};
}

}  // namespace ei
