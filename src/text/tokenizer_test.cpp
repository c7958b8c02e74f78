#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <string>
#include <thread>

#include "base/random.h"
#include "support/test_model.h"

namespace ei::text {
namespace {

std::vector<Token> libllama_tokens(const std::string& text, bool add_special, bool parse_special) {
  const auto* vocab = static_cast<const llama_vocab*>(test_tokenizer().raw());
  std::vector<Token> tokens(text.size() + 8);
  const int32_t count = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                       static_cast<int32_t>(tokens.size()), add_special, parse_special);
  EXPECT_GE(count, 0);
  tokens.resize(static_cast<size_t>(std::max(count, 0)));
  return tokens;
}

void append_code_point(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
  } else if (c < 0x10000) {
    text += {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
             static_cast<char>(0x80 | (c & 63))};
  } else {
    text += {static_cast<char>(0xF0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 63)),
             static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
  }
}

std::string random_text(Random& random) {
  static constexpr const char* kPieces[] = {"the ",  "Zürich", " 12345",   "\n\n", "\t", "   ",        "<|im_start|>",
                                            "don't", "日本語", "🦊🏽", "\r\n", "<|", "<|im_end|>", "0.1e-9"};
  std::string text;
  for (int64_t i = random.between(0, 20); i > 0; --i) {
    if (random.below(3) == 0) {
      uint32_t c = static_cast<uint32_t>(random.between(1, 0x10FFFF));
      if (c >= 0xD800 && c < 0xE000) c = 'x';
      append_code_point(text, c);
    } else {
      text += kPieces[random.below(std::size(kPieces))];
    }
  }
  return text;
}

TEST(Tokenizer, GivesLibllamasTokensForRandomText) {
  const Tokenizer& tokenizer = test_tokenizer();
  const uint64_t seed = 20260101;
  Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random);
    const bool add = random.below(2) == 1;
    const bool special = random.below(2) == 1;
    const auto tokens = tokenizer.tokenize(text, {.add_bos_eos = add, .parse_special = special});
    ASSERT_TRUE(tokens.ok()) << tokens.error().message << " seed " << seed << " round " << round;
    ASSERT_EQ(*tokens, libllama_tokens(text, add, special)) << "seed " << seed << " round " << round << ": " << text;
    ASSERT_EQ(tokenizer.detokenize(*tokens, /*special=*/true),
              (add && tokenizer.adds_bos() ? tokenizer.piece(tokenizer.bos(), true) : "") + text +
                  (add && tokenizer.adds_eos() ? tokenizer.piece(tokenizer.eos(), true) : ""))
        << "seed " << seed << " round " << round;
  }
}

TEST(Tokenizer, LeavesSpecialLookingTextPlainUnlessAsked) {
  const Tokenizer& tokenizer = test_tokenizer();
  const std::string text = "a<|im_start|>b<|im_end|>";
  const auto plain = tokenizer.tokenize(text, {.parse_special = false});
  ASSERT_TRUE(plain.ok());
  for (const Token token : *plain) EXPECT_FALSE(tokenizer.is_control(token));
  const auto parsed = tokenizer.tokenize(text, {.parse_special = true});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(std::count_if(parsed->begin(), parsed->end(), [&](Token t) { return tokenizer.is_control(t); }), 2);
  EXPECT_TRUE(tokenizer.is_end_of_generation(parsed->back()));
  EXPECT_EQ(tokenizer.piece(parsed->back(), /*special=*/false), "");
  EXPECT_EQ(tokenizer.piece(parsed->back(), /*special=*/true), "<|im_end|>");
}

TEST(Tokenizer, NamesTheOffsetOfBadUtf8) {
  for (const auto& [text, offset] : std::vector<std::pair<std::string, size_t>>{
           {"abc\xFFxyz", 3}, {"\xC0\xAF", 0}, {"ok \xED\xA0\x80", 3}, {"é\xE2\x82", 2}, {"\xF4\x90\x80\x80", 0}}) {
    const auto tokens = test_tokenizer().tokenize(text, {});
    ASSERT_FALSE(tokens.ok());
    EXPECT_EQ(tokens.error().kind, ErrorKind::kUsage);
    EXPECT_NE(tokens.error().message.find("offset " + std::to_string(offset)), std::string::npos)
        << tokens.error().message;
  }
}

TEST(Tokenizer, GivesNothingForIdsOutsideTheVocabulary) {
  const Tokenizer& tokenizer = test_tokenizer();
  for (const Token token : {-1, tokenizer.vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer.piece(token, true), "");
    EXPECT_FALSE(tokenizer.is_control(token));
    EXPECT_FALSE(tokenizer.is_end_of_generation(token));
    EXPECT_EQ(tokenizer.detokenize(std::vector<Token>{token}, true), "");
  }
}

TEST(Tokenizer, FindsEveryControlSpelling) {
  const auto found = test_tokenizer().find_control_text("x<|im_start|>y<|im_end|");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].begin, 1u);
  EXPECT_EQ(found[0].end, 13u);
}

TEST(Tokenizer, HandlesLongRunsWithoutSpaces) {
  const Tokenizer& tokenizer = test_tokenizer();
  for (const char* unit : {"a", "7", "é", " ", "\n", "#"}) {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += unit;
    const auto tokens = tokenizer.tokenize(text, {});
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(tokenizer.detokenize(*tokens, true), text);
  }
}

TEST(Tokenizer, ServesManyThreads) {
  const Tokenizer& tokenizer = test_tokenizer();
  const std::string text = "One tokenizer, many readers: 日本語 12345.";
  const auto expected = tokenizer.tokenize(text, {});
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) equal[t] += *tokenizer.tokenize(text, {}) == *expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 50));
}

TEST(Tokenizer, RefusesAFileThatIsNoModel) {
  const auto loaded = Tokenizer::load(EI_SOURCE_DIR "/no-such-file.gguf");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kModel);
}

}  // namespace
}  // namespace ei::text
