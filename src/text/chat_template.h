// ChatTemplate: messages to a prompt through the model's Jinja template (llama.cpp's engine, under a budget: see
// docs/text.md). What a message says is data: it never becomes a control token, whatever it spells.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace ei::text {

struct Message {
  std::string role;
  std::string content;
  std::string more{};  // a JSON object of further members: tool_calls, reasoning_content; empty: none
};

// What a template may know beside the messages, as JSON. It comes from a request: data, like what messages say.
struct TemplateExtras {
  std::string tools{};      // a list; empty: none
  std::string variables{};  // an object: enable_thinking, date_string; empty: none
  std::string suffix{};     // behind what the template writes, and as much to be trusted
};

// Looks at every piece of a prompt before it is made tokens of; an error is the prompt's. `special`: it may form
// control tokens.
using PieceCheck = std::function<Status(std::string_view piece, bool special)>;

class ChatTemplate {
 public:
  // An error on a syntax error or a template beyond the limits (256 KiB, nesting); here and later, what is wrong with
  // the template is kModel and names `model_path` when it came with that file, else kUsage. Copyable; const use from
  // any thread.
  static Result<ChatTemplate> parse(std::string source, const Tokenizer& tokenizer, std::string model_path = {});

  // Renders and tokenizes: the template's text may form control tokens, message content never does. Begins with BOS
  // when the vocabulary asks for it, once.
  // `begun`: the beginning of the answer, which follows as it is.
  Result<std::vector<Token>> apply(std::span<const Message> messages, const Tokenizer& tokenizer,
                                   bool add_generation_prompt, const std::string& begun = {},
                                   const TemplateExtras& extras = {}, const PieceCheck& check = nullptr) const;
  // The text alone, for display.
  Result<std::string> render(std::span<const Message> messages, bool add_generation_prompt,
                             const TemplateExtras& extras = {}) const;
  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;
  Error blame(const Error& error) const;

  std::string source_;
  std::string model_path_;  // empty: not a model's
  std::string bos_text_;
  std::string eos_text_;
  std::vector<std::string> markers_;  // of turns, where the model file does not call them control tokens
};

}  // namespace ei::text
