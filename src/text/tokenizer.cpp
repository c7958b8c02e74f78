#include "text/tokenizer.h"

#include <llama.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <new>
#include <set>
#include <unordered_set>
#include <utility>

#include "text/deep_call.h"

namespace ei::text {
namespace {

constexpr size_t kMaxTextBytes = std::numeric_limits<int32_t>::max() / 2;

constexpr size_t kShortRunBytes = 4096;
constexpr size_t kMaxRunBytes = size_t{256} << 10;
constexpr size_t kStackPerByte = 2048;  // measured: under 400

// libllama logs to stderr unless told otherwise; its callback is one per process.
void silence_libllama() {
  static const bool done = [] {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    return true;
  }();
  static_cast<void>(done);
}

// Libllama splits text for a BPE vocabulary by its own code for these, by std::regex for the others.
constexpr std::array<std::string_view, 6> kOwnSplitters = {"llama-bpe", "llama3", "llama-v3",
                                                           "qwen2",     "gpt-2",  "smollm"};

bool splits_by_regex(const llama_model* model, const llama_vocab* vocab) {
  if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_BPE) return false;
  std::array<char, 64> name{};
  llama_model_meta_val_str(model, "tokenizer.ggml.pre", name.data(), name.size());
  return std::find(kOwnSplitters.begin(), kOwnSplitters.end(), std::string_view(name.data())) == kOwnSplitters.end();
}

// The longest stretch of bytes without a change between space and non-space: what one match can cover.
size_t longest_run(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  size_t longest = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_space(text[i]) != is_space(text[begin])) begin = i;
    longest = std::max(longest, i + 1 - begin);
  }
  return longest;
}

// Libllama does not say why it could not load one; when not even this much is left, memory is why.
bool room_for_a_vocabulary() {
  constexpr size_t kBytes = size_t{64} << 20;
  void* room = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, kBytes);
  return true;
}

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};

// What concerns the vocabulary, as libllama takes it; ends with an empty key.
std::vector<llama_model_kv_override> vocabulary_overrides(const gguf::Overrides& overrides) {
  std::vector<llama_model_kv_override> all;
  for (const gguf::Override& from : overrides) {
    if (!from.key.starts_with("tokenizer.") || from.key.size() >= sizeof(llama_model_kv_override::key)) continue;
    llama_model_kv_override to{};
    from.key.copy(to.key, sizeof to.key - 1);
    if (const auto* whole = std::get_if<int64_t>(&from.value)) {
      to.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
      to.val_i64 = *whole;
    } else if (const auto* real = std::get_if<double>(&from.value)) {
      to.tag = LLAMA_KV_OVERRIDE_TYPE_FLOAT;
      to.val_f64 = *real;
    } else if (const auto* flag = std::get_if<bool>(&from.value)) {
      to.tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
      to.val_bool = *flag;
    } else {
      to.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
      std::get<std::string>(from.value).copy(to.val_str, sizeof to.val_str - 1);
    }
    all.push_back(to);
  }
  all.push_back({});
  return all;
}

bool looks_like_marker(std::string_view text) {
  return text.size() > 2 && (text.front() == '<' || text.front() == '[') && (text.back() == '>' || text.back() == ']');
}

}  // namespace

struct Tokenizer::Impl {
  std::string path;
  std::unique_ptr<llama_model, ModelDeleter> model;
  const llama_vocab* vocab = nullptr;
  int vocab_size = 0;
  bool regex_recurses = false;
  // Spellings of the control tokens (some vocabularies have thousands), and their lengths by first byte.
  std::unordered_set<std::string, TextHash, std::equal_to<>> control_texts;
  std::array<std::set<size_t>, 256> control_lengths;
  std::vector<std::string> markers;  // user defined tokens that are spelled like control tokens
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& gguf_path, const gguf::Overrides& overrides) {
  silence_libllama();
  try {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    const std::vector<llama_model_kv_override> changed = vocabulary_overrides(overrides);
    if (changed.size() > 1) params.kv_overrides = changed.data();
    auto impl = std::make_unique<Impl>();
    impl->path = gguf_path;
    impl->model.reset(llama_model_load_from_file(gguf_path.c_str(), params));
    if (!impl->model && !room_for_a_vocabulary()) {
      return make_error(ErrorKind::kMemory, "%s: out of memory for the vocabulary", gguf_path.c_str());
    }
    if (!impl->model) {
      return make_error(ErrorKind::kModel, "%s: the vocabulary cannot be loaded", gguf_path.c_str());
    }
    impl->vocab = llama_model_get_vocab(impl->model.get());
    impl->vocab_size = llama_vocab_n_tokens(impl->vocab);
    if (llama_vocab_type(impl->vocab) == LLAMA_VOCAB_TYPE_NONE || impl->vocab_size <= 0) {
      return make_error(ErrorKind::kModel, "%s: the file has no vocabulary", gguf_path.c_str());
    }
    impl->regex_recurses = splits_by_regex(impl->model.get(), impl->vocab);
    for (Token token = 0; token < impl->vocab_size; ++token) {
      if ((llama_vocab_get_attr(impl->vocab, token) & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0) {
        const std::string_view text = llama_vocab_get_text(impl->vocab, token);
        if (looks_like_marker(text)) impl->markers.emplace_back(text);
      }
      if ((llama_vocab_get_attr(impl->vocab, token) & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) == 0) {
        continue;
      }
      const std::string text = llama_vocab_get_text(impl->vocab, token);
      if (text.empty()) continue;
      impl->control_texts.insert(text);
      impl->control_lengths[static_cast<uint8_t>(text[0])].insert(text.size());
    }
    return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::kMemory, "%s: out of memory for the vocabulary", gguf_path.c_str());
  } catch (const std::exception& error) {
    return make_error(ErrorKind::kModel, "%s: the vocabulary cannot be loaded: %s", gguf_path.c_str(), error.what());
  }
}

const std::string& Tokenizer::path() const { return impl_->path; }
int Tokenizer::vocab_size() const { return impl_->vocab_size; }

Result<std::vector<Token>> Tokenizer::tokenize(std::string_view text, TokenizeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    return make_error(ErrorKind::kUsage, "text is too long: %zu > %zu bytes", text.size(), kMaxTextBytes);
  }
  size_t bad_offset = 0;
  if (!valid_utf8(text, &bad_offset)) {
    return make_error(ErrorKind::kUsage, "text is not valid UTF-8: byte 0x%02x at offset %zu",
                      static_cast<unsigned>(static_cast<uint8_t>(text[bad_offset])), bad_offset);
  }
  // std::regex recurses with every character of a match.
  const size_t run_bytes = impl_->regex_recurses ? longest_run(text) : 0;
  if (run_bytes > kMaxRunBytes) {
    return make_error(ErrorKind::kUsage, "text has %zu bytes in a row without a space; this vocabulary takes %zu",
                      run_bytes, kMaxRunBytes);
  }
  try {
    // A token has at least one byte; begin, end and a leading space may be added.
    std::vector<Token> tokens(text.size() + 4);
    const auto run = [&] {
      int32_t result = std::numeric_limits<int32_t>::min();
      const auto tokenize = [&] {
        result = llama_tokenize(impl_->vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                static_cast<int32_t>(tokens.size()), options.add_bos_eos, options.parse_special);
      };
      if (run_bytes < kShortRunBytes) {
        tokenize();
      } else {
        call_with_stack(run_bytes * kStackPerByte, tokenize);
      }
      return result;
    };
    int32_t count = run();
    if (count < 0 && count != std::numeric_limits<int32_t>::min()) {
      tokens.resize(static_cast<size_t>(-count));  // a normaliser lengthened the text
      count = run();
    }
    if (count < 0) return make_error(ErrorKind::kMemory, "text of %zu bytes does not fit in memory", text.size());
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::kMemory, "text of %zu bytes does not fit in memory", text.size());
  } catch (const std::exception& error) {
    return make_error(ErrorKind::kRuntime, "text of %zu bytes cannot be tokenized: %s", text.size(), error.what());
  }
}

std::string Tokenizer::piece(Token token, bool special) const {
  if (!contains(token)) return {};
  std::string bytes(64, '\0');
  const auto run = [&] {
    return llama_token_to_piece(impl_->vocab, token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, special);
  };
  int32_t size = run();
  if (size < 0) {
    bytes.resize(static_cast<size_t>(-size));
    size = run();
  }
  bytes.resize(static_cast<size_t>(std::max(size, 0)));
  return bytes;
}

std::string Tokenizer::detokenize(std::span<const Token> tokens, bool special) const {
  std::vector<Token> known;
  known.reserve(tokens.size());
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(known), [&](Token t) { return contains(t); });
  std::string bytes(known.size() * 8 + 16, '\0');
  const auto run = [&] {
    return llama_detokenize(impl_->vocab, known.data(), static_cast<int32_t>(known.size()), bytes.data(),
                            static_cast<int32_t>(bytes.size()), /*remove_special=*/false, special);
  };
  int32_t size = run();
  if (size < 0) {
    bytes.resize(static_cast<size_t>(-size));
    size = run();
  }
  bytes.resize(static_cast<size_t>(std::max(size, 0)));
  return bytes;
}

bool Tokenizer::is_end_of_generation(Token token) const {
  return contains(token) && llama_vocab_is_eog(impl_->vocab, token);
}
bool Tokenizer::is_control(Token token) const { return contains(token) && llama_vocab_is_control(impl_->vocab, token); }
Token Tokenizer::bos() const { return llama_vocab_bos(impl_->vocab); }
Token Tokenizer::eos() const { return llama_vocab_eos(impl_->vocab); }
Token Tokenizer::eot() const { return llama_vocab_eot(impl_->vocab); }
Token Tokenizer::newline() const { return llama_vocab_nl(impl_->vocab); }
Token Tokenizer::pad() const { return llama_vocab_pad(impl_->vocab); }
bool Tokenizer::adds_bos() const { return llama_vocab_get_add_bos(impl_->vocab); }
bool Tokenizer::adds_eos() const { return llama_vocab_get_add_eos(impl_->vocab); }

std::vector<Token> Tokenizer::suppressed() const {
  int32_t count = 0;
  const llama_token* tokens = llama_vocab_get_suppress_tokens(impl_->vocab, &count);
  return tokens == nullptr ? std::vector<Token>() : std::vector<Token>(tokens, tokens + count);
}

std::string Tokenizer::chat_template() const {
  const char* source = llama_model_chat_template(impl_->model.get(), nullptr);
  return source == nullptr ? std::string() : std::string(source);
}

std::vector<Tokenizer::Range> Tokenizer::find_control_text(std::string_view text) const {
  std::vector<Range> found;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (const size_t length : impl_->control_lengths[static_cast<uint8_t>(text[begin])]) {
      if (begin + length > text.size()) break;
      if (impl_->control_texts.contains(text.substr(begin, length))) found.push_back({begin, begin + length});
    }
  }
  return found;
}

std::vector<std::string> Tokenizer::find_markers(std::string_view source) const {
  std::vector<std::string> found;
  std::copy_if(impl_->markers.begin(), impl_->markers.end(), std::back_inserter(found),
               [&](const std::string& marker) { return source.find(marker) != std::string_view::npos; });
  return found;
}

const void* Tokenizer::raw() const { return impl_->vocab; }

}  // namespace ei::text
