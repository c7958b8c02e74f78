#include "walk.h"

#include <cstring>
#include <memory>

namespace ei::fuzz {

uint64_t walk(const gguf::File& file) {
  uint64_t sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    sum += key.size() + static_cast<uint64_t>(file.integer(key).value_or(0));
    sum += file.number(key).has_value() + file.boolean(key).value_or(false) + file.string(key).value_or("").size();
    const gguf::Array* array = file.array(key);
    if (array == nullptr) continue;
    for (uint64_t i = 0; i < array->count; ++i)
      sum += static_cast<uint64_t>(gguf::File::integer_at(*array, i).value_or(1));
    for (const std::string_view text : array->strings) {
      for (const char c : text) sum += static_cast<unsigned char>(c);
    }
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    sum += std::to_integer<uint64_t>(tensor.data[0]) + std::to_integer<uint64_t>(tensor.data[tensor.bytes - 1]);
    sum += static_cast<uint64_t>(tensor.rows()) + file.tensor(tensor.name)->name.size();
    file.release_pages(tensor);
  }
  return sum;
}

bool parse_copy(const std::string& bytes, const std::function<void(const Result<gguf::File>&)>& judge) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const auto parsed = gguf::File::parse({copy.get(), bytes.size()}, "test");
  judge(parsed);
  if (!parsed.ok()) return false;
  return walk(*parsed) != ~uint64_t{0};
}

}  // namespace ei::fuzz
