// Greedy continuations: equal to libllama's.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "parity/llama_oracle.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"
#include "parity/parity_texts.h"

namespace ei::testing {
namespace {

constexpr int kTokens = 64;

// Equal, or parted where the two words weighed the same within the rounding of the weights' own arithmetic: products on
// quantised weights round the activations too, so that libllama itself gives other logits when its batch size changes
// (docs/numerics.md).
void expect_equal_or_tied(const Engine& engine, LlamaOracle& oracle, const std::vector<int32_t>& prompt) {
  const std::vector<int32_t> ours = our_greedy(engine, prompt, 0, DType::kF32, kTokens);
  const std::vector<int32_t> theirs = oracle.continue_greedily(prompt, kTokens);
  const auto [our_word, their_word] = std::mismatch(ours.begin(), ours.end(), theirs.begin());
  if (our_word == ours.end()) return;
  std::vector<int32_t> shared = prompt;
  shared.insert(shared.end(), ours.begin(), our_word);
  const std::vector<float> our_rows = our_logits(engine, shared, 0, DType::kF32);
  const std::vector<float> their_rows = oracle.evaluate(shared);
  const auto vocab = static_cast<size_t>(engine.config().vocab);
  const auto a = std::span(our_rows).last(vocab);
  const auto b = std::span(their_rows).last(vocab);
  const LogitsGap gap = compare_logits(a, b, engine.config().vocab, kQuantisedNoise);
  const float lead = b[static_cast<size_t>(*their_word)] - b[static_cast<size_t>(*our_word)];
  EXPECT_LE(static_cast<double>(lead), kQuantisedNoise * spread_of(b)) << "parted at token " << our_word - ours.begin();
  EXPECT_LE(gap.spread_error, kQuantisedNoise);
  EXPECT_LE(gap.relative, 0.1);
}

void expect_libllamas_words(const std::string& path) {
  const std::unique_ptr<Engine> engine = load_engine(path, "cpu", {});
  ASSERT_NE(engine, nullptr);
  const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(path, 4096, /*f32_cache=*/true);
  ASSERT_NE(oracle, nullptr);
  for (const int rounds : {6, 40}) {
    const std::vector<int32_t> prompt = tokens_of(*engine, round_of_words(rounds));
    const std::vector<int32_t> theirs = oracle->continue_greedily(prompt, kTokens);
    for (const std::optional<DType> kv_type : {std::optional(DType::kF32), std::optional<DType>()}) {
      const std::vector<int32_t> ours = our_greedy(*engine, prompt, 0, kv_type, kTokens);
      EXPECT_EQ(ours, theirs) << "ours:   " << engine->tokenizer().detokenize(ours, true)
                              << "\ntheirs: " << engine->tokenizer().detokenize(theirs, true);
    }
  }
  for (const int sentences : {1, 30}) expect_equal_or_tied(*engine, *oracle, tokens_of(*engine, prose(sentences)));
}

TEST(Greedy, EmbeddedModelSpeaksAsInLibllama) {
  expect_libllamas_words(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf");
}

TEST(DownloadedModel, SmolLM2SpeaksAsInLibllama) {
  const std::string path = downloaded("SmolLM2-135M-Instruct-Q4_1.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "run make models first";
  expect_libllamas_words(path);
}

TEST(DownloadedModel, Gemma3SpeaksAsInLibllama) {
  const std::string path = downloaded("gemma-3-270m-Q4_K_M.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "run make models first";
  expect_libllamas_words(path);
}

}  // namespace
}  // namespace ei::testing
