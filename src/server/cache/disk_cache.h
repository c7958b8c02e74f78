// DiskCache: held texts as files, so that they outlive memory and the process. A thread of its own writes and reads
// them; the compute thread hands over forks, whose pages are shared, and goes on. Files are complete or not there
// (kv::Store::save), and name the model, the build, how the text was read, and its tokens; whatever cannot be read is
// passed over with one line to the log.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "server/cache/prefix_cache.h"
#include "server/cache/token_tree.h"

namespace ei {
class Backend;
}

namespace ei::server {

struct DiskCacheOptions {
  std::string folder{};  // empty: no files
  int64_t most_bytes = int64_t{8} << 30;
  int64_t most_waiting_bytes = int64_t{512} << 20;  // of texts that wait to be written, or of one that is larger
  int64_t least_tokens = 256;                       // a shorter text is read as quickly
  uint64_t model_hash = 0;
  std::string build{};      // another build may round otherwise: its files are not used
  kv::StoreConfig types{};  // of the sessions that will use them: rows are loaded into these
  std::function<void(const std::string& line)> log = nullptr;
};

class DiskCache {
 public:
  DiskCache(const Backend& backend, DiskCacheOptions options);
  // What is being written is given up.
  ~DiskCache();

  struct Found {
    std::string path{};
    int64_t tokens = 0;  // leading ones that the prompt has in common with it
    int64_t bytes = 0;   // that these take in memory, about
  };
  // The file with the longest prefix in common with `prompt`, read in this way.
  std::optional<Found> find(std::span<const int32_t> prompt, const std::string& space) const;
  // Writes the text behind what else waits to be written. It takes the place of files that it begins with; the least
  // recently used go when there is no room. Nothing is done where too much waits.
  void put(HeldText text);
  // Reads what find() named, and no more of the file; `done` is called on the thread of the cache.
  using Loaded = std::function<void(Result<HeldText> text)>;
  void load(const Found& found, Loaded done);

  struct Figures {
    int64_t texts = 0;
    int64_t bytes = 0;
    int64_t waiting = 0;        // to be written or read
    int64_t waiting_bytes = 0;  // of memory, of texts that are to be written or are being written
    int64_t written = 0;        // files, since the beginning
    int64_t loaded = 0;
    int64_t failed = 0;  // writes and reads
  };
  Figures figures() const;
  int64_t most_bytes() const { return options_.folder.empty() ? 0 : options_.most_bytes; }
  // Nothing waits to be written or read.
  bool idle() const;

 private:
  struct File {
    TokenTree::Text name = 0;
    std::string path;
    int64_t bytes = 0;
    int64_t tokens = 0;
  };
  using Place = std::list<File>::iterator;
  struct Job {
    std::function<void()> run;
    int64_t bytes = 0;  // that it keeps in memory
  };

  void run();
  void scan();
  void write(const HeldText& text);
  Result<HeldText> read(const Found& found);
  void say(const std::string& line) const;
  bool holds(const HeldText& text) const;                                          // under the lock
  void make_room(int64_t bytes);                                                   // under the lock
  void add(File file, const std::string& space, std::span<const int32_t> tokens);  // under the lock
  void forget(Place file);                                                         // under the lock
  const File& file_of(TokenTree::Text name) const;                                 // under the lock

  const Backend& backend_;
  const DiskCacheOptions options_;
  CancelToken stop_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  TokenTree tree_;         // finds them
  std::list<File> files_;  // the last used first
  TokenTree::Text next_ = 0;
  Figures figures_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace ei::server
