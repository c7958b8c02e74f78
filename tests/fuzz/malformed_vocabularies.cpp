#include <cmath>
#include <functional>
#include <limits>

#include "malformed_groups.h"

namespace ei::fuzz {
namespace {

using gguf::encode;
using gguf::encode_array;
using gguf::encode_text;
using gguf::Texts;
using gguf::ValueType;
using gguf::VocabularyKind;

const auto kByteLevelTokens = static_cast<uint32_t>(gguf::small_vocabulary(VocabularyKind::kByteLevel).size());
const auto kSentencePieceTokens = static_cast<uint32_t>(gguf::small_vocabulary(VocabularyKind::kSentencePiece).size());

class Builder {
 public:
  // A valid file of this kind, changed by `change`.
  void add(const std::string& name, VocabularyKind kind, const std::function<void(gguf::Writer&)>& change) {
    gguf::Writer writer = gguf::small_metadata(kind);
    change(writer);
    files_.push_back({name, writer.head()});
  }
  void add(const std::string& name, const std::function<void(gguf::Writer&)>& change) {
    add(name, VocabularyKind::kByteLevel, change);
  }
  void replace(const std::string& name, const std::string& key, ValueType type, const std::string& payload) {
    add(name, [&](gguf::Writer& writer) {
      writer.erase(key);
      writer.raw(key, id(type), payload);
    });
  }
  void remove(const std::string& key) {
    add("without-" + key, [&](gguf::Writer& writer) { writer.erase(key); });
  }
  // A byte-level vocabulary of these tokens and nothing that must match their number.
  void tokens(const std::string& name, const Texts& texts) {
    add(name, [&](gguf::Writer& writer) {
      writer.erase("tokenizer.ggml.tokens");
      writer.erase("tokenizer.ggml.token_type");
      writer.texts("tokenizer.ggml.tokens", texts);
    });
  }

  Files take() { return std::move(files_); }

 private:
  Files files_;
};

Texts ascii_tokens() {
  Texts texts = {"<s>", "</s>", "\xC4\xA0", "\xC4\x8A"};
  for (char c = '!'; c <= '~'; ++c) texts.emplace_back(1, c);
  return texts;
}

Texts with(std::initializer_list<std::string> more) {
  Texts texts = ascii_tokens();
  texts.insert(texts.end(), more);
  return texts;
}

Texts without(const std::string& text) {
  Texts texts = ascii_tokens();
  std::erase(texts, text);
  return texts;
}

std::string foreign(size_t bytes, size_t index) {
  std::string text = std::to_string(index);
  while (text.size() < bytes) text += "\xD0\x96";  // U+0416 is no letter of the byte alphabet
  return text;
}

void add_tokens(Builder& builder) {
  builder.remove("tokenizer.ggml.tokens");
  builder.tokens("no-tokens", {});
  builder.tokens("one-token", {"a"});
  builder.tokens("token-twice", with({"a"}));
  builder.tokens("token-twice-at-the-end", with({"zz", "zz"}));
  builder.tokens("token-twice-up-to-a-nul", with({std::string("a\0b", 3)}));
  builder.tokens("stand-in-of-an-empty-token-taken", with({"", "[EMPTY_98]"}));
  builder.tokens("stand-in-of-a-token-that-begins-with-nul-taken", with({std::string("\0b", 2), "[EMPTY_98]"}));
  builder.tokens("no-token-for-a", without("a"));
  builder.tokens("no-token-for-the-blank", without("\xC4\xA0"));
  builder.tokens("no-token-for-the-line-end", without("\xC4\x8A"));
  builder.tokens("token-not-utf8", with({"\xFF\xFE"}));
  builder.tokens("token-cut-utf8", with({"\xE2\x96"}));
  builder.tokens("token-above-unicode", with({"\xF4\x90\x80\x80"}));
  builder.tokens("token-of-5-kilobytes", with({std::string(5000, 'x')}));
  builder.tokens("token-of-3-megabytes", with({std::string(3 << 20, 'x')}));
  Texts bombs = ascii_tokens();
  for (size_t i = 0; i < 100; ++i) bombs.push_back(foreign(4000, i));
  builder.tokens("tokens-that-decode-to-gigabytes", bombs);
  builder.replace("token-of-2-gigabytes-claimed", "tokenizer.ggml.tokens", ValueType::kArray,
                  encode_array(ValueType::kString, 1, encode(uint64_t{1} << 31) + "x"));
  builder.replace("tokens-are-numbers", "tokenizer.ggml.tokens", ValueType::kArray,
                  encode_array(ValueType::kI32, 2, "12345678"));
  builder.replace("tokens-are-one-string", "tokenizer.ggml.tokens", ValueType::kString, encode_text("a"));
}

void add_sentence_piece(Builder& builder) {
  const auto spm = VocabularyKind::kSentencePiece;
  const auto tokens = [&](const std::string& name, const Texts& texts) {
    builder.add(name, spm, [&](gguf::Writer& writer) {
      for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
        writer.erase(key);
      }
      writer.texts("tokenizer.ggml.tokens", texts);
    });
  };
  tokens("sentence-piece-without-byte-tokens", {"<unk>", "<s>", "</s>", "a"});
  Texts bytes = {"<unk>", "<s>", "</s>"};
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (byte != 0xF0) bytes.push_back(str_format("<0x%02X>", byte));
  }
  tokens("sentence-piece-without-one-byte-token", bytes);
  builder.add("byte-token-with-other-text", spm, [&](gguf::Writer& writer) {
    writer.erase("tokenizer.ggml.token_type");
    writer.i32s("tokenizer.ggml.token_type", std::vector<int32_t>(kSentencePieceTokens, 6));
  });
  const auto scores = [&](const std::string& name, const std::vector<float>& values) {
    builder.add(name, spm, [&](gguf::Writer& writer) {
      writer.erase("tokenizer.ggml.scores");
      writer.f32s("tokenizer.ggml.scores", values);
    });
  };
  scores("no-scores", {});
  scores("one-score-short", std::vector<float>(kSentencePieceTokens - 1, 0.0f));
  scores("one-score-too-many", std::vector<float>(kSentencePieceTokens + 1, 0.0f));
  scores("scores-not-numbers", std::vector<float>(kSentencePieceTokens, std::nanf("")));
  const std::string eight_each(size_t{8} * kByteLevelTokens, '\0');
  builder.replace("scores-f64", "tokenizer.ggml.scores", ValueType::kArray,
                  encode_array(ValueType::kF64, kByteLevelTokens, eight_each));
  builder.replace("scores-strings", "tokenizer.ggml.scores", ValueType::kArray,
                  encode_array(ValueType::kString, kByteLevelTokens, eight_each));
  builder.replace("scores-one-number", "tokenizer.ggml.scores", ValueType::kF32, encode(1.0f));
}

void add_types_and_merges(Builder& builder) {
  const std::string types = "tokenizer.ggml.token_type";
  const std::string four_each(size_t{4} * kByteLevelTokens, '\0');
  builder.replace("token-types-f32", types, ValueType::kArray,
                  encode_array(ValueType::kF32, kByteLevelTokens, four_each));
  builder.replace("token-types-u32", types, ValueType::kArray,
                  encode_array(ValueType::kU32, kByteLevelTokens, four_each));
  builder.replace("token-types-u8", types, ValueType::kArray,
                  encode_array(ValueType::kU8, kByteLevelTokens, four_each.substr(0, kByteLevelTokens)));
  builder.replace("token-types-short", types, ValueType::kArray, encode_array(ValueType::kI32, 1, encode(1)));
  builder.replace("token-types-one-number", types, ValueType::kI32, encode(1));
  for (const int32_t kind : {7, -1, std::numeric_limits<int32_t>::min()}) {
    std::string kinds = encode(kind);
    for (uint32_t i = 1; i < kByteLevelTokens; ++i) kinds += encode(1);
    builder.replace("token-type-" + std::to_string(kind), types, ValueType::kArray,
                    encode_array(ValueType::kI32, kByteLevelTokens, kinds));
  }
  const std::string merges = "tokenizer.ggml.merges";
  builder.remove(merges);
  builder.replace("merges-numbers", merges, ValueType::kArray, encode_array(ValueType::kI32, 1, encode(1)));
  builder.replace("merges-one-string", merges, ValueType::kString, encode_text("a b"));
  for (const char* merge : {"", " ", "a", "ab", "a ", " a"}) {
    builder.replace(str_format("merge-'%s'", merge), merges, ValueType::kArray,
                    encode_array(ValueType::kString, 1, encode_text(merge)));
  }
  builder.replace("merge-blank-behind-a-nul", merges, ValueType::kArray,
                  encode_array(ValueType::kString, 1, encode_text(std::string("a\0 b", 4))));
}

void add_ids_and_names(Builder& builder) {
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "cls", "fim_pre",
                           "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    builder.replace(std::string(name) + "-beyond-the-vocabulary", key, ValueType::kU32, encode(kByteLevelTokens));
    const bool may_be_none = std::string_view(name) == "seperator" || std::string_view(name) == "padding";
    if (!may_be_none) builder.replace(std::string(name) + "-minus-1", key, ValueType::kU32, encode(0xFFFFFFFFu));
    builder.replace(std::string(name) + "-signed", key, ValueType::kI32, encode(-1));
  }
  builder.replace("bos-text", "tokenizer.ggml.bos_token_id", ValueType::kString, encode_text("<s>"));
  builder.replace("suppressed-u32", "tokenizer.ggml.suppress_tokens", ValueType::kArray,
                  encode_array(ValueType::kU32, 1, encode(1)));
  builder.remove("tokenizer.ggml.model");
  for (const char* model : {"", "none", "no_vocab", "bert", "t5", "rwkv", "test", "plamo2", "nonsense"}) {
    builder.replace(std::string("tokenizer-model-") + model, "tokenizer.ggml.model", ValueType::kString,
                    encode_text(model));
  }
  builder.replace("tokenizer-model-number", "tokenizer.ggml.model", ValueType::kU32, encode(1u));
  builder.replace("pre-unknown", "tokenizer.ggml.pre", ValueType::kString, encode_text("nonsense"));
  builder.replace("pre-number", "tokenizer.ggml.pre", ValueType::kU32, encode(1u));
  builder.replace("add-bos-number", "tokenizer.ggml.add_bos_token", ValueType::kU32, encode(1u));
  builder.replace("name-number", "general.name", ValueType::kU32, encode(1u));
  builder.replace("name-phi-3", "general.name", ValueType::kString, encode_text("My Phi-3"));
  builder.add("bos-wanted-and-unknown", [](gguf::Writer& writer) {
    for (const char* key : {"tokenizer.ggml.pre", "tokenizer.ggml.bos_token_id"}) writer.erase(key);
    writer.text("tokenizer.ggml.pre", "glm4");
    writer.boolean("tokenizer.ggml.add_bos_token", true);
  });
  builder.replace("template-of-2-megabytes", "tokenizer.chat_template", ValueType::kString,
                  encode_text(std::string(2 << 20, '{')));
  builder.replace("template-number", "tokenizer.chat_template", ValueType::kU32, encode(1u));
}

}  // namespace

Files malformed_vocabularies() {
  Builder builder;
  add_tokens(builder);
  add_sentence_piece(builder);
  add_types_and_merges(builder);
  add_ids_and_names(builder);
  return builder.take();
}

}  // namespace ei::fuzz
