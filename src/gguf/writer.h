// Writer: the metadata and tensor table of a GGUF file, for tools and tests. The tensor data follows head(), each
// tensor padded to the alignment, in the order of the tensor() calls.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "gguf/tensor_type.h"

namespace ei::gguf {

class Writer {
 public:
  static constexpr int64_t kAlignment = 32;

  void u32(std::string_view key, uint32_t value);
  void f32(std::string_view key, float value);
  void boolean(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  void texts(std::string_view key, std::span<const std::string> values);
  void i32s(std::string_view key, std::span<const int32_t> values);
  void f32s(std::string_view key, std::span<const float> values);
  // Any value, also a broken one: the type id and the bytes that follow it.
  void raw(std::string_view key, uint32_t type, std::string_view payload);
  // Forgets a key.
  void erase(std::string_view key);

  // The next tensor; its offset follows from those before it. Returns its size in bytes.
  int64_t tensor(std::string_view name, const TensorType& type, std::span<const int64_t> shape);
  // Any table entry, also a broken one.
  void raw_tensor(std::string_view name, std::span<const uint64_t> shape, uint32_t type, uint64_t offset);

  // Magic, version, counts, metadata, tensor table and the padding before the data.
  std::string head(uint32_t version = 3) const;
  int64_t data_bytes() const { return data_bytes_; }  // of all tensors, padded

  static int64_t padding(int64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

 private:
  struct Entry {
    std::string key;
    uint32_t type = 0;
    std::string payload;
  };

  std::vector<Entry> entries_;
  std::vector<std::string> tensors_;  // encoded table entries
  int64_t data_bytes_ = 0;
};

// Little-endian bytes of a number, and a string with its length, as the format wants them.
template <typename T>
std::string encode(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
std::string encode_text(std::string_view text);
// The payload of an array: element type, count, elements.
std::string encode_array(ValueType element, uint64_t count, std::string_view elements);

}  // namespace ei::gguf
