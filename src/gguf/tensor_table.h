// Reads the tensor table of a file and ties every tensor to bytes inside it.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf/file.h"
#include "gguf/reader.h"

namespace ei::gguf {

struct TensorTable {
  std::vector<Tensor> tensors;
  std::unordered_map<std::string_view, size_t> index;
};

// `file` is the whole file, `reader` stands at the table. Tensors must follow each other without gaps other than the
// padding to `alignment`, as the format demands.
Result<TensorTable> read_tensor_table(Reader& reader, uint64_t count, uint64_t alignment,
                                      std::span<const std::byte> file);

}  // namespace ei::gguf
