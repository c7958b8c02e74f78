// Greedy continuations: equal to libllama's, and the same however the prompt is cut and however many threads there are.
#include <gtest/gtest.h>

#include <filesystem>

#include "parity/llama_oracle.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

constexpr int kTokens = 64;

std::vector<int32_t> prompt_tokens(const Engine& engine, int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += "The ferry left the harbour before dawn, and the lamp of the mill " + std::to_string(i * 37 % 100) +
            " burned until the miller came down to the water. ";
  }
  text += "What did the miller see when he";
  auto tokens = engine.tokenizer().tokenize(text, {.add_bos_eos = true, .parse_special = false});
  EXPECT_TRUE(tokens.ok());
  return tokens.ok() ? std::move(tokens).value() : std::vector<int32_t>{};
}

void expect_libllamas_words(const std::string& path) {
  const std::unique_ptr<Engine> engine = load_engine(path, "cpu", {});
  ASSERT_NE(engine, nullptr);
  const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(path, 4096, /*f32_cache=*/false);
  ASSERT_NE(oracle, nullptr);
  for (const int sentences : {1, 30}) {
    const std::vector<int32_t> prompt = prompt_tokens(*engine, sentences);
    const std::vector<int32_t> ours = our_greedy(*engine, prompt, 0, kTokens);
    const std::vector<int32_t> theirs = oracle->continue_greedily(prompt, kTokens);
    EXPECT_EQ(ours, theirs) << "ours:   " << engine->tokenizer().detokenize(ours, true)
                            << "\ntheirs: " << engine->tokenizer().detokenize(theirs, true);
  }
}

TEST(Greedy, EmbeddedModelSpeaksAsInLibllama) {
  expect_libllamas_words(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf");
}

TEST(Greedy, BatchAndThreadsDoNotChangeTheTokens) {
  const std::string path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
  std::vector<int32_t> first;
  for (const int threads : {1, 2}) {
    BackendOptions options;
    options.threads = threads;
    const std::unique_ptr<Engine> engine = load_engine(path, "cpu", options);
    ASSERT_NE(engine, nullptr);
    const std::vector<int32_t> prompt = prompt_tokens(*engine, 40);
    for (const int64_t batch : {1024, 512, 333, 64}) {
      const std::vector<int32_t> tokens = our_greedy(*engine, prompt, batch, kTokens);
      if (first.empty()) first = tokens;
      EXPECT_EQ(tokens, first) << threads << " threads, batch " << batch;
    }
  }
}

// Downloaded models: `make models`, then `ctest -L model`.
std::string downloaded(const char* name) {
  const char* folder = std::getenv("EI_MODELS_DIR");
  return std::string(folder != nullptr ? folder : EI_SOURCE_DIR "/models") + "/" + name;
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
