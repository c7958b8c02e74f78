// Slots to disk and back: the cache file of kv::Store, its note being the text. One file, so both are whole or neither
// is there, and one checksum tells of damage in either. One slot at a time, so that only one text more is in memory.
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

Result<HeldText> read_slot(const SlotWork& work, const Engine& engine, const kv::StoreConfig& types,
                           int64_t most_bytes) {
  const std::string& path = work.path;
  if (std::error_code error; !std::filesystem::is_regular_file(path, error))
    return make_error(ErrorKind::kUsage, "%s is not there: no slot was saved by that name", path.c_str());
  std::string note;
  EI_ASSIGN_OR_RETURN(kv::Store store,
                      kv::Store::load(path, engine.model_hash(), engine.backend(), work.gone.get(), &note, &types));
  if (store.config().key_type != types.key_type || store.config().value_type != types.value_type)
    return make_error(ErrorKind::kUsage, "%s holds %s keys and %s values, this server %s and %s", path.c_str(),
                      dtype_name(store.config().key_type), dtype_name(store.config().value_type),
                      dtype_name(types.key_type), dtype_name(types.value_type));
  if (!store.exact()) return make_error(ErrorKind::kUsage, "%s holds a compressed cache", path.c_str());
  EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokens_of(note, path, store.next_position()));
  constexpr double kMiB = 1 << 20;
  if (store.bytes() > most_bytes)
    return make_error(ErrorKind::kUsage, "%s holds %.1f MiB of keys and values, more than --cache-ram (%.1f MiB) keeps",
                      path.c_str(), static_cast<double>(store.bytes()) / kMiB, static_cast<double>(most_bytes) / kMiB);
  return HeldText{.tokens = std::move(tokens), .store = std::move(store)};
}
}  // namespace

bool Scheduler::ask_slot(SlotWork work) {
  std::list<SlotWork> coming;
  coming.push_back(std::move(work));
  {
    const std::lock_guard lock(mutex_);
    if (!slot_waiting_.empty() && slot_waiting_.size() >= static_cast<size_t>(options_.queue)) return false;
    slot_waiting_.splice(slot_waiting_.end(), coming);
  }
  wake_.notify_all();
  return true;
}

// Between two steps: what was asked first is begun, or ended once its file is done with. Others compute meanwhile.
void Scheduler::work_on_slots() {
  drop_slot_work();
  SlotWork* work = nullptr;
  bool begins = false;
  {
    const std::lock_guard lock(mutex_);
    if (slot_at_work_.empty() && !slot_waiting_.empty() && !stopping_) {
      slot_at_work_.splice(slot_at_work_.end(), slot_waiting_, slot_waiting_.begin());
      begins = true;
    } else if (!slot_filed_) {
      return;
    }
    work = &slot_at_work_.front();
  }
  if (begins && begin_slot_work(*work)) return;
  const auto outcome = [&]() -> Result<int64_t> {
    try {
      return end_slot_work(*work);
    } catch (const std::exception& error) {
      return error_of(error);
    }
  }();
  contain([&] { work->done(outcome); });
  std::list<SlotWork> over;  // the last of it goes without the lock
  const std::lock_guard lock(mutex_);
  over.splice(over.end(), slot_at_work_);
  slot_filed_ = false;
}

// Whose client has gone, and all when the server stops.
void Scheduler::drop_slot_work() {
  std::list<SlotWork> dropped;
  {
    const std::lock_guard lock(mutex_);
    for (auto work = slot_waiting_.begin(); work != slot_waiting_.end();) {
      const auto after = std::next(work);
      if (stopping_ || work->gone->cancelled()) dropped.splice(dropped.end(), slot_waiting_, work);
      work = after;
    }
  }
  for (const SlotWork& work : dropped) contain([&] { work.done(Error{ErrorKind::kInterrupted, "interrupted"}); });
}

// True where a file is to be written or read first.
bool Scheduler::begin_slot_work(SlotWork& work) try {
  const Slot& slot = slots_[static_cast<size_t>(work.slot)];
  const auto fails = [&](const char* why) {
    work.error = make_error(ErrorKind::kUsage, "slot %d %s", work.slot, why);
    return false;
  };
  switch (work.kind) {
    case SlotWork::Kind::kErase: return false;
    case SlotWork::Kind::kRestore:
      if (slot.running) return fails("is busy");
      break;
    case SlotWork::Kind::kSave: {
      if (!slot.held) return fails("holds nothing");
      if (!slot.held->space.empty()) return fails("holds a text that was read sparsely");
      Result<kv::Store> store = slot.held->store.fork();
      if (!store.ok()) {
        work.error = store.error();
        return false;
      }
      work.text = HeldText{.tokens = slot.held->tokens, .store = std::move(*store)};
      break;
    }
  }
  if (slot_files_.post([this, &work] { file_slot(work); })) return true;
  work.error = make_error(ErrorKind::kRuntime, "the file of slot %d cannot be had now", work.slot);
  return false;
} catch (const std::exception& error) {
  work.error = error_of(error);
  return false;
}

void Scheduler::file_slot(SlotWork& work) {
  try {
    if (work.kind == SlotWork::Kind::kSave) {
      const Status saved =
          work.text->store.save(work.path, engine_.model_hash(), work.gone.get(), slot_note(work.text->tokens));
      if (!saved.ok()) work.error = saved.error();
    } else if (Result<HeldText> text =
                   read_slot(work, engine_, row_types(engine_, options_.session), options_.cache_bytes);
               text.ok()) {
      work.text = std::move(*text);
    } else {
      work.error = text.error();
    }
  } catch (const std::exception& error) {
    work.error = error_of(error);
  }
  {
    const std::lock_guard lock(mutex_);
    slot_filed_ = true;
  }
  wake_.notify_all();
}

Result<int64_t> Scheduler::end_slot_work(SlotWork& work) {
  if (work.error) return *work.error;
  const Slot& slot = slots_[static_cast<size_t>(work.slot)];
  if (work.kind == SlotWork::Kind::kErase) {
    const auto held = slot.held;
    const int64_t count = held ? static_cast<int64_t>(held->tokens.size()) : 0;
    if (held) cache_.remove(held);
    forget_dropped();
    publish();
    return count;
  }
  const auto count = static_cast<int64_t>(work.text->tokens.size());
  if (work.kind == SlotWork::Kind::kSave) return count;
  if (slot.running) return make_error(ErrorKind::kUsage, "slot %d is busy", work.slot);
  hold(work.slot, std::move(*work.text));
  publish();
  return count;
}

}  // namespace ei::server
