#include "server/api/prompt_limit.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/embedded_engine.h"

namespace ei::server {
namespace {

std::string words(int count, uint64_t seed) {
  constexpr const char* kWords[] = {" morning",  " captain",           " garden", " letter",
                                    "\n\nriver", " \xc3\xa9t\xc3\xa9", "  "};
  Random random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) text += kWords[random.below(std::size(kWords))];
  return text;
}

TEST(PromptLimit, RefusesNothingThatFitsAndTellsNoMoreThanIsThere) {
  const text::Tokenizer& tokenizer = embedded_engine().tokenizer();
  for (const uint64_t seed : {1, 2, 3}) {
    // Long pieces and runs, so that there are many bytes to a token.
    std::string text = words(20000, seed);
    if (seed == 2) text += std::string(200000, ' ');
    if (seed == 3) text += std::string(200000, '-') + std::string(100000, '\n');
    const auto tokens = static_cast<int64_t>(tokenizer.tokenize(text, {})->size());
    for (const double share : {0.01, 0.3, 0.6, 0.8, 0.9, 1.0, 1.1}) {
      const auto context = static_cast<int64_t>(share * static_cast<double>(tokens)) + 1;
      PromptLimit limit(tokenizer, context, nullptr);
      const bool fits = limit.may_fit(text, /*parse_special=*/true);
      if (context > tokens) {
        EXPECT_TRUE(fits) << seed << " " << share;
      }
      if (share < 0.5 && static_cast<int64_t>(text.size()) > 6 * context) {
        EXPECT_FALSE(fits) << seed << " " << share;
      }
      if (fits) continue;
      const auto told = limit.error()->details["n_prompt_tokens"].get<int64_t>();
      EXPECT_GT(told, context);
      EXPECT_LE(told, tokens);
    }
  }
}

TEST(PromptLimit, AddsUpTheParts) {
  const text::Tokenizer& tokenizer = embedded_engine().tokenizer();
  PromptLimit limit(tokenizer, 4000, nullptr);
  const std::string part = words(2000, 1);
  int parts = 0;
  while (parts < 100 && limit.may_fit(part, false)) ++parts;
  EXPECT_GT(parts, 2);
  EXPECT_LT(parts, 30);
}

TEST(PromptLimit, StopsWhenNobodyWaits) {
  CancelToken gone;
  PromptLimit limit(embedded_engine().tokenizer(), 100, &gone);
  EXPECT_TRUE(limit.may_fit("a b c", false));
  gone.cancel();
  EXPECT_TRUE(limit.may_fit("a b c", false)) << "a short one takes no time";
  EXPECT_FALSE(limit.may_fit(words(100000, 1), false));
  EXPECT_EQ(limit.error()->status, 503);
}

}  // namespace
}  // namespace ei::server
