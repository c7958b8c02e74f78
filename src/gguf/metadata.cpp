#include "gguf/metadata.h"

#include <array>

namespace ei::gguf {
namespace {

// Far above any real file (about 100 keys, 300k tokens, 500k merges); they keep our own bookkeeping small whatever the
// file holds.
constexpr uint64_t kMaxKeys = 1 << 16;
constexpr uint64_t kMaxKeyBytes = 1 << 16;
constexpr uint64_t kMaxStrings = 1 << 22;  // in all string arrays of one file together
constexpr uint64_t kMaxNumbers = 1 << 22;  // in all other arrays together: libllama writes each out as text
constexpr uint64_t kMaxBytes = 1 << 26;    // of the whole section: libllama copies it several times

struct TypeFacts {
  const char* name;
  int64_t bytes;
};
constexpr std::array<TypeFacts, 13> kTypeFacts = {{{"u8", 1},
                                                   {"i8", 1},
                                                   {"u16", 2},
                                                   {"i16", 2},
                                                   {"u32", 4},
                                                   {"i32", 4},
                                                   {"f32", 4},
                                                   {"bool", 1},
                                                   {"string", 0},
                                                   {"array", 0},
                                                   {"u64", 8},
                                                   {"i64", 8},
                                                   {"f64", 8}}};

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

Result<ValueType> read_value_type(Reader& reader, const std::string& key) {
  EI_ASSIGN_OR_RETURN(const uint32_t id, reader.number<uint32_t>("a value type"));
  if (id >= kTypeFacts.size()) {
    return make_error(ErrorKind::kModel, "key '%s' has the unknown value type %u", key.c_str(), id);
  }
  return static_cast<ValueType>(id);
}

Status check_bools(std::span<const std::byte> bytes, const std::string& key) {
  for (const std::byte byte : bytes) {
    if (byte > std::byte{1}) {
      return make_error(ErrorKind::kModel, "key '%s' holds a bool that is neither 0 nor 1: %u", key.c_str(),
                        std::to_integer<unsigned>(byte));
    }
  }
  return {};
}

class MetadataReader {
 public:
  explicit MetadataReader(Reader& reader) : reader_(reader) {}

  Status read(const std::string& key, Value& into) {
    EI_ASSIGN_OR_RETURN(into.type, read_value_type(reader_, key));
    if (into.type == ValueType::kArray) return array(key, into.data.emplace<Array>());
    if (into.type == ValueType::kString) {
      EI_ASSIGN_OR_RETURN(into.data, reader_.text("a string value"));
      return {};
    }
    EI_ASSIGN_OR_RETURN(const auto bytes, reader_.block(static_cast<uint64_t>(value_bytes(into.type)), "a value"));
    if (into.type == ValueType::kBool) EI_RETURN_IF_ERROR(check_bools(bytes, key));
    into.data = read_number(into.type, bytes.data()).data;
    return {};
  }

 private:
  Status array(const std::string& key, Array& array) {
    EI_ASSIGN_OR_RETURN(array.element, read_value_type(reader_, key));
    EI_ASSIGN_OR_RETURN(array.count, reader_.number<uint64_t>("an array length"));
    if (array.element == ValueType::kArray) {
      return make_error(ErrorKind::kModel, "key '%s' is an array of arrays, which no model uses", key.c_str());
    }
    if (array.element == ValueType::kString) {
      EI_RETURN_IF_ERROR(strings(key, array));
    } else {
      const auto width = static_cast<uint64_t>(value_bytes(array.element));
      if (array.count > reader_.remaining() / width) return too_long(key, array.count);
      numbers_ += array.count;
      if (numbers_ > kMaxNumbers) {
        return make_error(ErrorKind::kModel, "more than %llu numbers in the arrays up to key '%s'",
                          static_cast<unsigned long long>(kMaxNumbers), key.c_str());
      }
      EI_ASSIGN_OR_RETURN(array.bytes, reader_.block(array.count * width, "an array"));
      if (array.element == ValueType::kBool) EI_RETURN_IF_ERROR(check_bools(array.bytes, key));
    }
    return {};
  }

  Status strings(const std::string& key, Array& array) {
    if (array.count > reader_.remaining() / sizeof(uint64_t)) return too_long(key, array.count);
    strings_ += array.count;
    if (strings_ > kMaxStrings) {
      return make_error(ErrorKind::kModel, "more than %llu strings in the arrays up to key '%s'",
                        static_cast<unsigned long long>(kMaxStrings), key.c_str());
    }
    array.strings.reserve(static_cast<size_t>(array.count));
    for (uint64_t i = 0; i < array.count; ++i) {
      EI_ASSIGN_OR_RETURN(const std::string_view text, reader_.text("an array string"));
      array.strings.push_back(text);
    }
    return {};
  }

  Error too_long(const std::string& key, uint64_t count) const {
    return make_error(ErrorKind::kModel, "truncated or corrupt: key '%s' claims %llu elements, %zu bytes are left",
                      key.c_str(), static_cast<unsigned long long>(count), reader_.remaining());
  }

  Reader& reader_;
  uint64_t strings_ = 0;
  uint64_t numbers_ = 0;
};

Status check_key(std::string_view key) {
  if (key.empty()) return make_error(ErrorKind::kModel, "a metadata key is empty");
  if (key.size() > kMaxKeyBytes) {
    return make_error(ErrorKind::kModel, "a metadata key of %zu bytes is longer than %llu", key.size(),
                      static_cast<unsigned long long>(kMaxKeyBytes));
  }
  if (key.find('\0') != std::string_view::npos) {
    return make_error(ErrorKind::kModel, "metadata key '%s' holds a NUL byte", printable(key).c_str());
  }
  return {};
}

}  // namespace

int64_t value_bytes(ValueType type) { return kTypeFacts[static_cast<size_t>(type)].bytes; }
const char* value_type_name(ValueType type) { return kTypeFacts[static_cast<size_t>(type)].name; }

Value read_number(ValueType type, const std::byte* bytes) {
  switch (type) {
    case ValueType::kU8: return {type, uint64_t{load<uint8_t>(bytes)}};
    case ValueType::kI8: return {type, int64_t{load<int8_t>(bytes)}};
    case ValueType::kU16: return {type, uint64_t{load<uint16_t>(bytes)}};
    case ValueType::kI16: return {type, int64_t{load<int16_t>(bytes)}};
    case ValueType::kU32: return {type, uint64_t{load<uint32_t>(bytes)}};
    case ValueType::kI32: return {type, int64_t{load<int32_t>(bytes)}};
    case ValueType::kF32: return {type, double{load<float>(bytes)}};
    case ValueType::kBool: return {type, load<uint8_t>(bytes) != 0};
    case ValueType::kU64: return {type, load<uint64_t>(bytes)};
    case ValueType::kI64: return {type, load<int64_t>(bytes)};
    case ValueType::kF64: return {type, load<double>(bytes)};
    case ValueType::kString:
    case ValueType::kArray: break;
  }
  return {};
}

Result<Metadata> read_metadata(Reader& reader, uint64_t count) {
  if (count > kMaxKeys) {
    return make_error(ErrorKind::kModel, "the file claims %llu metadata keys; at most %llu make sense",
                      static_cast<unsigned long long>(count), static_cast<unsigned long long>(kMaxKeys));
  }
  Metadata metadata;
  MetadataReader values(reader);
  const size_t begin = reader.position();
  for (uint64_t i = 0; i < count; ++i) {
    EI_ASSIGN_OR_RETURN(const std::string_view key, reader.text("a metadata key"));
    EI_RETURN_IF_ERROR(check_key(key));
    if (!metadata.index.emplace(key, metadata.entries.size()).second) {
      return make_error(ErrorKind::kModel, "metadata key '%s' appears twice", printable(key).c_str());
    }
    EI_RETURN_IF_ERROR(values.read(printable(key), metadata.entries.emplace_back(key, Value{}).second));
    if (reader.position() - begin > kMaxBytes) {
      return make_error(ErrorKind::kModel, "the metadata up to key '%s' has %zu bytes; at most %llu make sense",
                        printable(key).c_str(), reader.position() - begin, static_cast<unsigned long long>(kMaxBytes));
    }
  }
  return metadata;
}

}  // namespace ei::gguf
