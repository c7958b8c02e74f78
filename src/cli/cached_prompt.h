// --prompt-cache: what of the prompt is in the file goes into the session, what was read goes into the file. Nothing
// that the file held goes without a word.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/command.h"
#include "engine/prompt_cache.h"

namespace ei::cli {

class CachedPrompt {
 public:
  CachedPrompt(const CommandContext& context, Session& session) : context_(context), session_(session) {}

  // Returns the leading tokens of the prompt that the session holds now.
  Result<int64_t> load(std::span<const int32_t> prompt);
  // Behind the prompt.
  Status save() const;
  // Behind a Ctrl-C: what was read, where that is more than the file holds.
  Status save_part() const;

 private:
  const std::string& path() const { return context_.settings.prompt_cache; }
  void say_replaced() const;

  const CommandContext& context_;
  Session& session_;
  SavedPrompt found_{};  // in the file
  bool whole_ = false;   // the file holds all of the prompt
};

}  // namespace ei::cli
