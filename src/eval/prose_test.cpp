#include "eval/prose.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <sstream>
#include <string>

#include "eval/prose_grammar.h"

namespace ei::eval {
namespace {

constexpr int kSentences = 1500;  // about 32k tokens of the embedded model

uint64_t fnv(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

std::string pages(uint64_t seed, int sentences) {
  Prose prose(seed);
  std::string text;
  for (int i = 0; i < sentences; ++i) text += prose.piece();
  return text;
}

TEST(Prose, IsTheSameOnEveryMachine) {
  const std::string text = pages(7, 200);
  EXPECT_EQ(fnv(text), 6489089796873015548ull) << text.substr(0, 300);
  EXPECT_EQ(text, pages(7, 200));
  EXPECT_NE(text, pages(8, 200));
}

TEST(Prose, HardlyRepeatsASentenceWithinThirtyTwoThousandTokens) {
  for (uint64_t seed : {1u, 2u, 3u}) {
    Prose prose(seed);
    std::set<std::string> seen;
    int repeated = 0;
    for (int i = 0; i < kSentences; ++i) repeated += seen.insert(prose.sentence()).second ? 0 : 1;
    EXPECT_LT(repeated, kSentences / 100) << "seed " << seed;
  }
}

TEST(Prose, UsesManyDifferentWords) {
  for (uint64_t seed : {1u, 2u, 3u}) {
    std::istringstream words(pages(seed, kSentences));
    std::set<std::string> different;
    int64_t total = 0;
    for (std::string word; words >> word; ++total) different.insert(word);
    EXPECT_GT(total, 20000) << "seed " << seed;
    EXPECT_GT(different.size(), 1500u) << "seed " << seed;
  }
}

TEST(Prose, SaysNothingThatATaskCouldHavePlanted) {
  for (uint64_t seed : {1u, 2u, 3u}) {
    const std::string text = pages(seed, kSentences);
    for (unsigned char c : text) ASSERT_FALSE(std::isdigit(c)) << "seed " << seed;
    for (const char* word :
         {"special magic", "VAR", "pass key", "REGISTER_CONTENT", "Remember", "not mentioned", "<", ">"})
      EXPECT_EQ(text.find(word), std::string::npos) << word << ", seed " << seed;
  }
}

TEST(Prose, FillsEverySlotAndEndsEverySentence) {
  Prose prose(11);
  for (int i = 0; i < kSentences; ++i) {
    const std::string text = prose.sentence();
    EXPECT_EQ(text.find_first_of("{}|\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("  "), std::string::npos) << text;
    const char first = text[0] == '"' ? text[1] : text[0];
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(first))) << text;
    const std::string end = text.substr(text.find_last_not_of('"'), 1);
    EXPECT_NE(std::string(".?!").find(end), std::string::npos) << text;
  }
}

TEST(Prose, ComesInParagraphs) {
  Prose whole(5);
  Prose parts(5);
  std::string text = whole.paragraph();
  for (int i = 0; i < 30; ++i) {
    const std::string next = whole.paragraph();
    EXPECT_EQ(next.find('\n'), std::string::npos);
    text += "\n\n" + next;
  }
  std::string pieces;
  while (pieces.size() < text.size()) pieces += parts.piece();
  EXPECT_EQ(pieces, text);
}

TEST(ProseGrammar, NamesOnlyRulesThatExist) {
  std::set<std::string_view> names = {"A", "B", "P", "Q", "he", "his"};
  for (auto table : {prose_lexicon(), prose_clauses(), prose_scenes()})
    for (const ProseRule& rule : table) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
  for (auto table : {prose_lexicon(), prose_clauses(), prose_scenes()}) {
    for (const ProseRule& rule : table) {
      std::string_view text = rule.options;
      for (size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{')) {
        std::string_view slot = text.substr(open + 1, text.find('}') - open - 1);
        if (slot.starts_with("a:")) slot.remove_prefix(2);
        EXPECT_EQ(names.count(slot), 1u) << slot << " in " << rule.name;
        text.remove_prefix(text.find('}') + 1);
      }
    }
  }
}

}  // namespace
}  // namespace ei::eval
