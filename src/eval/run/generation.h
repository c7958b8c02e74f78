// One item, answered by several methods: free greedy generation. A prompt is read once for all methods that read it
// alike, and forked.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "eval/items/prompt.h"
#include "eval/run/result.h"

namespace ei::eval {

struct MethodSpec {
  std::string label;       // names it in results: "snapkv kv-budget=10%"
  SessionOptions session;  // with prefill and kv options
  std::string reading;     // methods of the same text read prompts alike
  std::string options;     // all of them, defaults resolved: of another text, results are others
  bool samples = false;    // its compression wants queries from all over the prompt, or all of them: read apart
};

struct AnswerOptions {
  bool question_aware = true;  // false: the cache is compressed before the question is read
  int64_t context = 0;         // most tokens of a session
  const CancelToken* cancel = nullptr;
  int64_t parallel = 1;  // methods that answer at the same time, each on a thread of its own: their times mean little
  // Tokens of the item that one group of methods has read so far; 0 where it begins.
  std::function<void(int64_t tokens)> on_progress{};
};

// One result for each method. kInterrupted when cancelled.
Result<std::vector<ItemResult>> answer_item(const Engine& engine, const Item& item, const ItemPrompt& prompt,
                                            std::span<const MethodSpec> methods, const AnswerOptions& options);

// How many times the prompt is read for these methods.
int64_t count_readings(std::span<const MethodSpec> methods);

}  // namespace ei::eval
