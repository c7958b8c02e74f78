// Runs a Jinja chat template of unknown origin: bounded time, memory and stack, and output that remembers which bytes
// came from messages. Internal to the room; jinja_render.cpp and jinja_guard.* are the only users of llama.cpp's
// engine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"

namespace ei::text {

struct TextPart {
  std::string text;
  bool is_input = false;  // from a message, or made from one
};

struct JinjaInput {
  std::span<const Message> messages;
  bool add_generation_prompt = false;
  std::string bos_text;
  std::string eos_text;
  TemplateExtras extras{};
};

// kModel when the template is at fault, whoever it came from; kUsage when it refuses the messages (raise_exception).
Status check_jinja(const std::string& source);
Result<std::vector<TextPart>> render_jinja(const std::string& source, const JinjaInput& input);

}  // namespace ei::text
