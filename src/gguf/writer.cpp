#include "gguf/writer.h"

#include <algorithm>

namespace ei::gguf {
namespace {

uint32_t id(ValueType type) { return static_cast<uint32_t>(type); }

template <typename T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

std::string encode_text(std::string_view text) { return encode<uint64_t>(text.size()).append(text); }

std::string encode_array(ValueType element, uint64_t count, std::string_view elements) {
  return encode<uint32_t>(id(element)).append(encode<uint64_t>(count)).append(elements);
}

void Writer::u32(std::string_view key, uint32_t value) { raw(key, id(ValueType::kU32), encode(value)); }
void Writer::f32(std::string_view key, float value) { raw(key, id(ValueType::kF32), encode(value)); }
void Writer::boolean(std::string_view key, bool value) {
  raw(key, id(ValueType::kBool), encode<uint8_t>(value ? 1 : 0));
}
void Writer::text(std::string_view key, std::string_view value) {
  raw(key, id(ValueType::kString), encode_text(value));
}

void Writer::texts(std::string_view key, std::span<const std::string> values) {
  std::string elements;
  for (const std::string& value : values) elements += encode_text(value);
  raw(key, id(ValueType::kArray), encode_array(ValueType::kString, values.size(), elements));
}

void Writer::i32s(std::string_view key, std::span<const int32_t> values) {
  raw(key, id(ValueType::kArray), encode_array(ValueType::kI32, values.size(), bytes_of(values)));
}

void Writer::f32s(std::string_view key, std::span<const float> values) {
  raw(key, id(ValueType::kArray), encode_array(ValueType::kF32, values.size(), bytes_of(values)));
}

void Writer::raw(std::string_view key, uint32_t type, std::string_view payload) {
  entries_.push_back({std::string(key), type, std::string(payload)});
}

void Writer::erase(std::string_view key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

int64_t Writer::tensor(std::string_view name, const TensorType& type, std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  const int64_t bytes = elements / type.block_elements * type.block_bytes;
  const std::vector<uint64_t> extents(shape.begin(), shape.end());
  raw_tensor(name, extents, type.id, static_cast<uint64_t>(data_bytes_));
  data_bytes_ += bytes + padding(bytes);
  return bytes;
}

void Writer::raw_tensor(std::string_view name, std::span<const uint64_t> shape, uint32_t type, uint64_t offset) {
  std::string entry = encode_text(name);
  entry += encode(static_cast<uint32_t>(shape.size()));
  for (const uint64_t extent : shape) entry += encode(extent);
  entry += encode(type);
  entry += encode(offset);
  tensors_.push_back(std::move(entry));
}

std::string Writer::head(uint32_t version) const {
  std::string out = "GGUF";
  out += encode(version);
  out += encode<uint64_t>(tensors_.size());
  out += encode<uint64_t>(entries_.size());
  for (const Entry& entry : entries_) {
    out += encode_text(entry.key);
    out += encode(entry.type);
    out += entry.payload;
  }
  for (const std::string& tensor : tensors_) out += tensor;
  out.append(static_cast<size_t>(padding(static_cast<int64_t>(out.size()))), '\0');
  return out;
}

}  // namespace ei::gguf
