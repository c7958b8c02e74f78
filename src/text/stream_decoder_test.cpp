#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "support/test_model.h"

namespace ei::text {
namespace {

// A byte-level vocabulary has a token for (nearly) every single byte.
Token byte_token(char byte) {
  const Tokenizer& tokenizer = test_tokenizer();
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.piece(token, false) == std::string(1, byte)) return token;
  }
  return kNoToken;
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsWhole) {
  StreamDecoder decoder(test_tokenizer());
  const std::string fox = "🦊";
  for (size_t i = 0; i + 1 < fox.size(); ++i) {
    const Token token = byte_token(fox[i]);
    ASSERT_NE(token, kNoToken);
    EXPECT_EQ(decoder.push(token), "");
  }
  EXPECT_EQ(decoder.push(byte_token(fox.back())), fox);
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ReplacesWhatIsNoCharacter) {
  StreamDecoder decoder(test_tokenizer());
  EXPECT_EQ(decoder.push(byte_token('\xE2')), "");
  EXPECT_EQ(decoder.push(byte_token('a')),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(decoder.push(byte_token('\x80')), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.push(byte_token('\xF0')), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.push(byte_token('b')), "b");
}

TEST(StreamDecoder, GivesControlTokensNoText) {
  StreamDecoder decoder(test_tokenizer());
  EXPECT_EQ(decoder.push(test_tokenizer().eos()), "");
  EXPECT_EQ(decoder.push(-5), "");
}

TEST(StreamDecoder, StreamsAnyTokensAsValidUtf8AndLosesNoText) {
  const Tokenizer& tokenizer = test_tokenizer();
  const uint64_t seed = 77;
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    std::string bytes;
    for (int i = 0; i < 60; ++i) {
      const auto token = static_cast<Token>(random.below(tokenizer.vocab_size()));
      const std::string chunk = decoder.push(token);
      ASSERT_TRUE(valid_utf8(chunk)) << "seed " << seed << " round " << round;
      streamed += chunk;
      bytes += tokenizer.piece(token, false);
    }
    streamed += decoder.finish();
    std::string whole = take_complete_utf8(bytes);
    if (!bytes.empty()) whole += kReplacement;
    ASSERT_EQ(streamed, whole) << "seed " << seed << " round " << round;
  }
}

TEST(StreamDecoder, RoundTripsRealTextTokenByToken) {
  const Tokenizer& tokenizer = test_tokenizer();
  const std::string text = "Ünïcode 日本語 👩‍👩‍👧‍👦 e\xCC\x81 \xF0\x9D\x84\x9E and plain words.";
  const auto tokens = tokenizer.tokenize(text, {});
  ASSERT_TRUE(tokens.ok());
  StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const Token token : *tokens) streamed += decoder.push(token);
  EXPECT_EQ(streamed + decoder.finish(), text);
}

}  // namespace
}  // namespace ei::text
