// Plain values one after the other in a string, and back: what travels in the note of a saved cache. The reader checks
// every length, so that a damaged note is an answer and no crash.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ei {

class ByteWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  // Vectors and strings: their length first.
  template <typename Values>
  void put_all(const Values& values) {
    put(static_cast<int64_t>(values.size()));
    if (!values.empty())
      bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(*values.data()));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  // False: there are not that many bytes.
  template <typename T>
  [[nodiscard]] bool get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return true;
  }
  template <typename Values>
  [[nodiscard]] bool get_all(Values& values) {
    constexpr size_t kBytes = sizeof(typename Values::value_type);
    int64_t count = 0;
    if (!get(count) || count < 0 || static_cast<uint64_t>(count) > left_.size() / kBytes) return false;
    values.resize(static_cast<size_t>(count));
    if (count > 0) std::memcpy(values.data(), left_.data(), values.size() * kBytes);
    left_.remove_prefix(values.size() * kBytes);
    return true;
  }
  bool done() const { return left_.empty(); }

 private:
  std::string_view left_;
};

}  // namespace ei
