// PageCount: how much memory stores take together that share pages.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "kv/store.h"

namespace ei::server {

class PageCount {
 public:
  void add(const kv::Store& store) {
    store.for_each_page([&](const void* page) {
      if (++holders_[page] == 1) bytes_ += store.page_bytes();
    });
  }
  // Before the store lets its pages go.
  void remove(const kv::Store& store) {
    store.for_each_page([&](const void* page) {
      const auto held = holders_.find(page);
      if (held == holders_.end() || --held->second > 0) return;
      holders_.erase(held);
      bytes_ -= store.page_bytes();
    });
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::unordered_map<const void*, int32_t> holders_{};
  int64_t bytes_ = 0;
};

}  // namespace ei::server
