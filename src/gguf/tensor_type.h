// The element types a GGUF file may hold: id, name, block geometry. Our own table, so that a file is judged before ggml
// sees it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ei::gguf {

struct TensorType {
  uint32_t id = 0;
  std::string_view name;       // "Q8_0"
  int64_t block_elements = 1;  // elements of one block
  int64_t block_bytes = 0;     // bytes of one block
  bool loadable = true;        // can be the type of a weight on the CPU
};

std::span<const TensorType> tensor_types();                 // all of them, by ascending id
const TensorType* find_tensor_type(uint32_t id);            // null when unknown or removed
const TensorType* find_tensor_type(std::string_view name);  // by name, case-insensitive; null when unknown
std::string supported_tensor_types();                       // "F32, F16, ..." for messages

}  // namespace ei::gguf
