#include "text/tokenizer.h"

#include <llama.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <utility>

namespace ei::text {
namespace {

constexpr size_t kMaxBytes = std::numeric_limits<int32_t>::max() / 2;

// libllama logs to stderr unless told otherwise; its callback is one per process.
void silence_libllama() {
  static const bool done = [] {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    return true;
  }();
  static_cast<void>(done);
}

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};

}  // namespace

struct Tokenizer::Impl {
  std::unique_ptr<llama_model, ModelDeleter> model;
  const llama_vocab* vocab = nullptr;
  int vocab_size = 0;
  // Texts of the control tokens by first byte, longest first.
  std::array<std::vector<std::string>, 256> control_texts;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& gguf_path) {
  silence_libllama();
  try {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    auto impl = std::make_unique<Impl>();
    impl->model.reset(llama_model_load_from_file(gguf_path.c_str(), params));
    if (!impl->model) {
      return make_error(ErrorKind::kModel, "%s: the vocabulary cannot be loaded", gguf_path.c_str());
    }
    impl->vocab = llama_model_get_vocab(impl->model.get());
    impl->vocab_size = llama_vocab_n_tokens(impl->vocab);
    if (llama_vocab_type(impl->vocab) == LLAMA_VOCAB_TYPE_NONE || impl->vocab_size <= 0) {
      return make_error(ErrorKind::kModel, "%s: the file has no vocabulary", gguf_path.c_str());
    }
    for (Token token = 0; token < impl->vocab_size; ++token) {
      if ((llama_vocab_get_attr(impl->vocab, token) & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) == 0) {
        continue;
      }
      const std::string text = llama_vocab_get_text(impl->vocab, token);
      if (!text.empty()) impl->control_texts[static_cast<uint8_t>(text[0])].push_back(text);
    }
    for (auto& texts : impl->control_texts) {
      std::sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
    }
    return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
  } catch (const std::exception& error) {
    return make_error(ErrorKind::kModel, "%s: the vocabulary cannot be loaded: %s", gguf_path.c_str(), error.what());
  }
}

int Tokenizer::vocab_size() const { return impl_->vocab_size; }

Result<std::vector<Token>> Tokenizer::tokenize(std::string_view text, TokenizeOptions options) const {
  if (text.size() > kMaxBytes) {
    return make_error(ErrorKind::kUsage, "text is too long: %zu > %zu bytes", text.size(), kMaxBytes);
  }
  size_t bad_offset = 0;
  if (!valid_utf8(text, &bad_offset)) {
    return make_error(ErrorKind::kUsage, "text is not valid UTF-8: byte 0x%02x at offset %zu",
                      static_cast<unsigned>(static_cast<uint8_t>(text[bad_offset])), bad_offset);
  }
  try {
    // A token has at least one byte; begin, end and a leading space may be added.
    std::vector<Token> tokens(text.size() + 4);
    const auto run = [&] {
      return llama_tokenize(impl_->vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                            static_cast<int32_t>(tokens.size()), options.add_bos_eos, options.parse_special);
    };
    int32_t count = run();
    if (count < 0 && count != std::numeric_limits<int32_t>::min()) {
      tokens.resize(static_cast<size_t>(-count));  // a normaliser lengthened the text
      count = run();
    }
    if (count < 0) return make_error(ErrorKind::kUsage, "text of %zu bytes has too many tokens", text.size());
    tokens.resize(static_cast<size_t>(count));
    return tokens;
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
    for (const std::string& control : impl_->control_texts[static_cast<uint8_t>(text[begin])]) {
      if (text.substr(begin, control.size()) == control) found.push_back({begin, begin + control.size()});
    }
  }
  return found;
}

const void* Tokenizer::raw() const { return impl_->vocab; }

}  // namespace ei::text
