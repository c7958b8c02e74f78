#include "random_vocabulary_file.h"

#include <array>

#include "malformed_groups.h"

namespace ei::fuzz {
namespace {

using gguf::ValueType;
using gguf::VocabularyKind;

template <typename Options>
auto pick(Random& random, const Options& options) {
  return options[static_cast<size_t>(random.below(std::ssize(options)))];
}

bool chance(Random& random, int64_t one_in) { return random.below(one_in) == 0; }

constexpr auto kOddTexts = std::to_array<const char*>(
    {"<|im_end|>", "<|eot_id|>", "</s>",   "<unk>", "<|endoftext|>", "<mask>",           "[EMPTY_7]",        "<0x0A>",
     "<0xZZ>",     "\n",         " ",      "\t",    "\xE2\x96\x81",  "\xD0\x96\xD0\x96", "\xF0\x9F\x98\x80", "<|end|>",
     "<|return|>", "<|call|>",   "unused", "%s%n"});
constexpr auto kPres = std::to_array<const char*>(
    {"default", "llama-bpe", "gpt-2",     "qwen2",     "deepseek-llm", "glm4",      "tekken",
     "smollm",  "bloom",     "kimi-k2",   "falcon",    "gpt-4o",       "chameleon", "jina-v2-de",
     "grok-2",  "superbpe",  "starcoder", "command-r", "viking",       "exaone",    ""});
constexpr auto kNames = std::to_array<const char*>({"small", "Phi-3 mini", "modern-bert", "", "%n%n"});

std::string random_text(Random& random) {
  if (chance(random, 3)) return pick(random, kOddTexts);
  std::string text;
  const int64_t length = chance(random, 20) ? random.between(100, 2000) : random.between(0, 6);
  const bool ascii = chance(random, 2);
  for (int64_t i = 0; i < length; ++i) {
    text += ascii ? static_cast<char>(random.between(' ', '~')) : static_cast<char>(random.next());
  }
  return text;
}

void replace_tokens(Random& random, VocabularyKind kind, gguf::Writer& writer) {
  gguf::Texts tokens = gguf::small_vocabulary(kind);
  const size_t fixed = tokens.size();
  for (int64_t i = random.below(40); i > 0; --i) tokens.push_back(random_text(random));
  if (chance(random, 10)) tokens.resize(static_cast<size_t>(random.below(std::ssize(tokens))));
  writer.erase("tokenizer.ggml.tokens");
  writer.texts("tokenizer.ggml.tokens", tokens);
  for (const char* key : {"tokenizer.ggml.token_type", "tokenizer.ggml.scores"}) writer.erase(key);
  if (!chance(random, 4)) {
    std::vector<int32_t> kinds(tokens.size(), 1);
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (i >= fixed || chance(random, 50)) kinds[i] = static_cast<int32_t>(random.between(0, 5));
    }
    writer.i32s("tokenizer.ggml.token_type", kinds);
  }
  if (chance(random, 2)) {
    std::vector<float> scores(tokens.size());
    for (float& score : scores) score = chance(random, 20) ? 1e38f * random.normal() : random.normal();
    writer.f32s("tokenizer.ggml.scores", scores);
  }
}

void replace_merges(Random& random, gguf::Writer& writer) {
  gguf::Texts merges;
  for (int64_t i = random.below(20); i > 0; --i) merges.push_back(random_text(random) + " " + random_text(random));
  writer.erase("tokenizer.ggml.merges");
  writer.texts("tokenizer.ggml.merges", merges);
}

}  // namespace

std::string random_vocabulary_file(Random& random) {
  const auto kind = chance(random, 2) ? VocabularyKind::kByteLevel : VocabularyKind::kSentencePiece;
  gguf::Writer writer = gguf::small_metadata(kind);
  if (!chance(random, 4)) replace_tokens(random, kind, writer);
  if (chance(random, 2)) replace_merges(random, writer);
  if (chance(random, 2)) {
    writer.erase("tokenizer.ggml.pre");
    if (!chance(random, 4)) writer.text("tokenizer.ggml.pre", pick(random, kPres));
  }
  if (chance(random, 4)) {
    writer.erase("general.name");
    writer.text("general.name", pick(random, kNames));
  }
  for (const char* flag : {"add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix"}) {
    if (!chance(random, 2)) continue;
    const std::string key = std::string("tokenizer.ggml.") + flag;
    writer.erase(key);
    writer.boolean(key, chance(random, 2));
  }
  for (const char* name : {"bos", "eos", "eot", "unknown", "padding", "fim_pad", "mask"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    if (chance(random, 3)) writer.erase(key);
    if (!chance(random, 6)) continue;
    writer.erase(key);
    writer.u32(key, static_cast<uint32_t>(random.below(120)));
  }
  return writer.head();
}

}  // namespace ei::fuzz
