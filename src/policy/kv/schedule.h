// When to compress: after `gap` generated tokens, and again every `repeat` tokens while the cache exceeds its budget.
// So a generation of any length stays inside budget + repeat slots per kv_head once the first compression has run.
#pragma once

#include <cstdint>

#include "policy/kv/options.h"

namespace ei::policy {

class KvSchedule {
 public:
  explicit KvSchedule(const KvOptions& options) : gap_(options.gap), repeat_(options.repeat) {}

  // A prompt, or one more turn of a chat, has been read; `over`: the cache holds more than its budget. True: compress
  // now.
  bool prompt_read(bool over);
  // One generated token has been appended. True: compress now.
  bool token_appended(bool over);
  // Another cache is gone on with, as if it had just been read.
  void restart() { generated_ = 0; }
  // Tokens since the last prompt; a saved cache goes on with them.
  int64_t generated() const { return generated_; }
  void resume(int64_t generated) { generated_ = generated; }

 private:
  int64_t gap_;
  int64_t repeat_;
  int64_t generated_ = 0;  // since the last prompt
};

}  // namespace ei::policy
