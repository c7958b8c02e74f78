#include "server/cache/token_tree.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace ei::server {
namespace {

using Tokens = std::vector<int32_t>;

TEST(TokenTree, FindsTheLongestPrefixOfItsSpace) {
  TokenTree tree;
  tree.add(1, "", Tokens{1, 2, 3, 4});
  tree.add(2, "", Tokens{1, 2, 9});
  tree.add(3, "sparse", Tokens{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tree.longest("", Tokens{1, 2, 3, 4, 5, 6}).tokens, 4);
  EXPECT_EQ(tree.longest("", Tokens{1, 2, 3, 4, 5, 6}).text, 1);
  EXPECT_EQ(tree.longest("", Tokens{1, 2, 9, 9}).text, 2);
  EXPECT_EQ(tree.longest("sparse", Tokens{1, 2, 3, 4, 5, 6}).tokens, 6);
  EXPECT_EQ(tree.longest("other", Tokens{1}).text, TokenTree::kNone);
  EXPECT_EQ(tree.longest("", Tokens{2, 1}).text, TokenTree::kNone);
  EXPECT_EQ(tree.tokens(), 5 + 6) << "the beginning that two share counts once";
}

TEST(TokenTree, AnEndingGoesBeforeTheBeginningThatIsStillAskedFor) {
  TokenTree tree;
  tree.add(1, "", Tokens{1, 2, 3, 4});
  tree.add(2, "", Tokens{7, 8});
  EXPECT_EQ(tree.use("", Tokens{1, 2, 5}).text, 1);  // two of its four tokens
  ASSERT_TRUE(tree.oldest().has_value());
  EXPECT_EQ(tree.oldest()->text, 1);
  EXPECT_EQ(tree.oldest()->keep, 2);
  tree.shorten(1);
  EXPECT_EQ(tree.longest("", Tokens{1, 2, 3, 4}).tokens, 2);
  EXPECT_EQ(tree.oldest()->text, 2);
  EXPECT_EQ(tree.oldest()->keep, 0);
  tree.remove(2);
  EXPECT_EQ(tree.oldest()->text, 1);
  tree.remove(1);
  EXPECT_FALSE(tree.oldest().has_value());
  EXPECT_EQ(tree.tokens(), 0);
}

TEST(TokenTree, NamesTheTextsThatATextBeginsWith) {
  TokenTree tree;
  tree.add(1, "", Tokens{1, 2});
  tree.add(2, "", Tokens{1, 2, 3, 4});
  tree.add(3, "", Tokens{1, 2, 3, 5});
  EXPECT_EQ(tree.beginnings("", Tokens{1, 2, 3, 4, 6}), (std::vector<TokenTree::Text>{2, 1}));
  EXPECT_EQ(tree.beginnings("", Tokens{1, 2, 3}), (std::vector<TokenTree::Text>{1}));
  EXPECT_TRUE(tree.beginnings("", Tokens{1}).empty());
}

// Against a plain list of texts, over random growing, using, cutting and dropping.
TEST(TokenTree, SaysWhatAListWouldSay) {
  Random random(11);
  TokenTree tree;
  std::map<TokenTree::Text, Tokens> list;
  const auto some = [&] {
    Tokens tokens;
    for (int64_t left = 1 + random.below(12); left > 0; --left) tokens.push_back(static_cast<int32_t>(random.below(2)));
    return tokens;
  };
  for (TokenTree::Text name = 0; name < 3000; ++name) {
    const Tokens tokens = some();
    int64_t longest = 0;
    for (const auto& [other, held] : list) longest = std::max(longest, shared_prefix(held, tokens));
    const TokenTree::Match match = name % 2 == 0 ? tree.use("", tokens) : tree.longest("", tokens);
    ASSERT_EQ(match.tokens, longest) << name;
    if (longest > 0) {
      ASSERT_EQ(shared_prefix(list.at(match.text), tokens), longest) << name;
    }
    for (const TokenTree::Text held : tree.beginnings("", tokens))
      ASSERT_EQ(shared_prefix(list.at(held), tokens), static_cast<int64_t>(list.at(held).size()));
    switch (random.below(list.size() > 20 ? 4 : 2)) {
      case 0:
      case 1:
        tree.add(name, "", tokens);
        list[name] = tokens;
        break;
      case 2: {
        const auto gone = std::next(list.begin(), random.below(static_cast<int64_t>(list.size())));
        tree.remove(gone->first);
        list.erase(gone);
        break;
      }
      default: {
        const auto ending = tree.oldest();
        ASSERT_TRUE(ending.has_value());
        if (ending->keep > 0) {
          tree.shorten(ending->text);
          list.at(ending->text).resize(static_cast<size_t>(ending->keep));
        } else {
          tree.remove(ending->text);
          list.erase(ending->text);
        }
      }
    }
    ASSERT_EQ(tree.size(), static_cast<int64_t>(list.size()));
  }
  for (const auto& [name, held] : list) tree.remove(name);
  EXPECT_EQ(tree.tokens(), 0);
}

}  // namespace
}  // namespace ei::server
