#include "kv/page_pool.h"

#include <algorithm>

#include "base/check.h"

namespace ei::kv {
namespace {

// A slab is a quarter of what the pool already has, but no more than is expected, within these bounds: a short chat
// reserves little, a long prompt does not need thousands of slabs.
constexpr int64_t kMinSlabBytes = int64_t{1} << 20;
constexpr int64_t kMaxSlabBytes = int64_t{32} << 20;
constexpr int64_t kMaxDeviceSlabBytes = int64_t{256} << 20;  // asking a device for memory may stop it for a moment
// What is larger ends where a huge page does: the part behind the last whole one would lie in small pages.
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

}  // namespace

Page::~Page() {
  if (entry_ == nullptr) return;
  if (entry_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) entry_->slab->pool->give_back(*entry_);
}

PagePool::PagePool(const Backend& backend, size_t page_bytes) : backend_(backend), page_bytes_(page_bytes) {
  EI_CHECK(page_bytes > 0);
}

PagePool::~PagePool() { EI_CHECK_EQ(free_pages_, total_pages_); }

Result<std::vector<Page>> PagePool::take(int64_t count) {
  std::vector<Page> pages;
  if (count == 0) return pages;
  std::lock_guard lock(mutex_);
  while (free_pages_ < count) {
    if (Status grown = grow(count - free_pages_); !grown.ok()) {
      release_empty_slabs();
      return grown.error();
    }
  }
  pages.reserve(static_cast<size_t>(count));
  for (const std::unique_ptr<PageSlab>& slab : slabs_) {  // oldest first, so that the newest empty out and go
    while (!slab->free.empty() && static_cast<int64_t>(pages.size()) < count) {
      pages.push_back(Page(slab->free.back()));
      slab->free.pop_back();
    }
  }
  free_pages_ -= count;
  return pages;
}

void PagePool::expect(int64_t count) {
  const std::lock_guard lock(mutex_);
  expected_pages_ = total_pages_ - free_pages_ + count;
}

int64_t PagePool::slab_pages(int64_t missing_pages) const {
  const auto page_bytes = static_cast<int64_t>(page_bytes_);
  const int64_t least = std::max<int64_t>(1, kMinSlabBytes / page_bytes);
  const int64_t largest = backend_.free_memory() >= 0 ? kMaxDeviceSlabBytes : kMaxSlabBytes;
  const int64_t most = std::max<int64_t>(1, largest / page_bytes);
  int64_t ahead = total_pages_ / 4;
  if (const int64_t left = expected_pages_ - total_pages_; left >= missing_pages) ahead = std::min(ahead, left);
  const int64_t num_pages = std::clamp(std::max(missing_pages, ahead), least, most);
  const int64_t bytes = num_pages * page_bytes;
  if (bytes <= kHugePageBytes) return num_pages;
  return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes / page_bytes;
}

Status PagePool::grow(int64_t missing_pages) {
  const auto page_bytes = static_cast<int64_t>(page_bytes_);
  int64_t num_pages = slab_pages(missing_pages);
  auto memory = backend_.allocate(static_cast<size_t>(num_pages) * page_bytes_);
  // What others would want later may be too much, what is wanted now not.
  if (!memory.ok() && memory.error().kind == ErrorKind::kMemory && num_pages > missing_pages) {
    num_pages = missing_pages;
    memory = backend_.allocate(static_cast<size_t>(num_pages) * page_bytes_);
  }
  if (!memory.ok() && memory.error().kind != ErrorKind::kMemory) return memory.error();
  if (!memory.ok()) {
    return make_error(ErrorKind::kMemory,
                      "the KV cache does not fit in memory: %lld more bytes needed after %lld (%s); lower the context "
                      "size or compress the cache",
                      static_cast<long long>(missing_pages * page_bytes),
                      static_cast<long long>(total_pages_ * page_bytes), memory.error().message.c_str());
  }
  auto slab = std::make_unique<PageSlab>();
  slab->pool = this;
  slab->memory = std::move(memory).value();
  slab->num_pages = num_pages;
  slab->entries = std::make_unique<PageEntry[]>(static_cast<size_t>(num_pages));
  slab->free.reserve(static_cast<size_t>(num_pages));
  for (int64_t i = num_pages - 1; i >= 0; --i) {
    PageEntry& entry = slab->entries[static_cast<size_t>(i)];
    entry.data = static_cast<std::byte*>(slab->memory.data()) + i * page_bytes;
    entry.slab = slab.get();
    slab->free.push_back(&entry);
  }
  slabs_.push_back(std::move(slab));
  total_pages_ += num_pages;
  free_pages_ += num_pages;
  return {};
}

void PagePool::give_back(PageEntry& page) {
  backend_.discard(page.data, page_bytes_);  // before anybody can take it again
  std::unique_ptr<PageSlab> empty;           // released after the lock
  std::lock_guard lock(mutex_);
  PageSlab& slab = *page.slab;
  slab.free.push_back(&page);
  ++free_pages_;
  if (static_cast<int64_t>(slab.free.size()) < slab.num_pages) return;
  const auto found = std::find_if(slabs_.begin(), slabs_.end(), [&](const auto& each) { return each.get() == &slab; });
  total_pages_ -= slab.num_pages;
  free_pages_ -= slab.num_pages;
  empty = std::move(*found);
  slabs_.erase(found);
}

void PagePool::release_empty_slabs() {
  std::erase_if(slabs_, [&](const std::unique_ptr<PageSlab>& slab) {
    if (static_cast<int64_t>(slab->free.size()) < slab->num_pages) return false;
    total_pages_ -= slab->num_pages;
    free_pages_ -= slab->num_pages;
    return true;
  });
}

PagePool::Usage PagePool::usage() const {
  std::lock_guard lock(mutex_);
  return {.pages = total_pages_ - free_pages_,
          .slabs = static_cast<int64_t>(slabs_.size()),
          .slab_bytes = total_pages_ * static_cast<int64_t>(page_bytes_)};
}

}  // namespace ei::kv
