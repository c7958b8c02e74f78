// One answer: prompt tokens in, text streamed to stdout, a report out. Shared by run, chat and demo.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/run_report.h"
#include "engine/generate.h"
#include "text/tokenizer.h"

namespace ei::cli {

// The template that flags ask for: its text, or a name; empty without one.
Result<std::string> template_source(const Settings& settings);
// `prompt` as the flags say: in a template, or as it is.
Result<std::vector<int32_t>> tokens_of(const Settings& settings, const text::Tokenizer& tokenizer,
                                       const std::string& prompt);

GenerateOptions generate_options(const Settings& settings, const Interrupts& interrupts);

struct Answer {
  RunReport report;
  std::vector<int32_t> tokens;
};
struct AnswerRequest {
  std::span<const int32_t> prompt;  // the whole prompt
  int64_t cached = 0;               // its first tokens that the session already holds
  bool stream = true;               // print the text as it comes
  std::string intro = {};           // shown in front of it, on stderr
  bool json = false;                // an object also when Ctrl-C comes before the first token
  bool introduces_model = true;     // before the first reading, say what introduce_model does
  GenerateOptions options = {};
  std::function<Status()> on_prompt_read = {};  // before the first token
};
// kInterrupted when Ctrl-C came before the first token; afterwards the report says "interrupted".
Result<Answer> answer(const CommandContext& context, Session& session, const AnswerRequest& request);

}  // namespace ei::cli
