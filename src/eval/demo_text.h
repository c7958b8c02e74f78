// A long chronicle with one fact hidden in it, for a demonstration that needs no files.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "eval/tasks.h"

namespace ei::eval {

struct DemoStory {
  std::string text;
  std::string fact;
  std::string question;
  std::string answer;
  double depth = 0;  // share of the text's tokens before the fact
};

// The seed changes the story, the fact and where it hides. Text, question and room for the answer stay within
// `target_tokens`.
Result<DemoStory> make_demo_story(uint64_t seed, int64_t target_tokens, const CountTokens& count_tokens);

}  // namespace ei::eval
