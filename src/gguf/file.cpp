#include "gguf/file.h"

#include <cstring>
#include <deque>
#include <limits>

#include "gguf/hyperparameters.h"
#include "gguf/mapping.h"
#include "gguf/metadata.h"
#include "gguf/reader.h"
#include "gguf/tensor_table.h"

namespace ei::gguf {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 16;

// The magic and the version; refuses what only looks like a model.
Result<uint32_t> read_version(Reader& reader) {
  EI_ASSIGN_OR_RETURN(const auto magic, reader.block(4, "the magic number"));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return make_error(ErrorKind::kModel, "not a GGUF file: it begins with '%s'",
                      printable({reinterpret_cast<const char*>(magic.data()), magic.size()}).c_str());
  }
  EI_ASSIGN_OR_RETURN(const uint32_t version, reader.number<uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0x00FFFFFFu) == 0) {
    return make_error(ErrorKind::kModel, "a big-endian GGUF file; convert it to little-endian");
  }
  return make_error(ErrorKind::kModel, "GGUF version %u is not supported; versions 2 and 3 are", version);
}

}  // namespace

struct File::State {
  std::string path;
  Mapping mapping;
  std::span<const std::byte> bytes;
  uint32_t version = 0;
  Metadata metadata;
  std::deque<std::string> texts;  // of overrides
  TensorTable table;
};

namespace {

Result<uint64_t> alignment_of(const File& file) {
  const Value* value = file.find("general.alignment");
  if (value == nullptr) return kDefaultAlignment;
  if (value->type != ValueType::kU32) {
    return make_error(ErrorKind::kModel, "general.alignment is of type %s; u32 is needed",
                      value_type_name(value->type));
  }
  const uint64_t alignment = std::get<uint64_t>(value->data);
  if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    return make_error(ErrorKind::kModel, "general.alignment is %llu; a power of two up to %llu is needed",
                      static_cast<unsigned long long>(alignment), static_cast<unsigned long long>(kMaxAlignment));
  }
  return alignment;
}

Error with_path(const std::string& path, const Error& error) {
  return {error.kind, printable(path, 512) + ": " + error.message};
}

}  // namespace

// An entry in the metadata, as if the file had it.
Status File::put(const Override& override) {
  Metadata& metadata = state_->metadata;
  constexpr std::string_view kArch = "{arch}";
  std::string key = override.key;
  if (key.starts_with(kArch)) key.replace(0, kArch.size(), string("general.architecture").value_or(""));
  Value value;
  if (const auto* whole = std::get_if<int64_t>(&override.value)) value = {ValueType::kI64, *whole};
  if (const auto* real = std::get_if<double>(&override.value)) value = {ValueType::kF64, *real};
  if (const auto* flag = std::get_if<bool>(&override.value)) value = {ValueType::kBool, *flag};
  if (const auto* text = std::get_if<std::string>(&override.value))
    value = {ValueType::kString, std::string_view(state_->texts.emplace_back(*text))};
  const auto found = metadata.index.find(key);
  if (found == metadata.index.end()) {
    metadata.index.emplace(state_->texts.emplace_back(key), metadata.entries.size());
    metadata.entries.emplace_back(state_->texts.back(), std::move(value));
    return {};
  }
  Value& old = metadata.entries[found->second].second;
  if (old.type == ValueType::kArray)
    return make_error(ErrorKind::kUsage, "%s is a list; only single values can be overridden", key.c_str());
  old = std::move(value);
  return {};
}

Status File::read(const Overrides& overrides) {
  Reader reader(state_->bytes);
  EI_ASSIGN_OR_RETURN(state_->version, read_version(reader));
  EI_ASSIGN_OR_RETURN(const uint64_t tensors, reader.number<uint64_t>("the tensor count"));
  EI_ASSIGN_OR_RETURN(const uint64_t keys, reader.number<uint64_t>("the metadata count"));
  EI_ASSIGN_OR_RETURN(state_->metadata, read_metadata(reader, keys));
  for (const Override& override : overrides) EI_RETURN_IF_ERROR(put(override));
  EI_ASSIGN_OR_RETURN(const uint64_t alignment, alignment_of(*this));
  EI_ASSIGN_OR_RETURN(state_->table, read_tensor_table(reader, tensors, alignment, state_->bytes));
  EI_RETURN_IF_ERROR(check_hyperparameters(*this));
  return check_vocabulary(*this);
}

Result<File> File::open(const std::string& path, const Overrides& overrides, bool copy) {
  Result<Mapping> mapping = Mapping::open(path, copy);
  if (!mapping.ok()) return with_path(path, mapping.error());
  auto state = std::make_unique<State>();
  state->path = path;
  state->mapping = std::move(mapping).value();
  state->bytes = state->mapping.bytes();
  File file(std::move(state));
  if (Status status = file.read(overrides); !status.ok()) return file.named(status.error());
  return file;
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name, const Overrides& overrides) {
  auto state = std::make_unique<State>();
  state->path = std::move(name);
  state->bytes = bytes;
  File file(std::move(state));
  if (Status status = file.read(overrides); !status.ok()) return file.named(status.error());
  return file;
}

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

const std::string& File::path() const { return state_->path; }
Error File::named(const Error& error) const { return with_path(state_->path, error); }
int64_t File::bytes() const { return static_cast<int64_t>(state_->bytes.size()); }
uint32_t File::version() const { return state_->version; }

const Value* File::find(std::string_view key) const {
  const auto found = state_->metadata.index.find(key);
  return found == state_->metadata.index.end() ? nullptr : &state_->metadata.entries[found->second].second;
}

std::span<const std::pair<std::string_view, Value>> File::metadata() const { return state_->metadata.entries; }

const Tensor* File::tensor(std::string_view name) const {
  const auto found = state_->table.index.find(name);
  return found == state_->table.index.end() ? nullptr : &state_->table.tensors[found->second];
}

std::span<const Tensor> File::tensors() const { return state_->table.tensors; }

std::span<const std::byte> File::mapping() const {
  return state_->mapping.copied() ? std::span<const std::byte>() : state_->mapping.bytes();
}

void File::release_pages(const Tensor& tensor) const {
  state_->mapping.release({tensor.data, static_cast<size_t>(tensor.bytes)});
}

}  // namespace ei::gguf
