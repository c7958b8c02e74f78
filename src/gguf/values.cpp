// The typed look-ups of gguf::File and the small facts of its plain structs.
#include <limits>

#include "gguf/file.h"
#include "gguf/metadata.h"

namespace ei::gguf {
namespace {

std::optional<int64_t> as_integer(const Value& value) {
  if (const auto* number = std::get_if<uint64_t>(&value.data)) {
    if (*number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(*number);
  }
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  return std::nullopt;
}

}  // namespace

int64_t Tensor::rows() const {
  int64_t product = 1;
  for (size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

std::optional<int64_t> File::integer(std::string_view key) const {
  const Value* value = find(key);
  return value == nullptr ? std::nullopt : as_integer(*value);
}

std::optional<double> File::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(&value->data)) return *real;
  if (const auto* whole = std::get_if<uint64_t>(&value->data)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<int64_t>(&value->data)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<bool> File::boolean(std::string_view key) const {
  const Value* value = find(key);
  const bool* flag = value == nullptr ? nullptr : std::get_if<bool>(&value->data);
  return flag == nullptr ? std::nullopt : std::optional(*flag);
}

std::optional<std::string_view> File::string(std::string_view key) const {
  const Value* value = find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string_view>(&value->data);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

const Array* File::array(std::string_view key) const {
  const Value* value = find(key);
  return value == nullptr ? nullptr : std::get_if<Array>(&value->data);
}

std::optional<int64_t> File::integer_at(const Array& array, uint64_t index) {
  const auto width = static_cast<size_t>(value_bytes(array.element));
  if (index >= array.count || width == 0) return std::nullopt;
  const Value value = read_number(array.element, array.bytes.data() + static_cast<size_t>(index) * width);
  if (const bool* flag = std::get_if<bool>(&value.data)) return *flag ? 1 : 0;
  return as_integer(value);
}

}  // namespace ei::gguf
