// Files with a running checksum: FileWriter appears under its name only when complete, FileReader trusts nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "kv/checksum.h"

namespace ei::kv {

// Writes a temporary file in the same folder; commit() makes it durable and gives it its name. Without a successful
// commit() nothing stays behind.
class FileWriter {
 public:
  static constexpr unsigned kAnybody = 0666;    // less what the process masks
  static constexpr unsigned kOwnerOnly = 0600;  // what holds somebody's text
  explicit FileWriter(std::string path, unsigned mode = kAnybody) : path_(std::move(path)), mode_(mode) {}
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  Status open();
  Status put(const void* data, size_t bytes);
  template <typename T>
  Status put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    return put(&value, sizeof(value));
  }
  Status put_checksum() { return put(checksum_.value()); }
  Status commit();

 private:
  template <typename Take>
  Status take_name(Take take);  // the first free name beside path_ that take(name) can have becomes temporary_
  Status flush();
  Error failure(const char* what) const;

  std::string path_;
  unsigned mode_;
  std::string temporary_;  // empty while the file has no name, and once there is nothing to clean up
  int file_ = -1;
  std::vector<unsigned char> buffer_;
  Checksum checksum_;
};

class FileReader {
 public:
  explicit FileReader(std::string path) : path_(std::move(path)) {}
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  Status open();
  uint64_t remaining() const { return remaining_; }
  Status get(void* data, size_t bytes);
  template <typename T>
  Status get(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    return get(&value, sizeof(value));
  }
  // Reads a checksum and compares it with that of all bytes before it.
  Status check_checksum();
  // "cannot load 'path': " + why
  Error failure(const std::string& why) const;

 private:
  std::string path_;
  int file_ = -1;
  uint64_t remaining_ = 0;  // bytes not handed out yet
  std::vector<unsigned char> buffer_;
  size_t begin_ = 0;
  Checksum checksum_;
};

}  // namespace ei::kv
