#include "malformed_groups.h"

namespace ei::fuzz {
namespace {

using Shape = std::vector<uint64_t>;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;
constexpr uint64_t kBig = uint64_t{1} << 62;

struct Entry {
  std::string name;
  Shape shape;
  uint32_t type = kF32;
  uint64_t offset = 0;
};

// A valid head, these tensors, and 256 bytes of data.
NamedFile with_tensors(const std::string& name, const std::vector<Entry>& entries, size_t data_bytes = 256) {
  gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
  for (const Entry& entry : entries) writer.raw_tensor(entry.name, entry.shape, entry.type, entry.offset);
  return {name, writer.head() + std::string(data_bytes, '\0')};
}

void add_shapes(Files& files) {
  files.push_back(with_tensors("no-dimensions", {{"t", {}}}));
  files.push_back(with_tensors("five-dimensions", {{"t", {1, 1, 1, 1, 1}}}));
  files.push_back(with_tensors("extent-0", {{"t", {0}}}));
  files.push_back(with_tensors("extent-0-last", {{"t", {8, 0}}}));
  files.push_back(with_tensors("extent-0-hides-overflow", {{"t", {kBig, kBig, kBig, 0}}}));
  files.push_back(with_tensors("product-wraps-to-0", {{"t", {uint64_t{1} << 32, uint64_t{1} << 32}}}));
  files.push_back(with_tensors("product-wraps-to-small", {{"t", {(uint64_t{1} << 32) + 8, uint64_t{1} << 32}}}));
  files.push_back(with_tensors("product-of-four-wraps", {{"t", {65536, 65536, 65536, 65536}}}));
  files.push_back(with_tensors("product-fits-bytes-wrap", {{"t", {uint64_t{1} << 31, uint64_t{1} << 31}}}));
  for (const Lie& lie : kLies) files.push_back(with_tensors(std::string("extent-") + lie.name, {{"t", {lie.value}}}));
  for (const gguf::TensorType& type : gguf::tensor_types()) {
    const auto block = static_cast<uint64_t>(type.block_elements);
    const std::string name(type.name);
    files.push_back(with_tensors("2^62-of-" + name, {{"t", {kBig}, type.id}}));
    files.push_back(with_tensors("2^63-of-" + name, {{"t", {2 * kBig}, type.id}}));
    files.push_back(with_tensors("nearly-2^64-of-" + name, {{"t", {uint64_t{0} - block}, type.id}}));
    if (block > 1) files.push_back(with_tensors("half-a-block-of-" + name, {{"t", {block / 2}, type.id}}));
    if (!type.loadable) files.push_back(with_tensors("weights-of-" + name, {{"t", {block}, type.id}}, 4096));
  }
}

void add_places(Files& files) {
  const Entry first = {"a", {8}};
  files.push_back(with_tensors("offset-beyond-the-file", {{"a", {8}, kF32, 4096}}));
  files.push_back(with_tensors("offset-not-aligned", {{"a", {8}, kF32, 1}}));
  files.push_back(with_tensors("offset-wraps", {{"a", {8}, kF32, uint64_t{0} - 32}}));
  files.push_back(with_tensors("offset-minus-1", {{"a", {8}, kF32, ~uint64_t{0}}}));
  files.push_back(with_tensors("overlap", {first, {"b", {8}, kF32, 0}}));
  files.push_back(with_tensors("gap", {first, {"b", {8}, kF32, 96}}));
  files.push_back(
      with_tensors("sum-of-sizes-wraps", {{"a", {kBig}, kF16, 0}, {"b", {kBig}, kF16, 2 * kBig}, {"c", {8}, kF32, 0}}));
  files.push_back(with_tensors(
      "sum-of-many-sizes-wraps",
      {{"a", {kBig - 16}, kF16, 0}, {"b", {kBig - 16}, kF16, 2 * kBig - 32}, {"c", {64}, kF32, uint64_t{0} - 64}}));
  files.push_back(with_tensors("no-data", {first}, 0));
  files.push_back(with_tensors("one-byte-short", {{"a", {64}}}, 255));
  files.push_back(with_tensors("name-twice", {first, {"a", {8}, kF32, 32}}));
  files.push_back(with_tensors("name-empty", {{"", {8}}}));
  files.push_back(with_tensors("name-of-64-bytes", {{std::string(64, 'n'), {8}}}));
  files.push_back(with_tensors("name-with-nul", {{std::string("a\0b", 3), {8}}}));
  for (const uint32_t type : {4u, 5u, 31u, 36u, 43u, 0x80000000u, 0xFFFFFFFFu}) {
    files.push_back(with_tensors("tensor-type-" + std::to_string(type), {{"a", {256}, type}}));
  }
  for (const uint32_t dimensions : {5u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    NamedFile file = with_tensors("dimensions-" + std::to_string(dimensions), {{"unmistakable", {8}}});
    const size_t name = file.bytes.find("unmistakable");
    file.bytes = patched(file.bytes, name + 12, dimensions);
    files.push_back(file);
  }
}

void add_alignments(Files& files) {
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 17, 1u << 31, 0xFFFFFFFFu}) {
    gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
    writer.u32("general.alignment", alignment);
    files.push_back({"alignment-" + std::to_string(alignment), writer.head() + std::string(64, '\0')});
  }
  gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
  writer.raw("general.alignment", id(gguf::ValueType::kU64), gguf::encode<uint64_t>(32));
  files.push_back({"alignment-of-wrong-type", writer.head()});
}

}  // namespace

Files malformed_tensors() {
  Files files;
  add_shapes(files);
  add_places(files);
  add_alignments(files);
  return files;
}

}  // namespace ei::fuzz
