// Slots to disk and back: the cache file of kv::Store, and the text beside it.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "server/scheduler/scheduler.h"

namespace ei::server {

namespace {
constexpr uint32_t kMagic = 0x54584554;  // "TEXT"

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string text_path(const std::string& path) { return path + ".tokens"; }

Status write_tokens(const std::string& path, std::span<const int32_t> tokens) {
  const std::string partial = path + ".partial";
  const File file(std::fopen(partial.c_str(), "wb"));
  const uint32_t head[2] = {kMagic, static_cast<uint32_t>(tokens.size())};
  const bool written = file != nullptr && std::fwrite(head, sizeof head, 1, file.get()) == 1 &&
                       std::fwrite(tokens.data(), sizeof(int32_t), tokens.size(), file.get()) == tokens.size() &&
                       std::fflush(file.get()) == 0 && ::fsync(::fileno(file.get())) == 0 &&
                       std::rename(partial.c_str(), path.c_str()) == 0;
  if (written) return {};
  std::remove(partial.c_str());
  return make_error(ErrorKind::kRuntime, "cannot write %s", path.c_str());
}

Result<std::vector<int32_t>> read_tokens(const std::string& path, int64_t count) {
  const File file(std::fopen(path.c_str(), "rb"));
  uint32_t head[2] = {};
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  const bool read = file != nullptr && std::fread(head, sizeof head, 1, file.get()) == 1 && head[0] == kMagic &&
                    head[1] == tokens.size() &&
                    std::fread(tokens.data(), sizeof(int32_t), tokens.size(), file.get()) == tokens.size();
  if (!read) return make_error(ErrorKind::kUsage, "%s is not the text of that cache", path.c_str());
  return tokens;
}
}  // namespace

void Scheduler::save_slot(int slot, std::string path, SlotDone done) {
  post([this, slot, path = std::move(path), done = std::move(done)] {
    const auto held = slots_[static_cast<size_t>(slot)].held;
    if (!held) return done(make_error(ErrorKind::kUsage, "slot %d holds nothing", slot));
    if (!held->space.empty())
      return done(make_error(ErrorKind::kUsage, "slot %d holds a text that was read sparsely", slot));
    if (const Status saved = held->store.save(path, engine_.model_hash()); !saved.ok()) return done(saved.error());
    if (const Status saved = write_tokens(text_path(path), held->tokens); !saved.ok()) return done(saved.error());
    done(static_cast<int64_t>(held->tokens.size()));
  });
}

void Scheduler::restore_slot(int slot, std::string path, SlotDone done) {
  post([this, slot, path = std::move(path), done = std::move(done)] {
    if (slots_[static_cast<size_t>(slot)].running) return done(make_error(ErrorKind::kUsage, "slot %d is busy", slot));
    const kv::StoreConfig types = row_types(engine_, options_.session);
    Result<kv::Store> store =
        kv::Store::load(path, engine_.model_hash(), engine_.backend(), /*cancel=*/nullptr, /*note=*/nullptr, &types);
    if (!store.ok()) return done(store.error());
    Result<std::vector<int32_t>> tokens = read_tokens(text_path(path), store->next_position());
    if (!tokens.ok()) return done(tokens.error());
    const auto count = static_cast<int64_t>(tokens->size());
    hold(slot, {.tokens = std::move(*tokens), .store = std::move(*store)});
    publish();
    done(count);
  });
}

void Scheduler::erase_slot(int slot, SlotDone done) {
  post([this, slot, done = std::move(done)] {
    const auto held = slots_[static_cast<size_t>(slot)].held;
    const int64_t count = held ? static_cast<int64_t>(held->tokens.size()) : 0;
    if (held) cache_.remove(held);
    forget_dropped();
    publish();
    done(count);
  });
}

}  // namespace ei::server
