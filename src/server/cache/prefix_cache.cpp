#include "server/cache/prefix_cache.h"

#include <algorithm>

namespace ei::server {

int64_t shared_prefix(std::span<const int32_t> first, std::span<const int32_t> second) {
  return std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin();
}

std::shared_ptr<HeldText> PrefixCache::put(HeldText text) {
  auto held = std::make_shared<HeldText>(std::move(text));
  std::erase_if(texts_, [&](const auto& other) {
    return other.use_count() == 1 && other->space == held->space &&
           shared_prefix(other->tokens, held->tokens) == static_cast<int64_t>(other->tokens.size());
  });
  texts_.push_front(held);
  while (texts_.size() > 1 && bytes() > most_bytes_) texts_.pop_back();
  if (bytes() > most_bytes_) texts_.clear();
  return held;
}

std::shared_ptr<const HeldText> PrefixCache::find(std::span<const int32_t> prompt, const std::string& space) {
  auto best = texts_.end();
  int64_t longest = 0;
  for (auto text = texts_.begin(); text != texts_.end(); ++text) {
    if ((*text)->space != space) continue;
    const int64_t shared = shared_prefix((*text)->tokens, prompt);
    if (shared <= longest) continue;
    longest = shared;
    best = text;
  }
  if (best == texts_.end()) return nullptr;
  texts_.splice(texts_.begin(), texts_, best);
  return texts_.front();
}

int64_t PrefixCache::longest(std::span<const int32_t> prompt, const std::string& space) const {
  int64_t most = 0;
  for (const auto& text : texts_)
    if (text->space == space) most = std::max(most, shared_prefix(text->tokens, prompt));
  return most;
}

void PrefixCache::remove(const std::shared_ptr<HeldText>& text) {
  std::erase_if(texts_, [&](const auto& other) { return other == text; });
}

bool PrefixCache::has(const std::shared_ptr<HeldText>& text) const {
  return std::find(texts_.begin(), texts_.end(), text) != texts_.end();
}

bool PrefixCache::drop_oldest() {
  if (texts_.empty()) return false;
  texts_.pop_back();
  return true;
}

int64_t PrefixCache::bytes() const {
  int64_t total = 0;
  for (const auto& text : texts_) total += text->store.bytes();
  return total;
}

}  // namespace ei::server
