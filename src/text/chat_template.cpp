#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "text/jinja_render.h"

namespace ei::text {
namespace {

std::vector<Tokenizer::Range> find_all(const std::vector<std::string>& markers, std::string_view text) {
  std::vector<Tokenizer::Range> found;
  for (const std::string& marker : markers) {
    for (size_t at = 0; (at = text.find(marker, at)) != std::string_view::npos; ++at)
      found.push_back({at, at + marker.size()});
  }
  return found;
}

// A marker is matched even where control tokens are not; cut behind its first character, it is text.
std::vector<std::string_view> cut_markers(const std::vector<std::string>& markers, std::string_view text) {
  std::vector<size_t> cuts;
  for (const Tokenizer::Range& range : find_all(markers, text)) cuts.push_back(range.begin + 1);  // '<' and '[': a byte
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(text.size());
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    if (cut > begin) pieces.push_back(text.substr(begin, cut - begin));
    begin = std::max(begin, cut);
  }
  return pieces;
}

// Whether some control token's spelling, or a marker's, takes bytes from a part that came from a message.
bool input_spells_control(const std::vector<TextPart>& parts, std::string_view text, const Tokenizer& tokenizer,
                          const std::vector<std::string>& markers) {
  std::vector<Tokenizer::Range> control = tokenizer.find_control_text(text);
  const std::vector<Tokenizer::Range> marked = find_all(markers, text);
  control.insert(control.end(), marked.begin(), marked.end());
  if (control.empty()) return false;
  std::stable_sort(control.begin(), control.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  size_t begin = 0;
  auto next = control.begin();  // ranges ascend by begin
  size_t reach = 0;             // the furthest end of the ranges passed
  for (const TextPart& part : parts) {
    const size_t end = begin + part.text.size();
    for (; next != control.end() && next->begin < end; ++next) {
      if (part.is_input) return true;
      reach = std::max(reach, next->end);
    }
    if (part.is_input && !part.text.empty() && reach > begin) return true;
    begin = end;
  }
  return false;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string source, const Tokenizer& tokenizer, std::string model_path) {
  ChatTemplate chat;
  chat.model_path_ = std::move(model_path);
  if (const Status status = check_jinja(source); !status.ok()) return chat.blame(status.error());
  chat.source_ = std::move(source);
  chat.bos_text_ = tokenizer.piece(tokenizer.bos(), /*special=*/true);
  chat.markers_ = tokenizer.find_markers(chat.source_);
  chat.eos_text_ = tokenizer.piece(tokenizer.eos(), /*special=*/true);
  return chat;
}

// A template's mistake is the user's when a flag gave it.
Error ChatTemplate::blame(const Error& error) const {
  if (error.kind != ErrorKind::kModel) return error;
  if (model_path_.empty()) return {ErrorKind::kUsage, error.message};
  return {ErrorKind::kModel, model_path_ + ": " + error.message};
}

Result<std::vector<Token>> ChatTemplate::apply(std::span<const Message> messages, const Tokenizer& tokenizer,
                                               bool add_generation_prompt, const std::string& begun,
                                               const TemplateExtras& extras, const PieceCheck& check) const {
  // Written out as JSON, what tools say can no longer be told from what the template says.
  std::string written = extras.tools;
  for (const Message& message : messages) written += message.more;
  if (!tokenizer.find_control_text(written).empty() || !find_all(markers_, written).empty())
    return make_error(ErrorKind::kUsage, "a tool or a tool's call spells a control token of this model");
  Result<std::vector<TextPart>> rendered =
      render_jinja(source_, {messages, add_generation_prompt, bos_text_, eos_text_, extras});
  if (!rendered.ok()) return blame(rendered.error());
  std::vector<TextPart> parts = std::move(rendered).value();
  if (!extras.suffix.empty()) parts.push_back({extras.suffix, false});
  if (!begun.empty()) parts.push_back({begun, true});
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  // In one piece the tokens are those libllama gives the whole prompt. Only when a message spells a control token is
  // the prompt cut at the borders of messages, which may split a token that would have spanned one.
  if (!input_spells_control(parts, text, tokenizer, markers_)) parts = {{std::move(text), false}};

  std::vector<Token> tokens;
  for (const TextPart& part : parts) {
    const std::vector<std::string_view> pieces =
        part.is_input ? cut_markers(markers_, part.text) : std::vector<std::string_view>{part.text};
    for (const std::string_view text_piece : pieces) {
      if (check) EI_RETURN_IF_ERROR(check(text_piece, !part.is_input));
      EI_ASSIGN_OR_RETURN(const std::vector<Token> piece,
                          tokenizer.tokenize(text_piece, {.parse_special = !part.is_input}));
      tokens.insert(tokens.end(), piece.begin(), piece.end());
    }
  }
  if (tokenizer.adds_bos() && tokenizer.bos() != kNoToken && (tokens.empty() || tokens[0] != tokenizer.bos())) {
    tokens.insert(tokens.begin(), tokenizer.bos());
  }
  return tokens;
}

Result<std::string> ChatTemplate::render(std::span<const Message> messages, bool add_generation_prompt,
                                         const TemplateExtras& extras) const {
  const Result<std::vector<TextPart>> parts =
      render_jinja(source_, {messages, add_generation_prompt, bos_text_, eos_text_, extras});
  if (!parts.ok()) return blame(parts.error());
  std::string text;
  for (const TextPart& part : *parts) text += part.text;
  return text + extras.suffix;
}

}  // namespace ei::text
