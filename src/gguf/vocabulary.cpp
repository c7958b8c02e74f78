// What libllama demands of a vocabulary, checked before it reads one: it aborts or throws where we return an Error.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "gguf/file.h"
#include "gguf/metadata.h"
#include "gguf/pre_tokenizers.h"
#include "gguf/reader.h"
#include "gguf/token_texts.h"

namespace ei::gguf {
namespace {

using ull = unsigned long long;

constexpr size_t kMaxTemplateBytes = 1 << 20;

struct KeyType {
  const char* key;
  ValueType type;
};
// What libllama reads while it loads a vocabulary. It throws when the type is another one.
constexpr auto kKeyTypes = std::to_array<KeyType>({
    {"general.name", ValueType::kString},
    {"general.file_type", ValueType::kU32},
    {"split.count", ValueType::kU16},
    {"tokenizer.ggml.model", ValueType::kString},
    {"tokenizer.ggml.pre", ValueType::kString},
    {"tokenizer.ggml.token_type_count", ValueType::kU32},
    {"tokenizer.ggml.add_bos_token", ValueType::kBool},
    {"tokenizer.ggml.add_eos_token", ValueType::kBool},
    {"tokenizer.ggml.add_sep_token", ValueType::kBool},
    {"tokenizer.ggml.add_space_prefix", ValueType::kBool},
    {"tokenizer.ggml.remove_extra_whitespaces", ValueType::kBool},
    {"tokenizer.ggml.normalizer.lowercase", ValueType::kBool},
    {"tokenizer.ggml.normalizer.strip_accents", ValueType::kBool},
});
constexpr auto kTokenIds = std::to_array<const char*>({
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
    "tokenizer.ggml.prefix_token_id",
    "tokenizer.ggml.suffix_token_id",
    "tokenizer.ggml.middle_token_id",
});

Status check_type(const File& file, const char* key, ValueType type) {
  const Value* value = file.find(key);
  if (value == nullptr || value->type == type) return {};
  return make_error(ErrorKind::kModel, "%s is of type %s; %s is needed", key, value_type_name(value->type),
                    value_type_name(type));
}

Result<VocabularyKind> check_model(const File& file) {
  const auto model = file.string("tokenizer.ggml.model");
  if (!model.has_value()) return make_error(ErrorKind::kModel, "tokenizer.ggml.model is missing or not a string");
  if (*model == "llama") return VocabularyKind::kSentencePiece;
  if (*model != "gpt2") {
    return make_error(ErrorKind::kModel, "tokenizer '%s' is not supported; supported: llama, gpt2",
                      printable(*model).c_str());
  }
  const std::string_view pre = file.string("tokenizer.ggml.pre").value_or("default");
  if (!pre.empty() && !known_pre_tokenizer(pre)) {
    return make_error(ErrorKind::kModel, "pre-tokenizer '%s' is not known to this build", printable(pre).c_str());
  }
  return VocabularyKind::kByteLevel;
}

// The array under `key` with one element for each token; null when absent.
Result<const Array*> per_token(const File& file, const char* key, uint64_t tokens) {
  if (file.find(key) == nullptr) return nullptr;
  const Array* array = file.array(key);
  if (array == nullptr) return make_error(ErrorKind::kModel, "%s is not an array", key);
  if (array->count != tokens) {
    return make_error(ErrorKind::kModel, "%s has %llu elements for %llu tokens", key, static_cast<ull>(array->count),
                      static_cast<ull>(tokens));
  }
  return array;
}

Status check_scores(const File& file, uint64_t tokens) {
  EI_ASSIGN_OR_RETURN(const Array* scores, per_token(file, "tokenizer.ggml.scores", tokens));
  if (scores == nullptr || scores->element == ValueType::kI32) return {};
  if (scores->element != ValueType::kF32) {
    return make_error(ErrorKind::kModel, "tokenizer.ggml.scores holds %s; f32 is needed",
                      value_type_name(scores->element));
  }
  for (uint64_t i = 0; i < scores->count; ++i) {
    const Value score = read_number(ValueType::kF32, scores->bytes.data() + i * sizeof(float));
    if (std::isnan(std::get<double>(score.data))) {
      return make_error(ErrorKind::kModel, "the score of token %llu is not a number", static_cast<ull>(i));
    }
  }
  return {};
}

Result<std::vector<TokenKind>> read_kinds(const File& file, uint64_t tokens) {
  std::vector<TokenKind> kinds;
  EI_ASSIGN_OR_RETURN(const Array* types, per_token(file, "tokenizer.ggml.token_type", tokens));
  if (types == nullptr) return kinds;
  if (types->element != ValueType::kI32) {
    return make_error(ErrorKind::kModel, "tokenizer.ggml.token_type holds %s; i32 is needed",
                      value_type_name(types->element));
  }
  kinds.reserve(static_cast<size_t>(tokens));
  for (uint64_t i = 0; i < tokens; ++i) {
    const int64_t kind = File::integer_at(*types, i).value();
    if (kind < 0 || kind > static_cast<int64_t>(TokenKind::kByte)) {
      return make_error(ErrorKind::kModel, "token %llu has the unknown type %lld", static_cast<ull>(i),
                        static_cast<long long>(kind));
    }
    kinds.push_back(static_cast<TokenKind>(kind));
  }
  return kinds;
}

Status check_merges(const File& file, VocabularyKind vocabulary) {
  const Array* merges = file.array("tokenizer.ggml.merges");
  if (vocabulary == VocabularyKind::kSentencePiece && file.find("tokenizer.ggml.merges") == nullptr) return {};
  if (merges == nullptr || merges->element != ValueType::kString) {
    return make_error(ErrorKind::kModel, "tokenizer.ggml.merges is missing or not an array of strings");
  }
  for (size_t i = 0; i < merges->strings.size(); ++i) {
    const std::string_view merge = until_nul(merges->strings[i]);
    const size_t gap = merge.find(' ', 1);
    if (gap == std::string_view::npos || gap + 1 == merge.size()) {
      return make_error(ErrorKind::kModel, "merge %zu is not two texts with a blank between: '%s'", i,
                        printable(merge).c_str());
    }
  }
  return {};
}

// Older converters write -1 for a separator or a padding that the vocabulary has not; libllama passes it over.
bool says_none(std::string_view key, uint64_t id) {
  const bool may = key == "tokenizer.ggml.seperator_token_id" || key == "tokenizer.ggml.padding_token_id";
  return may && id == std::numeric_limits<uint32_t>::max();
}

Status check_token_ids(const File& file, uint64_t tokens) {
  for (const char* key : kTokenIds) {
    EI_RETURN_IF_ERROR(check_type(file, key, ValueType::kU32));
    const auto id = file.integer(key);
    if (id.has_value() && static_cast<uint64_t>(*id) >= tokens && !says_none(key, static_cast<uint64_t>(*id))) {
      return make_error(ErrorKind::kModel, "%s is %lld; the vocabulary has %llu tokens", key,
                        static_cast<long long>(*id), static_cast<ull>(tokens));
    }
  }
  const Value* suppressed = file.find("tokenizer.ggml.suppress_tokens");
  const Array* ids = file.array("tokenizer.ggml.suppress_tokens");
  if (suppressed != nullptr && (ids == nullptr || ids->element != ValueType::kI32)) {
    return make_error(ErrorKind::kModel, "tokenizer.ggml.suppress_tokens must be an array of i32");
  }
  return {};
}

// Where a file asks for a first or last token without naming it, libllama falls back to a fixed id and aborts when the
// vocabulary has none.
Status check_ends(const File& file, uint64_t tokens, VocabularyKind vocabulary) {
  const bool byte_level = vocabulary == VocabularyKind::kByteLevel;
  const bool no_bos = byte_level && pre_tokenizer_without_bos(file.string("tokenizer.ggml.pre").value_or(""));
  const struct {
    const char* flag;
    const char* id;
    bool on_by_default;
    bool has_fallback;
    uint64_t fallback;
  } ends[] = {{"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", !no_bos, !no_bos, byte_level ? 11u : 1u},
              {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false, true, byte_level ? 11u : 2u}};
  for (const auto& end : ends) {
    const bool wanted = file.boolean(end.flag).value_or(end.on_by_default);
    const bool named = file.find(end.id) != nullptr || (end.has_fallback && end.fallback < tokens);
    if (wanted && !named) return make_error(ErrorKind::kModel, "%s is needed and missing", end.id);
  }
  return {};
}

Status check_templates(const File& file) {
  constexpr std::string_view kPrefix = "tokenizer.chat_template";
  for (const auto& [key, value] : file.metadata()) {
    if (key.substr(0, kPrefix.size()) != kPrefix || value.type == ValueType::kArray) continue;
    const auto* text = std::get_if<std::string_view>(&value.data);
    if (text == nullptr) return make_error(ErrorKind::kModel, "%s is not a string", printable(key).c_str());
    if (text->size() > kMaxTemplateBytes) {
      return make_error(ErrorKind::kModel, "%s has %zu bytes; at most %zu are allowed", printable(key).c_str(),
                        text->size(), kMaxTemplateBytes);
    }
  }
  return {};
}

// libllama looks these tokens up without asking whether they exist when the name says Phi-3.
Status check_name(const File& file, const Array& tokens) {
  std::string name(file.string("general.name").value_or(""));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return {};
  for (const std::string_view wanted : {"</s>", "<unk>", "<s>", "<|endoftext|>"}) {
    bool found = false;
    for (const std::string_view text : tokens.strings) found = found || text == wanted;
    if (!found) {
      return make_error(ErrorKind::kModel, "general.name says Phi-3, but token '%s' is missing",
                        std::string(wanted).c_str());
    }
  }
  return {};
}

}  // namespace

Status check_vocabulary(const File& file) {
  for (const KeyType& key : kKeyTypes) EI_RETURN_IF_ERROR(check_type(file, key.key, key.type));
  EI_ASSIGN_OR_RETURN(const VocabularyKind vocabulary, check_model(file));
  const Array* tokens = file.array("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->element != ValueType::kString || tokens->count == 0) {
    return make_error(ErrorKind::kModel, "tokenizer.ggml.tokens is missing, empty or not an array of strings");
  }
  EI_RETURN_IF_ERROR(check_scores(file, tokens->count));
  EI_ASSIGN_OR_RETURN(const std::vector<TokenKind> kinds, read_kinds(file, tokens->count));
  EI_RETURN_IF_ERROR(check_merges(file, vocabulary));
  EI_RETURN_IF_ERROR(check_token_ids(file, tokens->count));
  EI_RETURN_IF_ERROR(check_ends(file, tokens->count, vocabulary));
  EI_RETURN_IF_ERROR(check_templates(file));
  EI_RETURN_IF_ERROR(check_name(file, *tokens));
  return check_token_texts(tokens->strings, kinds, vocabulary);
}

}  // namespace ei::gguf
