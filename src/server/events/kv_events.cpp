#include "server/events/kv_events.h"

#include <span>
#include <utility>

#include "server/events/msgpack.h"

namespace ei::server {

namespace {
// A step of splitmix64: every bit of the state and of the value moves every bit of the result.
uint64_t mix(uint64_t state, uint64_t value) {
  uint64_t x = state + 0x9e3779b97f4a7c15 + value;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::vector<uint64_t> block_hashes(std::span<const int32_t> tokens) {
  std::vector<uint64_t> hashes;
  uint64_t state = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    state = mix(state, static_cast<uint32_t>(tokens[i]));
    if ((i + 1) % kEventBlockTokens == 0) hashes.push_back(state);
  }
  return hashes;
}

void put_numbers(const auto& values, MsgPack& out) {
  out.array(values.size());
  for (const auto value : values) out.number(static_cast<uint64_t>(value));
}

void put_event(const KvEvent& event, MsgPack& out) {
  if (event.kind == KvEvent::Kind::kCleared) {
    out.array(1);
    return out.text("AllBlocksCleared");
  }
  if (event.kind == KvEvent::Kind::kRemoved) {
    out.array(2);
    out.text("BlockRemoved");
    return put_numbers(event.blocks, out);
  }
  out.array(6);
  out.text("BlockStored");
  put_numbers(event.blocks, out);
  event.parent ? out.number(*event.parent) : out.nil();
  put_numbers(event.tokens, out);
  out.number(kEventBlockTokens);
  out.nil();  // no LoRA
}
}  // namespace

// A block that another text has, too, has all blocks before it there: what is new is the end.
void KvEvents::add(const HeldText& text, const std::vector<uint64_t>& blocks, size_t from,
                   std::vector<KvEvent>& events) {
  KvEvent stored;
  for (size_t i = from; i < blocks.size(); ++i) {
    if (held_[blocks[i]]++ > 0) continue;
    if (stored.blocks.empty() && i > 0) stored.parent = blocks[i - 1];
    stored.blocks.push_back(blocks[i]);
    const auto begin = text.tokens.begin() + static_cast<int64_t>(i) * kEventBlockTokens;
    stored.tokens.insert(stored.tokens.end(), begin, begin + kEventBlockTokens);
  }
  if (!stored.blocks.empty()) events.push_back(std::move(stored));
}

// From the end on: a block goes before the one it builds on.
void KvEvents::drop(const std::vector<uint64_t>& blocks, size_t from, KvEvent& removed) {
  for (size_t i = blocks.size(); i > from; --i) {
    const auto held = held_.find(blocks[i - 1]);
    if (--held->second > 0) continue;
    held_.erase(held);
    removed.blocks.push_back(blocks[i - 1]);
  }
}

std::vector<KvEvent> KvEvents::update(const Texts& texts) {
  std::vector<KvEvent> events;
  KvEvent removed{.kind = KvEvent::Kind::kRemoved};
  auto before = std::exchange(known_, {});
  for (const auto& text : texts) {
    if (!text->space.empty()) continue;
    std::vector<uint64_t> blocks;
    if (const auto known = before.find(text); known != before.end()) {
      blocks = std::move(known->second);
      before.erase(known);
      // A text only loses its end.
      const size_t left = text->tokens.size() / kEventBlockTokens;
      if (left < blocks.size()) {
        drop(blocks, left, removed);
        blocks.resize(left);
      }
    } else {
      blocks = block_hashes(text->tokens);
      add(*text, blocks, 0, events);
    }
    known_.emplace(text, std::move(blocks));
  }
  for (const auto& [text, blocks] : before) drop(blocks, 0, removed);
  if (!removed.blocks.empty()) events.push_back(std::move(removed));
  return events;
}

std::vector<KvEvent> KvEvents::all(const Texts& texts) {
  std::vector<KvEvent> events = {{.kind = KvEvent::Kind::kCleared}};
  for (KvEvent& event : KvEvents().update(texts)) events.push_back(std::move(event));
  return events;
}

std::string event_message(const std::vector<KvEvent>& events, double unix_s) {
  MsgPack out;
  out.array(3);
  out.real(unix_s);
  out.array(events.size());
  for (const KvEvent& event : events) put_event(event, out);
  out.number(0);
  return out.take();
}

}  // namespace ei::server
