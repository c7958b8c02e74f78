// The steps against libllama's own, and what each is for.
#include "text/sampler_chain.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "support/test_model.h"
#include "text/sampler.h"

namespace ei::text {
namespace {

std::vector<float> some_logits(Random& random) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()));
  for (float& logit : logits) logit = 3.0f * random.normal();
  return logits;
}

std::vector<Token> draws_of(const SamplerOptions& options, int count) {
  auto sampler = Sampler::create(test_tokenizer(), options);
  EXPECT_TRUE(sampler.ok()) << (sampler.ok() ? "" : sampler.error().message);
  Random random(5);
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((*sampler)->sample(some_logits(random)));
  return tokens;
}

// By hand: a chain of libllama over the same logits.
std::vector<Token> libllamas_draws(const std::vector<llama_sampler*>& steps, int count) {
  const SamplerPtr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  for (llama_sampler* step : steps) llama_sampler_chain_add(chain.get(), step);
  Random random(5);
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) {
    const std::vector<float> logits = some_logits(random);
    std::vector<llama_token_data> candidates;
    for (size_t id = 0; id < logits.size(); ++id)
      candidates.push_back({static_cast<llama_token>(id), logits[id], 0.0f});
    // What our sampler never picks.
    for (const Token token : test_tokenizer().suppressed())
      candidates[static_cast<size_t>(token)].logit = -std::numeric_limits<float>::infinity();
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(chain.get(), &array);
    tokens.push_back(array.data[array.selected].id);
    llama_sampler_accept(chain.get(), tokens.back());
  }
  return tokens;
}

TEST(SamplerChain, DrawsWhatLibllamasChainDoes) {
  const SamplerOptions options{.seed = 11,
                               .temp = 0.9f,
                               .top_k = 30,
                               .top_p = 0.9f,
                               .min_p = 0.02f,
                               .typical_p = 0.95f,
                               .top_n_sigma = 3.0f,
                               .xtc_probability = 0.5f,
                               .xtc_threshold = 0.05f,
                               .dynatemp_range = 0.3f,
                               .dynatemp_exponent = 1.2f};
  const auto theirs = [] {
    return std::vector<llama_sampler*>{llama_sampler_init_top_n_sigma(3.0f),
                                       llama_sampler_init_top_k(30),
                                       llama_sampler_init_typical(0.95f, 1),
                                       llama_sampler_init_top_p(0.9f, 1),
                                       llama_sampler_init_min_p(0.02f, 1),
                                       llama_sampler_init_xtc(0.5f, 0.05f, 1, 11),
                                       llama_sampler_init_temp_ext(0.9f, 0.3f, 1.2f),
                                       llama_sampler_init_dist(11)};
  };
  EXPECT_EQ(draws_of(options, 60), libllamas_draws(theirs(), 60));
  SamplerOptions other = options;
  other.xtc_probability = 0;
  EXPECT_NE(draws_of(other, 60), draws_of(options, 60));
}

TEST(SamplerChain, KeepsAsManyAsItIsToldTo) {
  SamplerOptions options{.seed = 11,
                         .temp = 0.9f,
                         .top_k = 0,
                         .top_p = 0.01f,
                         .min_p = 0.99f,
                         .typical_p = 0.01f,
                         .min_keep = 5,
                         .xtc_probability = 1.0f,
                         .xtc_threshold = 0.001f};
  const std::vector<llama_sampler*> theirs = {llama_sampler_init_typical(0.01f, 5),
                                              llama_sampler_init_top_p(0.01f, 5),
                                              llama_sampler_init_min_p(0.99f, 5),
                                              llama_sampler_init_xtc(1.0f, 0.001f, 5, 11),
                                              llama_sampler_init_temp_ext(0.9f, 0.0f, 1.0f),
                                              llama_sampler_init_dist(11)};
  const std::vector<Token> drawn = draws_of(options, 60);
  EXPECT_EQ(drawn, libllamas_draws(theirs, 60));
  options.min_keep = 0;
  const std::vector<Token> narrow = draws_of(options, 60);
  EXPECT_NE(narrow, drawn);
  options.min_keep = 1;
  EXPECT_EQ(draws_of(options, 60), narrow) << "there is always one";
  options.min_keep = -1;
  EXPECT_FALSE(Sampler::create(test_tokenizer(), options).ok());
}

TEST(SamplerChain, MirostatStandsAlone) {
  SamplerOptions options{.seed = 3, .temp = 0.7f, .top_k = 1, .mirostat = 2, .mirostat_tau = 4.0f};
  EXPECT_EQ(draws_of(options, 40),
            libllamas_draws({llama_sampler_init_temp(0.7f), llama_sampler_init_mirostat_v2(3, 4.0f, 0.1f)}, 40));
  options.mirostat = 1;
  EXPECT_EQ(draws_of(options, 40),
            libllamas_draws({llama_sampler_init_temp(0.7f),
                             llama_sampler_init_mirostat(test_tokenizer().vocab_size(), 3, 4.0f, 0.1f, 100)},
                            40));
}

TEST(SamplerChain, TheOrderIsTheUsers) {
  SamplerOptions options{.seed = 3, .temp = 5.0f, .top_k = 0, .top_p = 0.5f, .min_p = 0};
  options.steps = {SamplerStep::kTemperature, SamplerStep::kTopP};
  EXPECT_EQ(draws_of(options, 40),
            libllamas_draws(
                {llama_sampler_init_temp(5.0f), llama_sampler_init_top_p(0.5f, 1), llama_sampler_init_dist(3)}, 40));
  const std::vector<Token> hot = draws_of(options, 40);
  options.steps = {SamplerStep::kTopP, SamplerStep::kTemperature};
  EXPECT_NE(draws_of(options, 40), hot);
}

TEST(SamplerChain, NamesAreLlamaCpps) {
  EXPECT_EQ(*parse_sampler_steps(sampler_step_names()), default_sampler_steps());
  EXPECT_EQ(*parse_sampler_steps("min-p;temperature"),
            (std::vector<SamplerStep>{SamplerStep::kMinP, SamplerStep::kTemperature}));
  EXPECT_TRUE(parse_sampler_steps("")->empty());
  for (const SamplerStep step : default_sampler_steps())
    EXPECT_EQ(parse_sampler_steps(sampler_step_name(step))->front(), step);
  const auto unknown = parse_sampler_steps("top_k;magic");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("'magic'"), std::string::npos);
}

TEST(SamplerChain, BiasesComeFirst) {
  SamplerOptions options{.temp = 0};
  options.logit_bias = {{42, 100.0f}};
  EXPECT_EQ(draws_of(options, 3), (std::vector<Token>{42, 42, 42}));
  options.logit_bias = {{42, 100.0f}, {42, -std::numeric_limits<float>::infinity()}};
  for (const Token token : draws_of(options, 20)) EXPECT_NE(token, 42);
  options.logit_bias = {{test_tokenizer().vocab_size(), 1.0f}};
  EXPECT_TRUE(Sampler::create(test_tokenizer(), options).ok()) << "passed over, as llama.cpp does";
  options.logit_bias = {{1, std::nanf("")}};
  EXPECT_FALSE(Sampler::create(test_tokenizer(), options).ok());
}

TEST(SamplerChain, DryPutsDownWhatWouldRepeatASequence) {
  std::vector<float> logits(static_cast<size_t>(test_tokenizer().vocab_size()), 0.0f);
  logits[53] = 5;
  logits[77] = 4;
  const std::vector<Token> prompt = {50, 51, 52, 53, 90, 50, 51, 52};  // 53 would be the fourth again
  for (const float multiplier : {0.0f, 2.0f}) {
    const auto sampler = Sampler::create(test_tokenizer(), {.temp = 0, .dry_multiplier = multiplier});
    ASSERT_TRUE(sampler.ok());
    (*sampler)->accept(prompt);
    EXPECT_EQ((*sampler)->sample(logits), multiplier > 0 ? 77 : 53);
  }
}

}  // namespace
}  // namespace ei::text
