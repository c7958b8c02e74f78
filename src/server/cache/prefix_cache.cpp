#include "server/cache/prefix_cache.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ei::server {

std::shared_ptr<HeldText> PrefixCache::put(HeldText text) {
  auto held = std::make_shared<HeldText>(std::move(text));
  if (held->tokens.empty() || held->store.bytes() > most_bytes_) return held;
  for (const TokenTree::Text name : tree_.beginnings(held->space, held->tokens))
    if (texts_.at(name).use_count() == 1) drop(name);
  add(next_++, held);
  make_room(0);
  return held;
}

// In all three places or, where there is no memory (std::bad_alloc), in none.
void PrefixCache::add(TokenTree::Text name, const std::shared_ptr<HeldText>& text) {
  texts_.emplace(name, text);
  bool counted = false;
  try {
    pages_.add(text->store);
    counted = true;
    tree_.add(name, text->space, text->tokens);
  } catch (const std::bad_alloc&) {
    if (counted) pages_.remove(text->store);
    texts_.erase(name);
    throw;
  }
}

void PrefixCache::make_room(int64_t bytes) {
  while (pages_.bytes() > std::max<int64_t>(most_bytes_ - bytes, 0)) {
    if (const auto ending = tree_.oldest(); ending && spill_) spill_(*texts_.at(ending->text));
    if (!drop_oldest()) break;
  }
}

std::shared_ptr<const HeldText> PrefixCache::find(std::span<const int32_t> prompt, const std::string& space) {
  const TokenTree::Match match = tree_.use(space, prompt);
  return match.tokens > 0 ? texts_.at(match.text) : nullptr;
}

int64_t PrefixCache::longest(std::span<const int32_t> prompt, const std::string& space) const {
  return tree_.longest(space, prompt).tokens;
}

void PrefixCache::drop(TokenTree::Text name) {
  const auto text = texts_.find(name);
  tree_.remove(name);
  pages_.remove(text->second->store);
  texts_.erase(text);
}

void PrefixCache::remove(const std::shared_ptr<HeldText>& text) {
  const auto found = std::find_if(texts_.begin(), texts_.end(), [&](const auto& one) { return one.second == text; });
  if (found != texts_.end()) drop(found->first);
}

std::vector<std::shared_ptr<const HeldText>> PrefixCache::texts() const {
  std::vector<std::shared_ptr<const HeldText>> all;
  all.reserve(texts_.size());
  for (const auto& [name, text] : texts_) all.push_back(text);
  return all;
}

bool PrefixCache::has(const std::shared_ptr<HeldText>& text) const {
  return std::any_of(texts_.begin(), texts_.end(), [&](const auto& one) { return one.second == text; });
}

bool PrefixCache::drop_oldest() {
  const auto ending = tree_.oldest();
  if (!ending) return false;
  if (ending->keep == 0 || !shorten(*ending)) drop(ending->text);
  return true;
}

// False where that cannot be done; nothing has changed then.
bool PrefixCache::shorten(const TokenTree::Ending& ending) try {
  HeldText& text = *texts_.at(ending.text);
  Result<kv::Store> kept = text.store.fork();
  if (!kept.ok() || !kept->truncate(static_cast<int32_t>(ending.keep)).ok()) return false;
  pages_.add(*kept);
  try {
    tree_.shorten(ending.text);
  } catch (const std::bad_alloc&) {
    pages_.remove(*kept);
    return false;
  }
  pages_.remove(text.store);
  text.store = std::move(*kept);
  text.tokens.resize(static_cast<size_t>(ending.keep));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace ei::server
