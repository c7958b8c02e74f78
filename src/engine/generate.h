// generate(): prompt in, text out. Prefill, sampling, streaming and stopping, for the command line and the server
// alike.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engine/session.h"
#include "text/sampler.h"

namespace ei {

struct GenerateOptions {
  int64_t max_tokens = -1;  // -1: until the end of generation or the context is full
  bool ignore_eos = false;
  std::vector<std::string> stop;  // generation ends in front of any of these
  text::SamplerOptions sampler;
  const CancelToken* stop_soon = nullptr;  // stop after the current token and return what there is
};

struct GenerateCallbacks {
  Session::ProgressFn on_progress;                     // while the prompt is read
  std::function<Status()> on_prompt_read;              // before the first token; an error ends it
  std::function<void(std::string_view text)> on_text;  // complete UTF-8 pieces as they come
};

struct GenerateResult {
  std::string text;
  std::vector<int32_t> tokens;
  std::string finish_reason;     // "stop" (end token or stop string), "length", "interrupted", "memory"
  std::optional<Error> failure;  // with "memory": what there is could be made, the rest could not
  double ttft_s = 0;             // start of the prompt to the first generated token
  uint32_t seed = 0;
};

// Reads `prompt` behind what the session holds; penalties look at both.
Result<GenerateResult> generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                                const GenerateCallbacks& callbacks);

}  // namespace ei
