#include "server/cache/disk_cache.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ei::server {

namespace fs = std::filesystem;

namespace {
constexpr const char* kEnding = ".eikv";
constexpr size_t kMostWaiting = 8;  // texts that wait to be written keep their memory

// The note in a file: the build, a zero, how the text was read, a zero, the tokens.
std::string note_of(const std::string& build, const std::string& space, std::span<const int32_t> tokens) {
  std::string note = build + '\0' + space + '\0';
  note.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return note;
}

struct Note {
  std::string build{};
  std::string space{};
  std::vector<int32_t> tokens{};
};

std::optional<Note> parse_note(const std::string& text) {
  const size_t first = text.find('\0');
  const size_t second = first == std::string::npos ? first : text.find('\0', first + 1);
  if (second == std::string::npos || (text.size() - second - 1) % sizeof(int32_t) != 0) return std::nullopt;
  Note note{.build = text.substr(0, first), .space = text.substr(first + 1, second - first - 1)};
  note.tokens.resize((text.size() - second - 1) / sizeof(int32_t));
  std::memcpy(note.tokens.data(), text.data() + second + 1, note.tokens.size() * sizeof(int32_t));
  return note;
}

// Names are hashes of what decides whether a file is the same (FNV-1a).
std::string name_of(uint64_t model_hash, const std::string& note) {
  uint64_t hash = 0xcbf29ce484222325u ^ model_hash;
  for (const char byte : note) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return str_format("%016llx%s", static_cast<unsigned long long>(hash), kEnding);
}
}  // namespace

DiskCache::DiskCache(const Backend& backend, DiskCacheOptions options)
    : backend_(backend), options_(std::move(options)) {
  if (options_.folder.empty()) return;
  scan();
  thread_ = std::thread([this] { run(); });
}

DiskCache::~DiskCache() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_.cancel();
  }
  wake_.notify_all();
  thread_.join();
}

void DiskCache::say(const std::string& line) const {
  if (options_.log) options_.log(line);
}

// What a former process left. Only descriptions are read: rows are checked when a file is used.
void DiskCache::scan() {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  std::vector<std::pair<fs::file_time_type, File>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder, error)) {
    if (entry.path().extension() != kEnding || !entry.is_regular_file(error)) continue;
    const std::string path = entry.path().string();
    const Result<std::string> text = kv::Store::note(path, options_.model_hash);
    const std::optional<Note> note = text.ok() ? parse_note(*text) : std::nullopt;
    if (!note) {
      say("passed over: " + (text.ok() ? path + " was not written by this cache" : text.error().message));
      continue;
    }
    if (note->build != options_.build) continue;
    File file{.path = path, .space = note->space, .tokens = note->tokens};
    file.bytes = static_cast<int64_t>(entry.file_size(error));
    found.emplace_back(entry.last_write_time(error), std::move(file));
  }
  if (error) say("cannot read the folder " + options_.folder + ": " + error.message());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [when, file] : found) files_.push_back(std::move(file));
  make_room(0);
}

std::optional<DiskCache::Found> DiskCache::find(std::span<const int32_t> prompt, const std::string& space) const {
  const std::lock_guard lock(mutex_);
  Found best;
  for (const File& file : files_) {
    if (file.space != space) continue;
    const int64_t shared = shared_prefix(file.tokens, prompt);
    if (shared > best.tokens) best = {.path = file.path, .tokens = shared};
  }
  if (best.tokens < options_.least_tokens) return std::nullopt;
  return best;
}

// So much that what is missing would be read again in no time. A long prompt asked about twice is then written once.
bool DiskCache::holds(const HeldText& text) const {
  const auto all = static_cast<int64_t>(text.tokens.size());
  const int64_t enough = all - std::max(options_.least_tokens, all / 8);
  return std::any_of(files_.begin(), files_.end(), [&](const File& file) {
    return file.space == text.space && shared_prefix(file.tokens, text.tokens) > enough;
  });
}

void DiskCache::put(HeldText text) {
  if (options_.folder.empty() || static_cast<int64_t>(text.tokens.size()) < options_.least_tokens) return;
  {
    const std::lock_guard lock(mutex_);
    if (holds(text) || jobs_.size() >= kMostWaiting) return;
    jobs_.push_back([this, text = std::make_shared<HeldText>(std::move(text))] { write(*text); });
  }
  wake_.notify_all();
}

void DiskCache::load(const std::string& path, Loaded done) {
  {
    const std::lock_guard lock(mutex_);
    // Somebody waits for it: in front of what is to be written.
    jobs_.push_front([this, path, done = std::move(done)] { done(read(path)); });
  }
  wake_.notify_all();
}

void DiskCache::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      job();
    }
    lock.lock();
    busy_ = false;
  }
}

void DiskCache::make_room(int64_t bytes) {
  int64_t total = bytes;
  for (const File& file : files_) total += file.bytes;
  std::error_code ignored;
  while (!files_.empty() && total > options_.most_bytes) {
    total -= files_.back().bytes;
    fs::remove(files_.back().path, ignored);
    files_.pop_back();
  }
}

void DiskCache::write(const HeldText& text) {
  const int64_t bytes = text.store.bytes();
  if (bytes > options_.most_bytes) return;
  const std::string note = note_of(options_.build, text.space, text.tokens);
  const std::string path = (fs::path(options_.folder) / name_of(options_.model_hash, note)).string();
  {
    const std::lock_guard lock(mutex_);
    if (holds(text)) return;
    make_room(bytes);
  }
  const Status saved = text.store.save(path, options_.model_hash, &stop_, note);
  if (!saved.ok()) {
    if (saved.error().kind != ErrorKind::kInterrupted) say("a text was not kept: " + saved.error().message);
    return;
  }
  std::error_code ignored;
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](const File& file) {
    const bool begins =
        file.space == text.space && shared_prefix(file.tokens, text.tokens) == static_cast<int64_t>(file.tokens.size());
    if (begins && file.path != path) fs::remove(file.path, ignored);
    return begins;
  });
  files_.push_front({.path = path,
                     .space = text.space,
                     .tokens = text.tokens,
                     .bytes = static_cast<int64_t>(fs::file_size(path, ignored))});
}

Result<HeldText> DiskCache::read(const std::string& path) {
  std::string text;
  Result<kv::Store> store = kv::Store::load(path, options_.model_hash, backend_, &stop_, &text);
  std::optional<Note> note = store.ok() ? parse_note(text) : std::nullopt;
  const bool whole = note && static_cast<int64_t>(note->tokens.size()) == store->next_position() && store->exact() &&
                     note->build == options_.build;
  const std::lock_guard lock(mutex_);
  const auto file = std::find_if(files_.begin(), files_.end(), [&](const File& one) { return one.path == path; });
  if (!whole) {
    // No memory is no fault of the file.
    const bool damaged =
        store.ok() || (store.error().kind != ErrorKind::kMemory && store.error().kind != ErrorKind::kInterrupted);
    if (damaged && file != files_.end()) files_.erase(file);
    const Error why =
        store.ok() ? Error{ErrorKind::kUsage, path + " does not hold the text that it names"} : store.error();
    say("passed over: " + why.message);
    return why;
  }
  if (file != files_.end()) files_.splice(files_.begin(), files_, file);
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return HeldText{.tokens = std::move(note->tokens), .store = std::move(*store), .space = std::move(note->space)};
}

int64_t DiskCache::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const File& file : files_) total += file.bytes;
  return total;
}

int64_t DiskCache::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(files_.size());
}

bool DiskCache::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty() && !busy_;
}

}  // namespace ei::server
