// What the sampler is told about the text in front of an answer.
#include "engine/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/embedded_engine.h"

namespace ei {
namespace {

// The first token of the answer, the likeliest behind the penalties.
int32_t first_token(const std::vector<int32_t>& held, const std::vector<int32_t>& prompt, float penalty, int last_n) {
  const Result<std::unique_ptr<Session>> session = embedded_engine().new_session({});
  EXPECT_TRUE(session.ok());
  if (!held.empty()) {
    EXPECT_TRUE((*session)->prefill(held).ok());
  }
  GenerateOptions options;
  options.max_tokens = 1;
  options.ignore_eos = true;
  options.sampler.temp = 0;
  options.sampler.presence_penalty = penalty;
  options.sampler.repeat_last_n = last_n;
  const Result<GenerateResult> result = generate(**session, prompt, options, {});
  EXPECT_TRUE(result.ok() && result->tokens.size() == 1);
  return result.ok() ? result->tokens.at(0) : -1;
}

TEST(Generate, PenaltiesSeeThePromptAndWhatWasHeldBeforeIt) {
  const auto text =
      embedded_engine().tokenizer().tokenize("The pass key is 48213. What is the pass key? The pass key is", {});
  ASSERT_TRUE(text.ok());
  const std::vector<int32_t> tokens = *text;
  const int32_t likeliest = first_token({}, tokens, 0, 64);
  const auto found = std::find(tokens.rbegin(), tokens.rend(), likeliest);
  ASSERT_NE(found, tokens.rend()) << "the answer repeats a token of the prompt";
  const auto back = static_cast<int>(found - tokens.rbegin()) + 1;  // how far back it stands
  EXPECT_NE(first_token({}, tokens, 1000, back), likeliest);
  EXPECT_EQ(first_token({}, tokens, 1000, back - 1), likeliest) << "beyond the window";
  // Read in two parts, as a chat does.
  const std::vector<int32_t> held(tokens.begin(), tokens.end() - 1);
  EXPECT_NE(first_token(held, {tokens.back()}, 1000, back), likeliest);
  EXPECT_EQ(first_token(held, {tokens.back()}, 1000, back - 1), likeliest);
}

}  // namespace
}  // namespace ei
