// KvEvents: what of the texts that are held is new and what has gone, in blocks of tokens, as routers that know about
// caches are told (vLLM's events). Only texts that were read with full attention: who asks for another text that begins
// like one of them gets the same values. For the compute thread alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/cache/prefix_cache.h"

namespace ei::server {

constexpr int64_t kEventBlockTokens = 16;

struct KvEvent {
  enum class Kind { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;
  std::vector<uint64_t> blocks{};    // a hash of the tokens up to the block's end
  std::optional<uint64_t> parent{};  // of the first stored block; none: the text's beginning
  std::vector<int32_t> tokens{};     // [blocks * kEventBlockTokens] of the stored ones
};

class KvEvents {
 public:
  using Texts = std::vector<std::shared_ptr<const HeldText>>;

  // Against what was held the last time. None where nothing changed.
  std::vector<KvEvent> update(const Texts& texts);
  // For somebody who has just come: forget what you knew, and all that is held.
  static std::vector<KvEvent> all(const Texts& texts);

 private:
  void add(const HeldText& text, const std::vector<uint64_t>& blocks, size_t from, std::vector<KvEvent>& events);
  void drop(const std::vector<uint64_t>& blocks, size_t from, KvEvent& removed);

  std::map<std::weak_ptr<const HeldText>, std::vector<uint64_t>, std::owner_less<>> known_{};
  std::map<uint64_t, int64_t> held_{};  // how many texts have the block
};

// One message of vLLM's protocol: [time, [event...], rank].
std::string event_message(const std::vector<KvEvent>& events, double unix_s);

}  // namespace ei::server
