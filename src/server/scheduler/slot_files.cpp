// Slots to disk and back: the cache file of kv::Store, its note being the text. One file, so both are whole or neither
// is there, and one checksum tells of damage in either.
#include <cstring>
#include <filesystem>
#include <utility>

#include "server/exceptions.h"
#include "server/scheduler/scheduler.h"

namespace ei::server {

namespace {
constexpr std::string_view kMagic = "slot-text";

std::string slot_note(std::span<const int32_t> tokens) {
  std::string note(kMagic);
  note.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return note;
}

Result<std::vector<int32_t>> tokens_of(const std::string& note, const std::string& path, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  const size_t bytes = tokens.size() * sizeof(int32_t);
  if (!note.starts_with(kMagic) || note.size() != kMagic.size() + bytes)
    return make_error(ErrorKind::kUsage, "%s is a cache without its text: no slot was saved there", path.c_str());
  std::memcpy(tokens.data(), note.data() + kMagic.size(), bytes);
  return tokens;
}
}  // namespace

void Scheduler::post_for(SlotDone done, std::function<Result<int64_t>()> job) {
  post([done = std::move(done), job = std::move(job)] {
    const auto outcome = [&]() -> Result<int64_t> {
      try {
        return job();
      } catch (const std::exception& error) {
        return error_of(error);
      }
    };
    done(outcome());
  });
}

void Scheduler::save_slot(int slot, std::string path, SlotDone done) {
  post_for(std::move(done), [this, slot, path = std::move(path)]() -> Result<int64_t> {
    const auto held = slots_[static_cast<size_t>(slot)].held;
    if (!held) return make_error(ErrorKind::kUsage, "slot %d holds nothing", slot);
    if (!held->space.empty()) return make_error(ErrorKind::kUsage, "slot %d holds a text that was read sparsely", slot);
    EI_RETURN_IF_ERROR(held->store.save(path, engine_.model_hash(), /*cancel=*/nullptr, slot_note(held->tokens)));
    return static_cast<int64_t>(held->tokens.size());
  });
}

void Scheduler::restore_slot(int slot, std::string path, SlotDone done) {
  post_for(std::move(done), [this, slot, path = std::move(path)]() -> Result<int64_t> {
    if (slots_[static_cast<size_t>(slot)].running) return make_error(ErrorKind::kUsage, "slot %d is busy", slot);
    if (std::error_code error; !std::filesystem::is_regular_file(path, error))
      return make_error(ErrorKind::kUsage, "%s is not there: no slot was saved by that name", path.c_str());
    const kv::StoreConfig types = row_types(engine_, options_.session);
    std::string note;
    EI_ASSIGN_OR_RETURN(kv::Store store, kv::Store::load(path, engine_.model_hash(), engine_.backend(),
                                                         /*cancel=*/nullptr, &note, &types));
    if (store.config().key_type != types.key_type || store.config().value_type != types.value_type)
      return make_error(ErrorKind::kUsage, "%s holds %s keys and %s values, this server %s and %s", path.c_str(),
                        dtype_name(store.config().key_type), dtype_name(store.config().value_type),
                        dtype_name(types.key_type), dtype_name(types.value_type));
    if (!store.exact()) return make_error(ErrorKind::kUsage, "%s holds a compressed cache", path.c_str());
    EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokens_of(note, path, store.next_position()));
    const auto count = static_cast<int64_t>(tokens.size());
    constexpr double kMiB = 1 << 20;
    if (store.bytes() > options_.cache_bytes)
      return make_error(ErrorKind::kUsage,
                        "%s holds %.1f MiB of keys and values, more than --cache-ram (%.1f MiB) keeps", path.c_str(),
                        static_cast<double>(store.bytes()) / kMiB, static_cast<double>(options_.cache_bytes) / kMiB);
    hold(slot, {.tokens = std::move(tokens), .store = std::move(store)});
    publish();
    return count;
  });
}

void Scheduler::erase_slot(int slot, SlotDone done) {
  post_for(std::move(done), [this, slot]() -> Result<int64_t> {
    const auto held = slots_[static_cast<size_t>(slot)].held;
    const int64_t count = held ? static_cast<int64_t>(held->tokens.size()) : 0;
    if (held) cache_.remove(held);
    forget_dropped();
    publish();
    return count;
  });
}

}  // namespace ei::server
