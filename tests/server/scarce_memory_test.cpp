// What is held stays whole, whichever allocation fails while something is added to it.
#include <gtest/gtest.h>

#include "server/allocations.h"
#include "server/cache/prefix_cache.h"
#include "support/embedded_engine.h"

#ifndef EI_SANITIZED
namespace ei::server {
namespace {

std::vector<int32_t> some_tokens(int64_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(5 + (i * 37 + seed * 101) % 300));
  return tokens;
}

HeldText held(const std::vector<int32_t>& tokens) {
  const auto session = open_session(embedded_engine(), {});
  EXPECT_TRUE(session->prefill(tokens).ok());
  auto store = session->store().fork();
  EXPECT_TRUE(store.ok());
  return {.tokens = tokens, .store = std::move(*store)};
}

HeldText copy_of(const HeldText& text) {
  auto store = text.store.fork();
  EXPECT_TRUE(store.ok());
  return {.tokens = text.tokens, .store = std::move(*store)};
}

// A fork in the middle of an edge, a text that goes on behind another one, and one that is there already.
TEST(ServerScarceMemory, TheTreeHasAllOfATextOrNothing) {
  const std::vector<int32_t> first = some_tokens(40, 1);
  std::vector<int32_t> forks(first.begin(), first.begin() + 20);
  forks.push_back(4);
  std::vector<int32_t> longer = first;
  longer.push_back(4);
  for (const std::vector<int32_t>& text : {some_tokens(30, 2), forks, longer, first}) {
    TokenTree tree;
    tree.add(1, "", first);
    const int64_t tokens = tree.tokens();
    const int failed = fail_every_allocation([&] { tree.add(2, "", text); },
                                             [&] {
                                               EXPECT_EQ(tree.size(), 1);
                                               EXPECT_EQ(tree.tokens(), tokens);
                                               const TokenTree::Match match = tree.longest("", first);
                                               EXPECT_EQ(match.tokens, 40);
                                               EXPECT_EQ(match.text, 1);
                                             });
    EXPECT_GT(failed, 0);
    EXPECT_EQ(tree.longest("", text).tokens, static_cast<int64_t>(text.size()));
    tree.remove(1);
    EXPECT_EQ(tree.longest("", text).text, 2);
    tree.remove(2);
    EXPECT_EQ(tree.tokens(), 0);
    EXPECT_FALSE(tree.oldest().has_value());
  }
}

TEST(ServerScarceMemory, TheCacheHoldsATextOrHasNothingOfIt) {
  PrefixCache cache(int64_t{1} << 40);
  const HeldText first = held(some_tokens(300, 1));
  HeldText second = held(some_tokens(300, 2));
  cache.put(copy_of(first));
  const int64_t bytes = cache.bytes();
  HeldText taken = copy_of(second);
  const int failed = fail_every_allocation([&] { cache.put(std::move(taken)); },
                                           [&] {
                                             taken = copy_of(second);
                                             EXPECT_EQ(cache.size(), 1u);
                                             EXPECT_EQ(cache.bytes(), bytes);
                                             EXPECT_EQ(cache.tokens(), 300);
                                             EXPECT_EQ(cache.longest(second.tokens, ""), 0);
                                             EXPECT_EQ(cache.longest(first.tokens, ""), 300);
                                           });
  EXPECT_GE(failed, 3) << "the tree, the pages and the texts take memory each";
  EXPECT_EQ(cache.longest(second.tokens, ""), 300);
  while (cache.drop_oldest()) {
  }
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(cache.tokens(), 0);
}

// Where there is no memory to cut it, the whole text goes.
TEST(ServerScarceMemory, WhatHasToGoGoes) {
  const HeldText text = held(some_tokens(300, 1));
  std::vector<int32_t> prompt(text.tokens.begin(), text.tokens.begin() + 100);
  prompt.push_back(4);
  int cut = 0;
  for (int allowed = 0; allowed < 1000 && cut == 0; ++allowed) {
    PrefixCache cache(int64_t{1} << 40);
    cache.put(copy_of(text));
    EXPECT_NE(cache.find(prompt, ""), nullptr);
    allocations_left = allowed;
    const bool dropped = cache.drop_oldest();
    allocations_left = -1;
    EXPECT_TRUE(dropped);
    cut = cache.size() == 1 ? 1 : 0;
    EXPECT_EQ(cache.longest(text.tokens, ""), cut == 1 ? 100 : 0) << allowed;
    while (cache.drop_oldest()) {
    }
    EXPECT_EQ(cache.bytes(), 0) << allowed;
  }
  EXPECT_EQ(cut, 1);
}

}  // namespace
}  // namespace ei::server
#endif
