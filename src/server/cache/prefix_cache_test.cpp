#include "server/cache/prefix_cache.h"

#include <gtest/gtest.h>

#include "support/embedded_engine.h"

namespace ei::server {
namespace {

HeldText held(const std::vector<int32_t>& tokens, const std::string& space = "") {
  const auto session = open_session(embedded_engine(), {});
  EXPECT_TRUE(session->prefill(tokens).ok());
  auto store = session->store().fork();
  EXPECT_TRUE(store.ok());
  return {.tokens = tokens, .store = std::move(*store), .space = space};
}

TEST(PrefixCache, FindsTheLongestPrefixOfItsSpace) {
  PrefixCache cache(int64_t{1} << 40);
  cache.put(held({1, 2, 3, 4}));
  cache.put(held({1, 2, 9}));
  cache.put(held({1, 2, 3, 4, 5, 6}, "sparse"));
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(cache.find(prompt, "")->tokens, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(cache.find(prompt, "sparse")->tokens.size(), 6u);
  EXPECT_EQ(cache.find(prompt, "other"), nullptr);
  EXPECT_EQ(cache.find(std::vector<int32_t>{7, 1, 2}, ""), nullptr);
}

TEST(PrefixCache, ALongerTextTakesThePlaceOfItsBeginningUnlessASlotHoldsThat) {
  PrefixCache cache(int64_t{1} << 40);
  cache.put(held({1, 2, 3}));
  cache.put(held({1, 2, 3, 4}));
  EXPECT_EQ(cache.size(), 1u);
  const auto kept = cache.put(held({5, 6}));
  cache.put(held({5, 6, 7}));
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_TRUE(cache.has(kept));
  cache.remove(kept);
  EXPECT_FALSE(cache.has(kept));
}

TEST(PrefixCache, GivesUpWhatWasNotUsedLongest) {
  const int64_t one = held({1, 2}).store.bytes();
  PrefixCache cache(2 * one);
  cache.put(held({1, 2}));
  cache.put(held({3, 4}));
  EXPECT_NE(cache.find(std::vector<int32_t>{1, 2, 3}, ""), nullptr);
  cache.put(held({5, 6}));
  EXPECT_LE(cache.bytes(), 2 * one);
  EXPECT_NE(cache.find(std::vector<int32_t>{1, 2, 3}, ""), nullptr);
  EXPECT_EQ(cache.find(std::vector<int32_t>{3, 4, 5}, ""), nullptr);
  EXPECT_TRUE(cache.drop_oldest());
  EXPECT_TRUE(cache.drop_oldest());
  EXPECT_FALSE(cache.drop_oldest());
  PrefixCache none(0);
  none.put(held({1, 2}));
  EXPECT_EQ(none.size(), 0u);
}

}  // namespace
}  // namespace ei::server
