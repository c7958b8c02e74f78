// PagePool: KV pages of one size, cut from large slabs of backend memory. Stores that fork share pages and pool, so the
// pool may be called from several sessions' threads at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "tensor/buffer.h"

namespace ei::kv {

class PagePool;

struct PageSlab;

struct PageEntry {
  std::atomic<int32_t> holders{0};
  void* data = nullptr;
  PageSlab* slab = nullptr;
};

struct PageSlab {
  PagePool* pool = nullptr;
  Buffer memory;
  int64_t num_pages = 0;
  std::unique_ptr<PageEntry[]> entries;  // [num_pages]
  std::vector<PageEntry*> free;          // taken from the back: lowest addresses first in a fresh slab
};

// A counted hold on one page: copying it shares the page, and the last hold gone gives it back to the pool. The pool
// must outlive every hold.
class Page {
 public:
  Page() = default;
  Page(const Page& other) : entry_(other.entry_) {
    if (entry_ != nullptr) entry_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Page(Page&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  Page& operator=(Page other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~Page();

  void* data() const { return entry_->data; }
  // True when nobody else holds the page, so it may be written. Acquire: what former holders did to the page is over.
  bool exclusive() const { return entry_->holders.load(std::memory_order_acquire) == 1; }

 private:
  friend class PagePool;
  explicit Page(PageEntry* entry) : entry_(entry) { entry_->holders.store(1, std::memory_order_relaxed); }

  PageEntry* entry_ = nullptr;
};

class PagePool {
 public:
  // `page_bytes`: as the backend's layout has them rounded up (KvPageLayout::multiple).
  PagePool(const Backend& backend, size_t page_bytes);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // All `count` pages (contents undefined), or an error and none.
  Result<std::vector<Page>> take(int64_t count);
  // So many more will be taken before long: slabs end there.
  void expect(int64_t count);

  struct Usage {
    int64_t pages = 0;       // held by someone
    int64_t slabs = 0;       // taken from the backend
    int64_t slab_bytes = 0;  // address space of those; free pages in them have no physical memory
  };
  Usage usage() const;

 private:
  friend class Page;
  void give_back(PageEntry& page);
  Status grow(int64_t missing_pages);
  int64_t slab_pages(int64_t missing_pages) const;
  void release_empty_slabs();

  const Backend& backend_;
  const size_t page_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PageSlab>> slabs_;
  int64_t total_pages_ = 0;
  int64_t free_pages_ = 0;
  int64_t expected_pages_ = 0;  // that total_pages_ will be
};

}  // namespace ei::kv
