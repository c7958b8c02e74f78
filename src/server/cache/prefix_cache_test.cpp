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

TEST(PrefixCache, PagesThatTextsShareCountOnce) {
  PrefixCache cache(int64_t{1} << 40);
  std::vector<int32_t> tokens(512);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 300 + 5);
  cache.put(held(tokens));
  const int64_t one = cache.bytes();
  auto fork = cache.find(tokens, "")->store.fork();
  ASSERT_TRUE(fork.ok() && fork->truncate(384).ok());
  const auto session = open_session(embedded_engine(), {});
  std::vector<int32_t> other(tokens.begin(), tokens.begin() + 384);
  ASSERT_TRUE(session->adopt(std::move(*fork), other).ok());
  other.push_back(7);
  ASSERT_TRUE(session->prefill(std::vector<int32_t>{7}).ok());
  auto store = session->store().fork();
  ASSERT_TRUE(store.ok());
  cache.put({.tokens = other, .store = std::move(*store)});
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.bytes(), one + one / 4) << "one page of four for each head";
  EXPECT_EQ(cache.tokens(), 512 + 1);
}

TEST(PrefixCache, TheEndOfATextGoesBeforeABeginningThatIsAskedFor) {
  std::vector<int32_t> tokens(512);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 300 + 5);
  const int64_t page = held({1}).store.bytes();  // of every head
  std::vector<int64_t> spilled;
  PrefixCache cache(4 * page,
                    [&](const HeldText& text) { spilled.push_back(static_cast<int64_t>(text.tokens.size())); });
  const auto text = cache.put(held(tokens));
  std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + 200);
  prompt.push_back(4);
  EXPECT_NE(cache.find(prompt, ""), nullptr);
  cache.put(held({1, 2}));
  EXPECT_EQ(spilled, (std::vector<int64_t>{512}));
  EXPECT_EQ(cache.longest(tokens, ""), 200);
  EXPECT_EQ(text->tokens.size(), 200u);
  EXPECT_EQ(text->store.next_position(), 200);
  EXPECT_EQ(cache.bytes(), 3 * page);
}

}  // namespace
}  // namespace ei::server
