// When to compress: after `gap` generated tokens, and again every `repeat` tokens while the cache exceeds its budget.
// So a generation of any length stays inside budget + repeat slots per kv_head once the first compression has run.
#pragma once

#include <cstdint>

#include "policy/kv/recipe.h"

namespace ei::policy {

class LatentSchedule {
 public:
  explicit LatentSchedule(const KvOptions& options) : options_(options) {}

  // A prompt, or one more turn of a chat, has been read; the longest kv_head holds `longest` slots. True: compress now.
  bool prompt_read(int64_t longest);
  // One generated token has been appended. True: compress now.
  bool token_appended(int64_t longest);
  // Another cache is gone on with, as if it had just been read.
  void restart() { generated_ = 0; }

  int64_t generated() const { return generated_; }  // since the last prompt

 private:
  bool over_budget(int64_t longest) const;

  KvOptions options_;
  int64_t generated_ = 0;
};

}  // namespace ei::policy
