#include "server/api/text_shelf.h"

#include <algorithm>
#include <utility>

#include "server/api/random_name.h"

namespace ei::server {

std::string TextShelf::put(std::string text) {
  const auto size = static_cast<int64_t>(text.size());
  if (size > most_bytes_) return {};
  auto kept = std::make_shared<const std::string>(std::move(text));
  const std::lock_guard lock(mutex_);
  while (bytes_ + size > most_bytes_) {
    bytes_ -= static_cast<int64_t>(texts_.back().text->size());
    texts_.pop_back();
  }
  bytes_ += size;
  texts_.push_front({.name = "text-" + random_name(), .text = std::move(kept)});
  return texts_.front().name;
}

std::shared_ptr<const std::string> TextShelf::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(texts_.begin(), texts_.end(), [&](const Text& one) { return one.name == name; });
  if (found == texts_.end()) return nullptr;
  texts_.splice(texts_.begin(), texts_, found);
  return texts_.front().text;
}

int64_t TextShelf::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ei::server
