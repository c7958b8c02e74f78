#include "gguf/hyperparameters.h"

#include <algorithm>
#include <array>
#include <string>

#include "gguf/file.h"
#include "gguf/metadata.h"
#include "gguf/reader.h"

namespace ei::gguf {
namespace {

constexpr std::array<std::string_view, 5> kArchitectures = {"llama", "qwen2", "qwen3", "pangu-embedded", "gemma3"};

struct Range {
  const char* key;  // without the architecture
  int64_t low;
  int64_t high;
  bool required;
  bool per_layer;  // may be an array with one number for each layer
};
constexpr int64_t kMaxLayers = 512;  // libllama's own limit
constexpr std::array kRanges = {
    Range{"block_count", 1, kMaxLayers, true, false},
    Range{"context_length", 1, int64_t{1} << 30, true, false},
    Range{"embedding_length", 1, 1 << 20, true, false},
    Range{"feed_forward_length", 1, 1 << 24, true, true},
    Range{"attention.head_count", 1, 1 << 14, true, true},
    Range{"attention.head_count_kv", 1, 1 << 14, false, true},
    Range{"attention.key_length", 1, 1 << 14, false, false},
    Range{"attention.value_length", 1, 1 << 14, false, false},
    Range{"attention.sliding_window", 0, int64_t{1} << 30, false, false},
    Range{"rope.dimension_count", 1, 1 << 14, false, false},
    Range{"vocab_size", 1, 1 << 24, false, false},
    Range{"expert_count", 0, 1 << 16, false, false},
};

// What has another form than expected would be read as if the file had not said it.
Status check_forms(const File& file, const std::string& prefix) {
  const auto expect = [&](const char* key, bool there, const char* form) -> Status {
    const std::string name = prefix + key;
    if (file.find(name) == nullptr || there) return {};
    return make_error(ErrorKind::kModel, "%s is not %s", name.c_str(), form);
  };
  const auto number = [&](const char* key) { return expect(key, file.number(prefix + key).has_value(), "a number"); };
  EI_RETURN_IF_ERROR(expect("rope.scaling.type", file.string(prefix + "rope.scaling.type").has_value(), "a string"));
  EI_RETURN_IF_ERROR(number("rope.scaling.factor"));
  EI_RETURN_IF_ERROR(number("rope.scale_linear"));
  const char* pattern = "attention.sliding_window_pattern";
  const Array* listed = file.array(prefix + pattern);
  const bool whole = listed == nullptr ? file.integer(prefix + pattern).has_value()
                                       : listed->count == 0 || File::integer_at(*listed, 0).has_value();
  return expect(pattern, whole, "a whole number or a list of them");
}

Status check_value(const std::string& key, const Range& range, std::optional<int64_t> value) {
  if (!value.has_value()) return make_error(ErrorKind::kModel, "%s must be a whole number", key.c_str());
  if (*value < range.low || *value > range.high) {
    return make_error(ErrorKind::kModel, "%s is %lld; %lld to %lld are allowed", key.c_str(),
                      static_cast<long long>(*value), static_cast<long long>(range.low),
                      static_cast<long long>(range.high));
  }
  return {};
}

Status check_range(const File& file, const std::string& key, const Range& range, int64_t layers) {
  if (file.find(key) == nullptr) {
    if (range.required) return make_error(ErrorKind::kModel, "%s is missing from the metadata", key.c_str());
    return {};
  }
  const Array* array = file.array(key);
  if (array == nullptr) return check_value(key, range, file.integer(key));
  if (!range.per_layer || array->count != static_cast<uint64_t>(layers)) {
    return make_error(ErrorKind::kModel, "%s is an array of %llu values; %s is needed", key.c_str(),
                      static_cast<unsigned long long>(array->count),
                      range.per_layer ? "one number, or one for each layer," : "one number");
  }
  for (uint64_t i = 0; i < array->count; ++i) {
    EI_RETURN_IF_ERROR(check_value(key, range, File::integer_at(*array, i)));
  }
  return {};
}

// The value of layer `layer`, or of all layers.
int64_t at_layer(const File& file, const std::string& key, int64_t layer) {
  const Array* array = file.array(key);
  return array == nullptr ? file.integer(key).value() : File::integer_at(*array, static_cast<uint64_t>(layer)).value();
}

Status check_heads(const File& file, const std::string& prefix, int64_t layers) {
  const std::string heads_key = prefix + "attention.head_count";
  const std::string kv_key = prefix + "attention.head_count_kv";
  if (file.find(kv_key) == nullptr) return {};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t heads = at_layer(file, heads_key, layer);
    const int64_t kv_heads = at_layer(file, kv_key, layer);
    if (heads % kv_heads != 0) {
      return make_error(ErrorKind::kModel, "%lld attention heads cannot share %lld key/value heads evenly",
                        static_cast<long long>(heads), static_cast<long long>(kv_heads));
    }
  }
  return {};
}

// A part of a split model would make libllama open files that nobody has checked.
Status check_whole(const File& file) {
  if (const Value* parts = file.find("split.count"); parts != nullptr && file.integer("split.count").value_or(2) > 1) {
    return make_error(ErrorKind::kModel, "one part of a split model; merge the parts with llama-gguf-split --merge");
  }
  return {};
}

}  // namespace

std::span<const std::string_view> supported_architectures() { return kArchitectures; }

Status check_hyperparameters(const File& file) {
  const auto architecture = file.string("general.architecture");
  if (!architecture.has_value())
    return make_error(ErrorKind::kModel, "general.architecture is missing or not a string");
  if (std::find(kArchitectures.begin(), kArchitectures.end(), *architecture) == kArchitectures.end()) {
    std::string list;
    for (const std::string_view name : kArchitectures) list += (list.empty() ? "" : ", ") + std::string(name);
    return make_error(ErrorKind::kModel, "architecture '%s' is not supported; supported: %s",
                      printable(*architecture).c_str(), list.c_str());
  }
  EI_RETURN_IF_ERROR(check_whole(file));
  const std::string prefix = std::string(*architecture) + ".";
  if (const Value* causal = file.find(prefix + "attention.causal");
      causal != nullptr && !file.boolean(prefix + "attention.causal").value_or(false)) {
    return make_error(ErrorKind::kModel, "%sattention.causal is not true: models that look ahead are not supported",
                      prefix.c_str());
  }
  int64_t layers = 0;
  for (const Range& range : kRanges) {
    EI_RETURN_IF_ERROR(check_range(file, prefix + range.key, range, layers));
    if (layers == 0) layers = file.integer(prefix + range.key).value();  // block_count is the first row
  }
  EI_RETURN_IF_ERROR(check_forms(file, prefix));
  return check_heads(file, prefix, layers);
}

}  // namespace ei::gguf
