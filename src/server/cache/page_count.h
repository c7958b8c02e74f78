// PageCount: how much memory stores take together that share pages.
#pragma once

#include <cstdint>
#include <new>
#include <unordered_map>

#include "kv/store.h"

namespace ei::server {

class PageCount {
 public:
  // All of its pages or, where there is no memory to count them (std::bad_alloc), none.
  void add(const kv::Store& store) {
    int64_t counted = 0;
    try {
      store.for_each_page([&](const void* page) {
        if (++holders_[page] == 1) bytes_ += store.page_bytes();
        ++counted;
      });
    } catch (const std::bad_alloc&) {
      store.for_each_page([&](const void* page) {
        if (counted-- > 0) remove(page, store.page_bytes());
      });
      throw;
    }
  }
  // Before the store lets its pages go.
  void remove(const kv::Store& store) {
    store.for_each_page([&](const void* page) { remove(page, store.page_bytes()); });
  }
  int64_t bytes() const { return bytes_; }

 private:
  void remove(const void* page, int64_t bytes) {
    const auto held = holders_.find(page);
    if (held == holders_.end() || --held->second > 0) return;
    holders_.erase(held);
    bytes_ -= bytes;
  }

  std::unordered_map<const void*, int32_t> holders_{};
  int64_t bytes_ = 0;
};

}  // namespace ei::server
