// Tiny valid model files in memory: seeds for tests and for the fuzzer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/token_texts.h"
#include "gguf/writer.h"

namespace ei::gguf {

using Texts = std::vector<std::string>;

namespace small {

// Longer than the bytes of the alphabet, so that damage to them is not always a duplicate or a missing byte.
inline constexpr auto kWords = std::to_array<const char*>(
    {"alpha", "bravo-", "charlie", "delta", "echo_echo", "foxtrot", "golf", "hotel", "<|india|>", "juliett", "<kilo>",
     "lima42", "mike", "\xC4\xA0no", "oscar", "\xC3\xA9t\xC3\xA9"});

inline Texts byte_level_tokens() {
  Texts tokens = {"<s>", "</s>", "\xC4\xA0", "\xC4\x8A"};  // the blank and the line end
  for (char c = '!'; c <= '~'; ++c) tokens.emplace_back(1, c);
  tokens.insert(tokens.end(), {"th", "the", ""});
  tokens.insert(tokens.end(), kWords.begin(), kWords.end());
  return tokens;
}

inline constexpr size_t kNamedPieces = 3;
inline constexpr size_t kBytePieces = 256;

inline Texts sentence_pieces() {
  Texts tokens = {"<unk>", "<s>", "</s>"};
  for (unsigned byte = 0; byte < kBytePieces; ++byte) tokens.push_back(str_format("<0x%02X>", byte));
  tokens.insert(tokens.end(), {"\xE2\x96\x81", "t", "h", "e", "th", "the"});
  tokens.insert(tokens.end(), kWords.begin(), kWords.end());
  return tokens;
}

inline void add_byte_level(Writer& writer) {
  const Texts tokens = byte_level_tokens();
  std::vector<int32_t> kinds(tokens.size(), static_cast<int32_t>(TokenKind::kNormal));
  kinds[0] = kinds[1] = static_cast<int32_t>(TokenKind::kControl);
  writer.text("tokenizer.ggml.model", "gpt2");
  writer.text("tokenizer.ggml.pre", "default");
  writer.texts("tokenizer.ggml.tokens", tokens);
  writer.i32s("tokenizer.ggml.token_type", kinds);
  writer.texts("tokenizer.ggml.merges", std::vector<std::string>{"t h", "th e"});
  writer.u32("tokenizer.ggml.bos_token_id", 0);
  writer.u32("tokenizer.ggml.eos_token_id", 1);
}

inline void add_sentence_piece(Writer& writer) {
  const Texts tokens = sentence_pieces();
  std::vector<int32_t> kinds = {static_cast<int32_t>(TokenKind::kUnknown), static_cast<int32_t>(TokenKind::kControl),
                                static_cast<int32_t>(TokenKind::kControl)};
  kinds.resize(kNamedPieces + kBytePieces, static_cast<int32_t>(TokenKind::kByte));
  kinds.resize(tokens.size(), static_cast<int32_t>(TokenKind::kNormal));
  std::vector<float> scores(tokens.size(), 0.0f);
  for (size_t i = kNamedPieces + kBytePieces; i < scores.size(); ++i) scores[i] = -static_cast<float>(i);
  writer.text("tokenizer.ggml.model", "llama");
  writer.texts("tokenizer.ggml.tokens", tokens);
  writer.f32s("tokenizer.ggml.scores", scores);
  writer.i32s("tokenizer.ggml.token_type", kinds);
  writer.u32("tokenizer.ggml.bos_token_id", 1);
  writer.u32("tokenizer.ggml.eos_token_id", 2);
  writer.u32("tokenizer.ggml.unknown_token_id", 0);
  writer.boolean("tokenizer.ggml.add_bos_token", true);
}

}  // namespace small

// The smallest vocabulary of its kind and a few words.
inline Texts small_vocabulary(VocabularyKind vocabulary) {
  return vocabulary == VocabularyKind::kByteLevel ? small::byte_level_tokens() : small::sentence_pieces();
}

// All metadata of a one-layer model with that vocabulary; no tensors yet.
inline Writer small_metadata(VocabularyKind vocabulary) {
  Writer writer;
  writer.text("general.architecture", "llama");
  writer.text("general.name", "small");
  writer.u32("llama.block_count", 1);
  writer.u32("llama.context_length", 64);
  writer.u32("llama.embedding_length", 32);
  writer.u32("llama.feed_forward_length", 64);
  writer.u32("llama.attention.head_count", 4);
  writer.u32("llama.attention.head_count_kv", 2);
  writer.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (vocabulary == VocabularyKind::kByteLevel) {
    small::add_byte_level(writer);
  } else {
    small::add_sentence_piece(writer);
  }
  writer.text("tokenizer.chat_template", "{{ messages }}");
  return writer;
}

// The whole file: that metadata and two small tensors, the last of which ends with the file.
inline std::string small_model(VocabularyKind vocabulary = VocabularyKind::kByteLevel, uint32_t version = 3) {
  Writer writer = small_metadata(vocabulary);
  writer.tensor("output_norm.weight", *find_tensor_type("F32"), std::vector<int64_t>{10});
  writer.tensor("blk.0.attn_q.weight", *find_tensor_type("Q8_0"), std::vector<int64_t>{32, 2});
  std::string file = writer.head(version);
  constexpr size_t kFirstBytes = 40;    // 10 x 4
  constexpr size_t kFirstPadding = 24;  // to 64
  constexpr size_t kSecondBytes = 68;   // 2 blocks of 34
  for (size_t i = 0; i < kFirstBytes; ++i) file += static_cast<char>(i);
  file.append(kFirstPadding, '\0');
  for (size_t i = 0; i < kSecondBytes; ++i) file += static_cast<char>(i);
  return file;
}

}  // namespace ei::gguf
