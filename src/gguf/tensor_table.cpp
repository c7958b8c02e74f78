#include "gguf/tensor_table.h"

#include <limits>

namespace ei::gguf {
namespace {

using ull = unsigned long long;

constexpr uint64_t kMaxTensors = 1 << 14;  // libllama looks names up one by one
constexpr uint32_t kMaxDims = 4;
constexpr size_t kMaxNameBytes = 63;  // ggml keeps names in 64 bytes with the closing NUL

Result<std::string_view> read_name(Reader& reader) {
  EI_ASSIGN_OR_RETURN(const std::string_view name, reader.text("a tensor name"));
  if (name.empty()) return make_error(ErrorKind::kModel, "a tensor has an empty name");
  if (name.size() > kMaxNameBytes) {
    return make_error(ErrorKind::kModel, "tensor name '%s' has %zu bytes; at most %zu are allowed",
                      printable(name).c_str(), name.size(), kMaxNameBytes);
  }
  if (name.find('\0') != std::string_view::npos) {
    return make_error(ErrorKind::kModel, "tensor name '%s' holds a NUL byte", printable(name).c_str());
  }
  return name;
}

// Reads the extents and returns the number of elements, which fits in 63 bits.
Result<int64_t> read_shape(Reader& reader, const std::string& name, std::vector<int64_t>& shape) {
  EI_ASSIGN_OR_RETURN(const uint32_t dims, reader.number<uint32_t>("a tensor's number of dimensions"));
  if (dims < 1 || dims > kMaxDims) {
    return make_error(ErrorKind::kModel, "tensor '%s' has %u dimensions; 1 to %u are allowed", name.c_str(), dims,
                      kMaxDims);
  }
  int64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    EI_ASSIGN_OR_RETURN(const uint64_t extent, reader.number<uint64_t>("a tensor extent"));
    if (extent == 0) return make_error(ErrorKind::kModel, "tensor '%s' has an extent of 0", name.c_str());
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / elements)) {
      return make_error(ErrorKind::kModel, "tensor '%s' has too many elements: extent %u is %llu", name.c_str(), i,
                        static_cast<ull>(extent));
    }
    elements *= static_cast<int64_t>(extent);
    shape.push_back(static_cast<int64_t>(extent));
  }
  return elements;
}

Result<const TensorType*> read_tensor_type(Reader& reader, const std::string& name) {
  EI_ASSIGN_OR_RETURN(const uint32_t id, reader.number<uint32_t>("a tensor type"));
  const TensorType* type = find_tensor_type(id);
  if (type == nullptr) {
    return make_error(ErrorKind::kModel, "tensor '%s' has the unknown type %u; supported: %s", name.c_str(), id,
                      supported_tensor_types().c_str());
  }
  if (!type->loadable) {
    return make_error(ErrorKind::kModel, "tensor '%s' has type %s, which cannot be a weight; supported: %s",
                      name.c_str(), std::string(type->name).c_str(), supported_tensor_types().c_str());
  }
  return type;
}

struct Placed {
  Tensor tensor;
  uint64_t offset = 0;  // from the start of the data section, as the file says
};

Result<Placed> read_tensor(Reader& reader) {
  Placed placed;
  Tensor& tensor = placed.tensor;
  EI_ASSIGN_OR_RETURN(tensor.name, read_name(reader));
  const std::string name = printable(tensor.name);
  EI_ASSIGN_OR_RETURN(const int64_t elements, read_shape(reader, name, tensor.shape));
  EI_ASSIGN_OR_RETURN(tensor.type, read_tensor_type(reader, name));
  if (tensor.cols() % tensor.type->block_elements != 0) {
    return make_error(ErrorKind::kModel, "tensor '%s' has rows of %lld elements; %s needs a multiple of %lld",
                      name.c_str(), static_cast<long long>(tensor.cols()), std::string(tensor.type->name).c_str(),
                      static_cast<long long>(tensor.type->block_elements));
  }
  const int64_t blocks = elements / tensor.type->block_elements;
  if (blocks > std::numeric_limits<int64_t>::max() / tensor.type->block_bytes) {
    return make_error(ErrorKind::kModel, "tensor '%s' has %lld elements, more than memory can address", name.c_str(),
                      static_cast<long long>(elements));
  }
  tensor.bytes = blocks * tensor.type->block_bytes;
  EI_ASSIGN_OR_RETURN(placed.offset, reader.number<uint64_t>("a tensor offset"));
  return placed;
}

uint64_t padding(uint64_t position, uint64_t alignment) { return (alignment - position % alignment) % alignment; }

// Points the tensors at their bytes. Every sum stays below the file size, so none can wrap.
Status place(std::vector<Tensor>& tensors, const std::vector<uint64_t>& offsets, uint64_t alignment,
             std::span<const std::byte> data) {
  uint64_t position = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor& tensor = tensors[i];
    const std::string name = printable(tensor.name);
    position += padding(position, alignment);
    if (offsets[i] != position) {
      return make_error(ErrorKind::kModel, "tensor '%s' lies at offset %llu of the data; %llu was expected",
                        name.c_str(), static_cast<ull>(offsets[i]), static_cast<ull>(position));
    }
    if (position > data.size() || static_cast<uint64_t>(tensor.bytes) > data.size() - position) {
      return make_error(ErrorKind::kModel,
                        "truncated: tensor '%s' needs %lld bytes at offset %llu of the data, which ends at %zu; fetch "
                        "the model again",
                        name.c_str(), static_cast<long long>(tensor.bytes), static_cast<ull>(position), data.size());
    }
    tensor.data = data.data() + position;
    position += static_cast<uint64_t>(tensor.bytes);
  }
  return {};
}

}  // namespace

Result<TensorTable> read_tensor_table(Reader& reader, uint64_t count, uint64_t alignment,
                                      std::span<const std::byte> file) {
  if (count > kMaxTensors) {
    return make_error(ErrorKind::kModel, "the file claims %llu tensors; at most %llu make sense",
                      static_cast<ull>(count), static_cast<ull>(kMaxTensors));
  }
  TensorTable table;
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < count; ++i) {
    EI_ASSIGN_OR_RETURN(Placed placed, read_tensor(reader));
    if (!table.index.emplace(placed.tensor.name, table.tensors.size()).second) {
      return make_error(ErrorKind::kModel, "tensor '%s' appears twice", printable(placed.tensor.name).c_str());
    }
    table.tensors.push_back(std::move(placed.tensor));
    offsets.push_back(placed.offset);
  }
  if (count == 0) return table;
  const uint64_t gap = padding(reader.position(), alignment);
  EI_RETURN_IF_ERROR(reader.block(gap, "the padding before the tensor data"));
  EI_RETURN_IF_ERROR(place(table.tensors, offsets, alignment, file.subspan(reader.position())));
  return table;
}

}  // namespace ei::gguf
