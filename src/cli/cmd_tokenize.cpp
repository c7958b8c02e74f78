// tokenize: text to tokens, with the vocabulary alone (no weights are loaded).
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/input.h"
#include "cli/model_overrides.h"
#include "cli/setup.h"
#include "text/tokenizer.h"

namespace ei::cli {

namespace {
// A token's bytes on one line of a terminal; what is not printable UTF-8 becomes an escape.
std::string visible(const std::string& piece) {
  const bool readable = text::valid_utf8(piece);
  std::string shown;
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || (!readable && byte >= 0x80)) {
      shown += c == '\n' ? "\\n" : str_format("\\x%02x", byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string table(const text::Tokenizer& tokenizer, const std::vector<text::Token>& tokens) {
  std::string lines;
  for (const text::Token token : tokens) {
    lines += str_format("%6d  '%s'\n", token, visible(tokenizer.piece(token, /*special=*/true)).c_str());
  }
  return lines;
}

std::string to_json(const text::Tokenizer& tokenizer, const std::vector<text::Token>& tokens) {
  nlohmann::ordered_json object;
  object["count"] = tokens.size();
  object["tokens"] = tokens;
  object["pieces"] = nlohmann::ordered_json::array();
  for (const text::Token token : tokens) object["pieces"].push_back(tokenizer.piece(token, /*special=*/true));
  // A piece may hold half a character.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}
}  // namespace

Result<int> command_tokenize(const CommandContext& context) {
  const Settings& settings = context.settings;
  EI_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(settings));
  EI_ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  // Checked first: libllama aborts on some malformed vocabularies.
  EI_RETURN_IF_ERROR(gguf::File::open(path, model_overrides(settings)));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer,
                      text::Tokenizer::load(path, model_overrides(settings)));
  EI_ASSIGN_OR_RETURN(
      const std::vector<text::Token> tokens,
      tokenizer->tokenize(prompt, {.add_bos_eos = !settings.no_bos, .parse_special = settings.parse_special}));
  name_default_model(settings, context.console);
  std::string out;
  if (settings.json) {
    out = to_json(*tokenizer, tokens);
  } else if (settings.ids) {
    out = nlohmann::json(tokens).dump() + "\n";
  } else {
    out = table(*tokenizer, tokens);
  }
  context.console.detail(str_format("%zu tokens", tokens.size()));
  return context.console.print(out) ? 0 : exit_code(ErrorKind::kRuntime);
}

}  // namespace ei::cli
