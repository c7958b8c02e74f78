// The letters of multiple choice as tokens: in vocabularies that put spaces in front, and in those that do not.
#include "eval/items/choices.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "support/embedded_engine.h"
#include "support/small_model.h"

namespace ei::eval {
namespace {

Item four_choices(const std::string& lead) {
  Item item;
  item.lead = lead;
  item.choices = {"A", "B", "C", "D"};
  return item;
}

constexpr const char* kLead = "The correct answer is (";

// They differ, each spells its letter and nothing else, and behind the lead's tokens they spell the whole.
void expect_letters(const text::Tokenizer& tokenizer) {
  const Item item = four_choices(kLead);
  const auto tokens = choice_tokens(item, tokenizer);
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  EXPECT_EQ(std::set<text::Token>(tokens->begin(), tokens->end()).size(), item.choices.size());
  const auto lead = tokenizer.tokenize(kLead, {});
  ASSERT_TRUE(lead.ok());
  for (size_t i = 0; i < item.choices.size(); ++i) {
    EXPECT_EQ(tokenizer.piece((*tokens)[i], false), item.choices[i]);
    std::vector<text::Token> whole = *lead;
    whole.push_back((*tokens)[i]);
    const std::string text = tokenizer.detokenize(whole, false);
    EXPECT_TRUE(text.ends_with("is (" + item.choices[i])) << text;
  }
}

std::unique_ptr<text::Tokenizer> load(const std::string& path) {
  auto tokenizer = text::Tokenizer::load(path);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

class SmallVocabulary : public testing::TestWithParam<gguf::VocabularyKind> {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("ei_choices_" + std::to_string(::getpid()) + ".gguf");
    std::ofstream(path_, std::ios::binary) << gguf::small_model(GetParam());
    tokenizer_ = load(path_.string());
    ASSERT_NE(tokenizer_, nullptr);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
};

INSTANTIATE_TEST_SUITE_P(EveryKind, SmallVocabulary,
                         testing::Values(gguf::VocabularyKind::kByteLevel, gguf::VocabularyKind::kSentencePiece));

TEST_P(SmallVocabulary, HasTheLettersWithoutASpace) { expect_letters(*tokenizer_); }

TEST_P(SmallVocabulary, HasThemBehindALeadThatJoinsThemToo) {
  // "th" and "the" are tokens: behind "t" the text "th" is one token, but the letter is "h".
  Item item;
  item.lead = "t";
  item.choices = {"h"};
  const auto tokens = choice_tokens(item, *tokenizer_);
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  EXPECT_EQ(tokenizer_->piece(tokens->at(0), false), "h");
  item.lead = "";
  const auto alone = choice_tokens(item, *tokenizer_);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(*alone, *tokens);
}

TEST_P(SmallVocabulary, WithoutALetterIsNamed) {
  Item item;
  item.choices = {"the mill, perhaps"};
  const auto tokens = choice_tokens(item, *tokenizer_);
  ASSERT_FALSE(tokens.ok());
  EXPECT_NE(tokens.error().message.find("no token of the vocabulary spells 'the mill, perhaps'"), std::string::npos);
}

// Why the letter alone does not do: its first token is that of a space, the same for all of them.
TEST(SentencePieces, BeginALetterWithASpace) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ei_letters_" + std::to_string(::getpid()));
  std::ofstream(path, std::ios::binary) << gguf::small_model(gguf::VocabularyKind::kSentencePiece);
  const auto tokenizer = load(path.string());
  std::filesystem::remove(path);
  ASSERT_NE(tokenizer, nullptr);
  const auto a = tokenizer->tokenize("A", {});
  const auto b = tokenizer->tokenize("B", {});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->front(), b->front());
  const auto tokens = choice_tokens(four_choices(kLead), *tokenizer);
  ASSERT_TRUE(tokens.ok());
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ((*tokens)[i], static_cast<text::Token>(gguf::small::kNamedPieces + 'A' + i)) << "the byte's token";
  // Where there is a byte and a letter it is the letter: "\xE2\x96\x81", "t", "h" follow the bytes.
  Item joined;
  joined.lead = "t";
  joined.choices = {"h"};
  EXPECT_EQ(choice_tokens(joined, *tokenizer)->at(0),
            static_cast<text::Token>(gguf::small::kNamedPieces + gguf::small::kBytePieces + 2));
}

TEST(EmbeddedVocabulary, HasTheLettersWithoutASpace) { expect_letters(embedded_engine().tokenizer()); }

TEST(DownloadedVocabularies, HaveTheLettersWithoutASpace) {
  const char* given = std::getenv("EI_MODELS_DIR");
  const std::filesystem::path folder = given != nullptr ? given : EI_SOURCE_DIR "/models";
  int seen = 0;
  for (const char* name : {"SmolLM2-135M-Instruct-Q4_1.gguf", "gemma-3-270m-Q4_K_M.gguf", "stories260K.gguf"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    SCOPED_TRACE(name);
    const auto tokenizer = load((folder / name).string());
    ASSERT_NE(tokenizer, nullptr);
    expect_letters(*tokenizer);
    ++seen;
  }
  if (seen == 0) GTEST_SKIP() << "no downloaded model in " << folder;
}

}  // namespace
}  // namespace ei::eval
