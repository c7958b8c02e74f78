// What a compression gives back to the system, read from the process's memory.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/latent_sessions.h"

namespace ei {
namespace {

TEST(Compression, ResidentMemoryReallyFalls) {
  SessionOptions options;
  options.kv = latent(512, 16, 256);
  options.key_type = options.value_type = DType::kF32;  // 64 MiB, like 16k tokens in bf16, at a quarter of the time
  const auto session = open_session(one_thread_engine(), options);
  ASSERT_TRUE(session->prefill(random_tokens(8192, 8192)).ok());
  feed_likeliest(*session, 15);
  const int64_t held = session->store().bytes();
  const int64_t before = current_rss_bytes();
  feed_likeliest(*session, 1);
  ASSERT_EQ(session->stats().compressions, 1);
  const int64_t freed = held - session->store().bytes();
  EXPECT_GT(freed, held * 9 / 10);
  EXPECT_LT(current_rss_bytes(), before - freed * 8 / 10);
}

}  // namespace
}  // namespace ei
