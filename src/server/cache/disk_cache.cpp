#include "server/cache/disk_cache.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "server/exceptions.h"

namespace ei::server {

namespace fs = std::filesystem;

namespace {
constexpr const char* kEnding = ".eikv";
constexpr size_t kMostWaiting = 8;

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
  struct Left {
    fs::file_time_type when;
    File file;
    Note note;
  };
  std::vector<Left> found;
  // Its ++ would throw.
  for (fs::directory_iterator next(options_.folder, error); !error && next != fs::directory_iterator();
       next.increment(error)) {
    const fs::directory_entry& entry = *next;
    std::error_code ignored;
    if (entry.path().extension() != kEnding || !entry.is_regular_file(ignored)) continue;
    const std::string path = entry.path().string();
    const Result<std::string> text = kv::Store::note(path, options_.model_hash);
    std::optional<Note> note = text.ok() ? parse_note(*text) : std::nullopt;
    if (!note) {
      say("passed over: " + (text.ok() ? path + " was not written by this cache" : text.error().message));
      continue;
    }
    if (note->build != options_.build) continue;
    if (note->tokens.empty()) continue;
    File file{.path = path, .bytes = static_cast<int64_t>(entry.file_size(ignored))};
    found.push_back({.when = entry.last_write_time(ignored), .file = std::move(file), .note = std::move(*note)});
  }
  if (error) say("cannot read the folder " + options_.folder + ": " + error.message());
  std::sort(found.begin(), found.end(), [](const Left& a, const Left& b) { return a.when < b.when; });
  for (Left& left : found) add(std::move(left.file), left.note.space, left.note.tokens);
  make_room(0);
}

std::optional<DiskCache::Found> DiskCache::find(std::span<const int32_t> prompt, const std::string& space) const {
  const std::lock_guard lock(mutex_);
  const TokenTree::Match match = tree_.longest(space, prompt);
  if (match.tokens < options_.least_tokens) return std::nullopt;
  const File& file = file_of(match.text);
  const double share = static_cast<double>(match.tokens) / static_cast<double>(file.tokens);
  return Found{.path = file.path,
               .tokens = match.tokens,
               .bytes = static_cast<int64_t>(share * static_cast<double>(file.bytes))};
}

void DiskCache::add(File file, const std::string& space, std::span<const int32_t> tokens) {
  file.name = next_++;
  file.tokens = static_cast<int64_t>(tokens.size());
  files_.push_front(std::move(file));
  try {
    tree_.add(files_.front().name, space, tokens);
  } catch (const std::bad_alloc&) {
    files_.pop_front();
    throw;
  }
  figures_.bytes += files_.front().bytes;
}

void DiskCache::forget(Place file) {
  tree_.remove(file->name);
  figures_.bytes -= file->bytes;
  files_.erase(file);
}

const DiskCache::File& DiskCache::file_of(TokenTree::Text name) const {
  return *std::find_if(files_.begin(), files_.end(), [&](const File& file) { return file.name == name; });
}

// So much that what is missing would be read again in no time. A long prompt asked about twice is then written once.
bool DiskCache::holds(const HeldText& text) const {
  const auto all = static_cast<int64_t>(text.tokens.size());
  const int64_t enough = all - std::max(options_.least_tokens, all / 8);
  return tree_.longest(text.space, text.tokens).tokens > enough;
}

void DiskCache::put(HeldText text) {
  if (options_.folder.empty() || static_cast<int64_t>(text.tokens.size()) < options_.least_tokens) return;
  {
    const std::lock_guard lock(mutex_);
    const int64_t bytes = text.store.bytes();  // whoever else has pages of it may give them up meanwhile
    const int64_t waiting = figures_.waiting_bytes;
    if (holds(text) || jobs_.size() >= kMostWaiting) return;
    if (waiting > 0 && waiting + bytes > options_.most_waiting_bytes) return;
    jobs_.push_back({.run =
                         [this, text = std::make_shared<HeldText>(std::move(text))] {
                           try {
                             write(*text);
                           } catch (const std::bad_alloc&) {
                             say("a text was not kept: no memory");
                           }
                         },
                     .bytes = bytes});
    figures_.waiting_bytes += bytes;
  }
  wake_.notify_all();
}

void DiskCache::load(const Found& found, Loaded done) {
  {
    const std::lock_guard lock(mutex_);
    // Somebody waits for it: in front of what is to be written.
    jobs_.push_front({.run = [this, found, done = std::move(done)] {
      try {
        done(read(found));
      } catch (const std::bad_alloc&) {
        done(Error{ErrorKind::kMemory, "no memory for " + found.path});
      }
    }});
  }
  wake_.notify_all();
}

void DiskCache::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const int64_t bytes = jobs_.front().bytes;
    {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      contain(job.run);
    }
    lock.lock();
    figures_.waiting_bytes -= bytes;
    busy_ = false;
  }
}

void DiskCache::make_room(int64_t bytes) {
  std::error_code ignored;
  while (!files_.empty() && figures_.bytes + bytes > options_.most_bytes) {
    fs::remove(files_.back().path, ignored);
    forget(std::prev(files_.end()));
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
    if (saved.error().kind == ErrorKind::kInterrupted) return;
    say("a text was not kept: " + saved.error().message);
    const std::lock_guard lock(mutex_);
    ++figures_.failed;
    return;
  }
  std::error_code ignored;
  const std::lock_guard lock(mutex_);
  for (const TokenTree::Text name : tree_.beginnings(text.space, text.tokens)) {
    const auto file = std::find_if(files_.begin(), files_.end(), [&](const File& one) { return one.name == name; });
    if (file->path != path) fs::remove(file->path, ignored);
    forget(file);
  }
  ++figures_.written;
  add({.path = path, .bytes = static_cast<int64_t>(fs::file_size(path, ignored))}, text.space, text.tokens);
}

Result<HeldText> DiskCache::read(const Found& found) {
  const std::string& path = found.path;
  std::string text;
  Result<kv::Store> store = kv::Store::load(path, options_.model_hash, backend_, &stop_, &text, &options_.types,
                                            static_cast<int32_t>(found.tokens));
  std::optional<Note> note = store.ok() ? parse_note(text) : std::nullopt;
  if (note) note->tokens.resize(std::min(note->tokens.size(), static_cast<size_t>(found.tokens)));
  const bool whole = note && static_cast<int64_t>(note->tokens.size()) == store->next_position() && store->exact() &&
                     note->build == options_.build;
  const std::lock_guard lock(mutex_);
  const auto file = std::find_if(files_.begin(), files_.end(), [&](const File& one) { return one.path == path; });
  if (!whole) {
    // No memory is no fault of the file.
    const bool damaged =
        store.ok() || (store.error().kind != ErrorKind::kMemory && store.error().kind != ErrorKind::kInterrupted);
    if (damaged && file != files_.end()) forget(file);
    ++figures_.failed;
    const Error why =
        store.ok() ? Error{ErrorKind::kUsage, path + " does not hold the text that it names"} : store.error();
    say("passed over: " + why.message);
    return why;
  }
  ++figures_.loaded;
  if (file != files_.end()) files_.splice(files_.begin(), files_, file);
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return HeldText{.tokens = std::move(note->tokens), .store = std::move(*store), .space = std::move(note->space)};
}

DiskCache::Figures DiskCache::figures() const {
  const std::lock_guard lock(mutex_);
  Figures figures = figures_;
  figures.texts = static_cast<int64_t>(files_.size());
  figures.waiting = static_cast<int64_t>(jobs_.size());
  return figures;
}

bool DiskCache::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty() && !busy_;
}

}  // namespace ei::server
