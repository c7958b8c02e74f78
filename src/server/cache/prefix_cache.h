// PrefixCache: texts that have been read, with their keys and values, so that a prompt that begins like one of them is
// not read again. Pages are shared with whoever forked them. For the compute thread alone.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/store.h"

namespace ei::server {

struct HeldText {
  std::vector<int32_t> tokens;  // [store.next_position()]
  kv::Store store;              // exact: nothing of it was dropped
  std::string space{};          // how it was read: another way's values are others
};

// Leading tokens that both have.
int64_t shared_prefix(std::span<const int32_t> first, std::span<const int32_t> second);

class PrefixCache {
 public:
  explicit PrefixCache(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Takes the place of texts that it begins with, but for those that a slot holds. The least recently used go when
  // there is no room.
  std::shared_ptr<HeldText> put(HeldText text);
  // The text with the longest prefix in common with `prompt`, read in this way; null when there is none.
  std::shared_ptr<const HeldText> find(std::span<const int32_t> prompt, const std::string& space);
  // How much of `prompt` the best of them has.
  int64_t longest(std::span<const int32_t> prompt, const std::string& space) const;
  void remove(const std::shared_ptr<HeldText>& text);
  bool has(const std::shared_ptr<HeldText>& text) const;
  // Gives up the one that was used longest ago. False when there is none.
  bool drop_oldest();

  int64_t bytes() const;  // shared pages counted as often as they are held
  size_t size() const { return texts_.size(); }
  std::vector<std::shared_ptr<const HeldText>> texts() const { return {texts_.begin(), texts_.end()}; }

 private:
  int64_t most_bytes_;
  std::list<std::shared_ptr<HeldText>> texts_{};  // the last used first
};

}  // namespace ei::server
