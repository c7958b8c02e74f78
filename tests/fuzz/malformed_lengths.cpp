#include "malformed_groups.h"

namespace ei::fuzz {
namespace {

using gguf::encode;
using gguf::encode_array;
using gguf::ValueType;

// The valid file with one more value, whose payload is given.
NamedFile with_value(const std::string& name, std::string_view key, uint32_t type, const std::string& payload) {
  gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
  writer.raw(key, type, payload);
  return {name, writer.head()};
}

void add_lies(Files& files) {
  const std::string valid = gguf::small_model();
  for (const Lie& lie : kLies) {
    const std::string name = lie.name;
    files.push_back({"key-length-" + name, patched(valid, 24, lie.value)});
    files.push_back(with_value("string-length-" + name, "x", id(ValueType::kString), encode(lie.value) + "abc"));
    files.push_back(with_value("string-in-array-length-" + name, "x", id(ValueType::kArray),
                               encode_array(ValueType::kString, 1, encode(lie.value))));
    for (const ValueType type :
         {ValueType::kU8, ValueType::kF32, ValueType::kBool, ValueType::kString, ValueType::kU64, ValueType::kF64}) {
      files.push_back(with_value("array-of-" + std::to_string(id(type)) + "-length-" + name, "x", id(ValueType::kArray),
                                 encode_array(type, lie.value, "12345678")));
    }
  }
}

}  // namespace

Files malformed_lengths() {
  Files files;
  add_lies(files);
  for (const uint32_t type : {13u, 255u, 0xFFFFFFFFu}) {
    files.push_back(with_value("value-type-" + std::to_string(type), "x", type, "12345678"));
    files.push_back(with_value("element-type-" + std::to_string(type), "x", id(ValueType::kArray),
                               encode(type) + encode(uint64_t{1}) + "12345678"));
  }
  files.push_back(with_value("array-of-arrays", "x", id(ValueType::kArray),
                             encode_array(ValueType::kArray, 1, encode_array(ValueType::kU8, 0, ""))));
  files.push_back(with_value("bool-2", "x", id(ValueType::kBool), "\x02"));
  files.push_back(with_value("bool-in-array-255", "x", id(ValueType::kArray),
                             encode_array(ValueType::kBool, 2, std::string("\x01\xFF", 2))));
  files.push_back(with_value("key-empty", "", id(ValueType::kU8), "1"));
  files.push_back(with_value("key-twice", "general.name", id(ValueType::kString), gguf::encode_text("again")));
  files.push_back(with_value("key-with-nul", std::string_view("a\0b", 3), id(ValueType::kU8), "1"));
  files.push_back(with_value("key-of-100-kilobytes", std::string(100'000, 'k'), id(ValueType::kU8), "1"));
  std::string lengths;  // of empty strings
  lengths.resize(40'000'000);
  files.push_back(with_value("five-million-strings", "x", id(ValueType::kArray),
                             encode_array(ValueType::kString, 5'000'000, lengths)));
  files.push_back(with_value("five-million-bools", "x", id(ValueType::kArray),
                             encode_array(ValueType::kBool, 5'000'000, std::string(5'000'000, '\1'))));
  files.push_back(with_value("seventy-megabytes-of-text", "x", id(ValueType::kString),
                             gguf::encode_text(std::string(70'000'000, 'x'))));
  return files;
}

}  // namespace ei::fuzz
