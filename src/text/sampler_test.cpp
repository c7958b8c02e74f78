#include "text/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "base/random.h"
#include "support/test_model.h"

namespace ei::text {
namespace {

std::vector<float> random_logits(Random& random) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()));
  for (float& logit : logits) logit = 3.0f * random.normal();
  return logits;
}

std::unique_ptr<Sampler> make(const SamplerOptions& options) {
  auto sampler = Sampler::create(test_tokenizer(), options);
  EXPECT_TRUE(sampler.ok()) << (sampler.ok() ? "" : sampler.error().message);
  return sampler.ok() ? std::move(sampler).value() : nullptr;
}

std::string refusal(const SamplerOptions& options) {
  const auto sampler = Sampler::create(test_tokenizer(), options);
  if (sampler.ok()) return "";
  EXPECT_EQ(sampler.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(sampler.error().message.find('\n'), std::string::npos);
  return sampler.error().message;
}

std::vector<Token> draw(Sampler& sampler, int count, uint64_t seed) {
  Random random(seed);
  std::vector<Token> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens.push_back(sampler.sample(random_logits(random)));
  return tokens;
}

// Generates text under a grammar from random logits; ends at the end-of-generation token.
std::string generate(const SamplerOptions& options, int max_tokens = 200) {
  const auto sampler = make(options);
  if (!sampler) return "";
  Random random(options.seed);
  std::string text;
  for (int i = 0; i < max_tokens; ++i) {
    const Token token = sampler->sample(random_logits(random));
    EXPECT_TRUE(sampler->status().ok()) << sampler->status().error().message;
    if (test_tokenizer().is_end_of_generation(token)) break;
    text += test_tokenizer().piece(token, false);
  }
  return text;
}

TEST(Sampler, RepeatsItselfWithTheSameSeed) {
  const auto a = make({.seed = 7});
  const auto b = make({.seed = 7});
  const auto c = make({.seed = 8});
  const std::vector<Token> first = draw(*a, 100, 1);
  EXPECT_EQ(first, draw(*b, 100, 1));
  EXPECT_NE(first, draw(*c, 100, 1));
  a->reset();
  EXPECT_EQ(first, draw(*a, 100, 1));
  EXPECT_EQ(a->seed(), 7u);
}

TEST(Sampler, TellsWhichRandomSeedItDrew) {
  const auto a = make({});
  EXPECT_NE(a->seed(), kRandomSeed);
  const auto b = make({.seed = a->seed()});
  EXPECT_EQ(draw(*a, 50, 3), draw(*b, 50, 3));
}

TEST(Sampler, TakesTheHighestLogitAtTemperatureZero) {
  for (const float temp : {0.0f, -1.0f}) {
    const auto sampler = make({.temp = temp});
    std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), -1.0f);
    logits[40] = logits[17] = logits[900] = 5.0f;
    EXPECT_EQ(sampler->sample(logits), 17);
    logits[3] = std::numeric_limits<float>::quiet_NaN();
    logits[5] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(sampler->sample(logits), 5);
    EXPECT_TRUE(sampler->status().ok());
  }
}

TEST(Sampler, IsGreedyWithTopKOneAndWithTinyTopP) {
  for (const SamplerOptions& options :
       {SamplerOptions{.seed = 1, .temp = 5.0f, .top_k = 1},
        SamplerOptions{.seed = 1, .temp = 5.0f, .top_k = 0, .top_p = 0.0f, .min_p = 0.0f},
        SamplerOptions{.seed = 1, .temp = 5.0f, .top_k = 0, .top_p = 1.0f, .min_p = 1.0f}}) {
    const auto sampler = make(options);
    Random random(11);
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> logits = random_logits(random);
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      EXPECT_EQ(sampler->sample(logits), best);
    }
  }
}

TEST(Sampler, AddsBiasesToTheLogits) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  logits[10] = 5.0f;
  logits[20] = 3.0f;
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(make({.temp = 0.0f, .logit_bias = {{10, never}}})->sample(logits), 20);
  EXPECT_EQ(make({.temp = 0.0f, .logit_bias = {{20, 2.5f}}})->sample(logits), 20);
  EXPECT_EQ(make({.temp = 0.0f, .logit_bias = {{30, 100.0f}}})->sample(logits), 30);
  EXPECT_EQ(make({.temp = 0.0f, .logit_bias = {{-1, 100.0f}, {1 << 30, 100.0f}}})->sample(logits), 10);
  const SamplerOptions bad{.logit_bias = {{1, std::numeric_limits<float>::quiet_NaN()}}};
  EXPECT_FALSE(Sampler::create(test_tokenizer(), bad).ok());
}

TEST(Sampler, KeepsToTheTopK) {
  const auto sampler = make({.seed = 3, .temp = 100.0f, .top_k = 5, .top_p = 1.0f, .min_p = 0.0f});
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  for (size_t i = 0; i < 5; ++i) logits[100 + i] = 10.0f;
  std::set<Token> seen;
  for (int i = 0; i < 300; ++i) seen.insert(sampler->sample(logits));
  EXPECT_EQ(seen, (std::set<Token>{100, 101, 102, 103, 104}));
}

TEST(Sampler, PenalisesWhatItHasSeen) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  logits[10] = 3.0f;
  logits[20] = 2.9f;
  const auto sampler = make({.temp = 0.0f, .repeat_penalty = 1.5f});
  EXPECT_EQ(sampler->sample(logits), 10);
  EXPECT_EQ(sampler->sample(logits), 20);
  const auto fed = make({.temp = 0.0f, .presence_penalty = 1.0f});
  fed->accept(std::vector<Token>{10, -3});
  EXPECT_EQ(fed->sample(logits), 20);
  const auto off = make({.temp = 0.0f, .repeat_penalty = 1.5f, .repeat_last_n = 0});
  EXPECT_EQ(off->sample(logits), 10);
  EXPECT_EQ(off->sample(logits), 10);
}

TEST(Sampler, PenalisesTheEndOfThePromptAsFarAsItLooksBack) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  logits[10] = 3.0f;
  logits[20] = 2.9f;
  std::vector<Token> prompt(64, 5);
  prompt[0] = 10;
  const auto next = [&](int last_n) {
    const auto sampler = make({.temp = 0.0f, .repeat_last_n = last_n, .presence_penalty = 1.0f});
    sampler->accept(prompt);
    return sampler->sample(logits);
  };
  EXPECT_EQ(next(64), 20);
  EXPECT_EQ(next(63), 10) << "too far back";
  EXPECT_EQ(next(-1), 20) << "as far back as possible";
  EXPECT_EQ(next(0), 10);
  // In two parts, as a chat reads what is new: the window goes over both.
  const auto parts = make({.temp = 0.0f, .repeat_last_n = 64, .presence_penalty = 1.0f});
  parts->accept(std::span(prompt).first(40));
  parts->accept(std::span(prompt).last(24));
  EXPECT_EQ(parts->sample(logits), 20);
}

TEST(Sampler, NeverEndsWhenToldNotTo) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  logits[static_cast<size_t>(test_tokenizer().eos())] = 100.0f;
  EXPECT_EQ(make({.seed = 1})->sample(logits), test_tokenizer().eos());
  const auto sampler = make({.seed = 1, .ignore_eos = true});
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(test_tokenizer().is_end_of_generation(sampler->sample(logits)));
}

TEST(Sampler, SaysSoWhenNothingIsPossible) {
  for (const float temp : {0.0f, 0.8f}) {
    const auto sampler = make({.seed = 1, .temp = temp});
    const std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()),
                                    std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(sampler->sample(logits), test_tokenizer().eos());
    EXPECT_FALSE(sampler->status().ok());
    sampler->reset();
    EXPECT_TRUE(sampler->status().ok());
  }
}

TEST(Sampler, RefusesValuesOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const SamplerOptions& options :
       {SamplerOptions{.temp = nan}, SamplerOptions{.temp = inf}, SamplerOptions{.top_k = -1},
        SamplerOptions{.top_p = nan}, SamplerOptions{.top_p = -0.1f}, SamplerOptions{.top_p = 1.1f},
        SamplerOptions{.min_p = nan}, SamplerOptions{.min_p = 2.0f}, SamplerOptions{.typical_p = -1.0f},
        SamplerOptions{.repeat_penalty = 0.0f}, SamplerOptions{.repeat_penalty = nan},
        SamplerOptions{.repeat_last_n = -2}, SamplerOptions{.repeat_last_n = 1 << 30},
        SamplerOptions{.frequency_penalty = nan}, SamplerOptions{.presence_penalty = inf},
        SamplerOptions{.grammar = "root ::= \"a\"", .json_schema = "{}"}}) {
    EXPECT_NE(refusal(options), "");
  }
}

TEST(Sampler, FollowsAGrammar) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    for (const float temp : {0.0f, 1.0f}) {
      const std::string answer = generate({.seed = seed, .temp = temp, .grammar = "root ::= \"yes\" | \"no\""});
      EXPECT_TRUE(answer == "yes" || answer == "no") << answer;
      const std::string date =
          generate({.seed = seed, .temp = temp, .grammar = "root ::= d{4} \"-\" d d \"-\" d d\nd ::= [0-9]"});
      ASSERT_EQ(date.size(), 10u) << date;
      EXPECT_EQ(date[4], '-');
    }
  }
  const auto sampler = make({.seed = 1, .temp = 0.0f, .grammar = "root ::= \"ab\""});
  const std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  for (int round = 0; round < 2; ++round) {
    std::string text;
    for (Token token; !test_tokenizer().is_end_of_generation(token = sampler->sample(logits));) {
      text += test_tokenizer().piece(token, false);
    }
    EXPECT_EQ(text, "ab");
    sampler->reset();
  }
}

TEST(Sampler, GivesUpOnAGrammarThatBranchesWithEveryToken) {
  const auto sampler =
      make({.seed = 1, .temp = 0.0f, .grammar = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\""});
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  const auto letter = test_tokenizer().tokenize("a", {});
  ASSERT_TRUE(letter.ok() && letter->size() == 1);
  logits[static_cast<size_t>(letter->front())] = 10.0f;
  int tokens = 0;
  while (sampler->status().ok() && tokens < 100) {
    sampler->sample(logits);
    ++tokens;
  }
  EXPECT_LT(tokens, 100);
  EXPECT_FALSE(sampler->status().ok());
}

TEST(Sampler, FollowsAJsonSchema) {
  const std::string schema = R"({"type":"object","properties":{"ok":{"type":"boolean"},
      "n":{"type":"integer","minimum":1,"maximum":99},"c":{"enum":["red","blue"]}},
      "required":["ok","n","c"],"additionalProperties":false})";
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const std::string text = generate({.seed = seed, .temp = 0.0f, .json_schema = schema}, 400);
    EXPECT_EQ(text.front(), '{') << text;
    EXPECT_NE(text.find("\"ok\""), std::string::npos) << text;
    EXPECT_TRUE(text.find("\"red\"") != std::string::npos || text.find("\"blue\"") != std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ei::text
