#include "malformed_groups.h"

namespace ei::fuzz {
namespace {

using gguf::encode;
using gguf::ValueType;

NamedFile with_changed(const std::string& name, const std::string& key, ValueType type, const std::string& payload) {
  gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
  writer.erase(key);
  writer.raw(key, id(type), payload);
  return {name, writer.head()};
}

}  // namespace

Files malformed_hyperparameters() {
  Files files;
  for (const char* key : {"general.architecture", "llama.block_count", "llama.context_length", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
    writer.erase(key);
    files.push_back({std::string("without-") + key, writer.head()});
    files.push_back(with_changed(std::string("text-for-") + key, key, ValueType::kString, gguf::encode_text("many")));
  }
  const auto number = [&](const std::string& key, uint32_t value) {
    files.push_back(with_changed(key + "-" + std::to_string(value), "llama." + key, ValueType::kU32, encode(value)));
  };
  for (const uint32_t value : {0u, 513u, 1000u, 0xFFFFFFFFu}) number("block_count", value);
  for (const char* key :
       {"context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "attention.value_length", "vocab_size", "rope.dimension_count"}) {
    number(key, 0);
    number(key, 0xFFFFFFFFu);
  }
  number("attention.head_count", 7);     // 2 key/value heads
  number("attention.head_count_kv", 3);  // 4 heads
  files.push_back(with_changed("negative-layers", "llama.block_count", ValueType::kI32, encode(-1)));
  files.push_back(with_changed("float-layers", "llama.block_count", ValueType::kF32, encode(1.0f)));
  files.push_back(with_changed("huge-layers", "llama.block_count", ValueType::kU64, encode(~uint64_t{0})));
  const auto heads = [&](const std::string& name, const std::vector<int32_t>& values) {
    gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
    writer.erase("llama.attention.head_count");
    writer.i32s("llama.attention.head_count", values);
    files.push_back({name, writer.head()});
  };
  heads("heads-of-no-layer", {});
  heads("heads-of-two-layers", {4, 4});
  heads("no-heads-in-a-layer", {0});
  heads("heads-of-a-layer-do-not-divide", {5});
  files.push_back(with_changed("architecture-number", "general.architecture", ValueType::kU32, encode(1u)));
  for (const char* name : {"", "clip", "bert", "llama\n", "LLAMA"}) {
    files.push_back(with_changed(std::string("architecture-") + name, "general.architecture", ValueType::kString,
                                 gguf::encode_text(name)));
  }
  files.push_back(with_changed("split-model", "split.count", ValueType::kU16, encode<uint16_t>(3)));
  files.push_back(with_changed("split-of-wrong-type", "split.count", ValueType::kU32, encode(1u)));
  const std::string word = gguf::encode_text("many");
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear", "expert_count", "attention.sliding_window",
                          "attention.sliding_window_pattern"}) {
    files.push_back(
        with_changed(std::string("text-for-") + key, std::string("llama.") + key, ValueType::kString, word));
  }
  files.push_back(with_changed("number-for-rope-scaling", "llama.rope.scaling.type", ValueType::kU32, encode(1u)));
  files.push_back(with_changed("negative-experts", "llama.expert_count", ValueType::kI32, encode(-1)));
  files.push_back(
      with_changed("float-pattern", "llama.attention.sliding_window_pattern", ValueType::kF32, encode(6.0f)));
  files.push_back(with_changed("looks-ahead", "llama.attention.causal", ValueType::kBool, encode<uint8_t>(0)));
  files.push_back(with_changed("causal-of-wrong-type", "llama.attention.causal", ValueType::kU32, encode(1u)));
  return files;
}

}  // namespace ei::fuzz
