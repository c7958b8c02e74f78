// What does not fit is refused before anything is allocated, with what it would need.
#include "engine/fits.h"

#include <gtest/gtest.h>

#include "support/embedded_engine.h"

namespace ei {
namespace {

TEST(Fits, APromptMayFillTheContextAndNotMore) {
  SessionOptions options;
  options.context = 100;
  const std::unique_ptr<Session> session = open_session(embedded_engine(), options);
  EXPECT_TRUE(check_prompt_fits(*session, 100).ok());
  const Status longer = check_prompt_fits(*session, 101);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().kind, ErrorKind::kUsage);
  EXPECT_NE(longer.error().message.find("101 > 100 tokens; raise --ctx-size"), std::string::npos);
  const int64_t trained = embedded_engine().config().context;
  EXPECT_NE(check_prompt_fits(*session, trained + 1).error().message.find("was trained for"), std::string::npos);
  EXPECT_FALSE(beyond_training(embedded_engine(), trained));
  EXPECT_TRUE(beyond_training(embedded_engine(), trained + 1));
}

TEST(Fits, ACacheThatIsLargerThanTheMemoryIsRefused) {
  SessionOptions options;
  options.context = int64_t{1} << 40;
  const std::unique_ptr<Session> session = open_session(embedded_engine(), options);
  EXPECT_TRUE(check_cache_fits(*session, 1000).ok());
  const Status refused = check_cache_fits(*session, int64_t{1} << 36);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory);
  EXPECT_EQ(session->store().bytes(), 0) << "nothing was allocated";
}

}  // namespace
}  // namespace ei
