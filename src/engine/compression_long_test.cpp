// KV compression over thousands of generated tokens: minutes under a sanitizer.
#include <gtest/gtest.h>

#include <cmath>

#include "support/latent_sessions.h"

namespace ei {
namespace {

TEST(Compression, ALongGenerationStaysInsideBudgetPlusRepeatAtEveryStep) {
  constexpr int64_t kBudget = 256;
  constexpr int64_t kRepeat = 64;
  constexpr int64_t kSteps = 3000;  // 20 000 on a smaller model, in tests/parity
  const auto session = latent_session(latent(kBudget, 16, kRepeat));
  ASSERT_TRUE(session->prefill(random_tokens(100, 100)).ok());
  for (int64_t step = 1; step <= kSteps; ++step) {
    ASSERT_TRUE(session->decode(likeliest(*session)).ok());
    ASSERT_LE(longest(*session), kBudget + kRepeat) << "after " << step << " tokens";
    ASSERT_EQ(session->position(), 100 + step);
  }
  // Over the budget for the first time at 16 + 3 * 64 tokens, then every 64.
  EXPECT_EQ(session->stats().compressions, (kSteps - 16) / kRepeat - 2);
  EXPECT_EQ(session->stats().generated_tokens, kSteps);
  for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
}

}  // namespace
}  // namespace ei
