// The shapes of /completion (llama.cpp's own), /v1/completions and /v1/chat/completions (OpenAI's).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/api/random_name.h"
#include "server/api/responder.h"
#include "text/tokenizer.h"

namespace ei::server {

// What all shapes tell beside the answer.
struct Facts {
  std::string model{};        // its name
  std::string fingerprint{};  // of this build
  std::string id{};           // of this answer
  int64_t created = 0;        // seconds since 1970
  const text::Tokenizer* tokenizer = nullptr;
};

Json timings_json(const TaskReport& report);
Json progress_json(const TaskReport& report);
// The heads of a prompt read sparsely: the segments of this chunk, and all of them at the end (as `run --json`).
Json head_trace_json(const HeadTrace& heads);
Json head_summary_json(const HeadTrace& heads);
// Of all answers together, each prompt once.
Json usage_json(const std::vector<Choice>& choices);
const char* finish_reason(const TaskReport& report);
// The log-probabilities of tokens, with those of the likeliest beside each; or probabilities (`drawn`) under
// llama.cpp's names for those of the draw.
Json probabilities_json(const std::vector<TaskToken>& tokens, const text::Tokenizer& tokenizer, bool drawn = false);

std::unique_ptr<Format> native_format(const Facts& facts, const Params& params, bool many);
std::unique_ptr<Format> text_format(const Facts& facts, const Params& params);
std::unique_ptr<Format> chat_format(const Facts& facts, const Params& params);

}  // namespace ei::server
