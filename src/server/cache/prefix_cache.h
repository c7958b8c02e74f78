// PrefixCache: texts that have been read, with their keys and values, so that a prompt that begins like one of them is
// not read again. A radix tree finds them; pages are shared with whoever forked them, and count once. For the compute
// thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/store.h"
#include "server/cache/page_count.h"
#include "server/cache/token_tree.h"

namespace ei::server {

struct HeldText {
  std::vector<int32_t> tokens;  // [store.next_position()]
  kv::Store store;              // exact: nothing of it was dropped
  std::string space{};          // how it was read: another way's values are others
};

class PrefixCache {
 public:
  // `spill` (may be null) sees what has to go because there is no room, while it is whole.
  using Spill = std::function<void(const HeldText& text)>;
  explicit PrefixCache(int64_t most_bytes, Spill spill = nullptr) : most_bytes_(most_bytes), spill_(std::move(spill)) {}

  // Takes the place of texts that it begins with, but for those that a slot holds. When there is no room, what has not
  // been used for longest goes: a text, or its end. A text that is larger than the cache is not held, nor is one that
  // there is no memory to hold (std::bad_alloc).
  std::shared_ptr<HeldText> put(HeldText text);
  // The text with the longest prefix in common with `prompt`, read in this way; null when there is none. That prefix
  // counts as used.
  std::shared_ptr<const HeldText> find(std::span<const int32_t> prompt, const std::string& space);
  // How much of `prompt` the best of them has.
  int64_t longest(std::span<const int32_t> prompt, const std::string& space) const;
  void remove(const std::shared_ptr<HeldText>& text);
  bool has(const std::shared_ptr<HeldText>& text) const;
  // Gives up what was used longest ago until so many bytes more would fit.
  void make_room(int64_t bytes);
  // Gives up what was used longest ago, at once. False when there is nothing.
  bool drop_oldest();

  int64_t bytes() const { return pages_.bytes(); }   // a page that several texts share counts once
  int64_t tokens() const { return tree_.tokens(); }  // likewise
  size_t size() const { return texts_.size(); }
  std::vector<std::shared_ptr<const HeldText>> texts() const;

 private:
  void add(TokenTree::Text name, const std::shared_ptr<HeldText>& text);
  void drop(TokenTree::Text name);
  bool shorten(const TokenTree::Ending& ending);

  const int64_t most_bytes_;
  const Spill spill_;
  TokenTree tree_{};
  PageCount pages_{};
  std::map<TokenTree::Text, std::shared_ptr<HeldText>> texts_{};
  TokenTree::Text next_ = 0;
};

}  // namespace ei::server
