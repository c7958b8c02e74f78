#include "models.h"

#include <unistd.h>

#include <cstring>

#include "base/check.h"
#include "process.h"
#include "support/small_model.h"

namespace ei::e2e {

namespace {
// Where the value of `key` begins, behind its type.
size_t value_at(const std::string& bytes, const std::string& key) {
  const size_t at = bytes.find(gguf::encode_text(key));
  EI_CHECK(at != std::string::npos);
  return at + sizeof(uint64_t) + key.size() + sizeof(uint32_t);
}

void replace(gguf::Writer& writer, const char* key, uint32_t value) {
  writer.erase(key);
  writer.u32(key, value);
}
}  // namespace

std::string model_with_number(const std::string& name, const std::string& key, uint32_t bits) {
  std::string bytes = contents(model());
  std::memcpy(bytes.data() + value_at(bytes, key), &bits, sizeof bits);
  return write_file(name, bytes);
}

std::string model_with_template(const std::string& name, std::string source) {
  std::string bytes = contents(model());
  const size_t at = value_at(bytes, "tokenizer.chat_template");
  uint64_t room = 0;
  std::memcpy(&room, bytes.data() + at, sizeof room);
  EI_CHECK(source.size() <= room);
  source.resize(room, ' ');
  std::memcpy(bytes.data() + at + sizeof room, source.data(), source.size());
  return write_file(name, bytes);
}

std::string huge_model() {
  constexpr uint32_t kLayers = 4;
  constexpr int64_t kWidth = 1 << 16;
  constexpr int64_t kFfn = 1 << 20;
  constexpr uint32_t kHeads = 256;
  gguf::Writer writer = gguf::small_metadata(gguf::VocabularyKind::kByteLevel);
  replace(writer, "llama.block_count", kLayers);
  replace(writer, "llama.embedding_length", kWidth);
  replace(writer, "llama.feed_forward_length", kFfn);
  replace(writer, "llama.attention.head_count", kHeads);
  replace(writer, "llama.attention.head_count_kv", kHeads);
  const gguf::TensorType& type = *gguf::find_tensor_type(0);  // F32
  const auto add = [&](const std::string& name, std::initializer_list<int64_t> shape) {
    writer.tensor(name, type, std::vector<int64_t>(shape));
  };
  const auto tokens = static_cast<int64_t>(gguf::small_vocabulary(gguf::VocabularyKind::kByteLevel).size());
  add("token_embd.weight", {kWidth, tokens});
  add("output_norm.weight", {kWidth});
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const char* name : {"attn_norm", "ffn_norm"}) add(prefix + name + ".weight", {kWidth});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      add(prefix + name + ".weight", {kWidth, kWidth});
    for (const char* name : {"ffn_gate", "ffn_up"}) add(prefix + name + ".weight", {kWidth, kFfn});
    add(prefix + "ffn_down.weight", {kFfn, kWidth});
  }
  const std::string head = writer.head();
  const std::string path = write_file("huge.gguf", head);
  const auto bytes = static_cast<off_t>(head.size()) + writer.data_bytes();
  return ::truncate(path.c_str(), bytes) == 0 ? path : "";
}

}  // namespace ei::e2e
