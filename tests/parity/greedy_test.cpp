// Greedy continuations: equal to libllama's, and the same however the prompt is cut and however many threads there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "backend/dense_provider.h"
#include "base/cores.h"
#include "eval/prose.h"
#include "kernels/products/gemm.h"
#include "parity/llama_oracle.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

constexpr int kTokens = 64;

std::vector<int32_t> tokens_of(const Engine& engine, const std::string& text) {
  auto tokens = engine.tokenizer().tokenize(text, {.add_bos_eos = true, .parse_special = false});
  EXPECT_TRUE(tokens.ok());
  return tokens.ok() ? std::move(tokens).value() : std::vector<int32_t>{};
}

std::string prose(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += "The ferry left the harbour before dawn, and the lamp of the mill " + std::to_string(i * 37 % 100) +
            " burned until the miller came down to the water. ";
  }
  return text + "What did the miller see when he";
}

// A text whose continuation leaves no doubt: a round of words that has gone by many times.
std::string round_of_words(int rounds) {
  std::string text;
  for (int i = 0; i < rounds; ++i)
    text += "the river and the lamp, the bridge and the mill, the garden and the gate;\n";
  return text + "the river and";
}

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

// What multiplies fast on this machine: EI_DENSE, and EI_CPU_ISA for each of our kernels.
struct Maths {
  std::string dense;
  std::string isa;
  bool unpacked = false;  // no packed copies
  BackendOptions options(int threads) const {
    BackendOptions options;
    options.threads = threads;
    options.dense = dense;
    options.isa = isa;
    if (unpacked) options.packed_budget = 0;
    return options;
  }
  std::string name() const { return dense + (isa.empty() ? "" : " " + isa) + (unpacked ? " unpacked" : ""); }
};

std::vector<Maths> all_maths() {
  std::vector<Maths> all = {{"ggml", ""}};
  for (const DenseEntry& entry : dense_providers()) {
    if (entry.name != "bf16" && entry.create("").ok() && entry.fast("")) all.push_back({std::string(entry.name), ""});
  }
  for (const kernels::GemmKernel* kernel : kernels::gemm_kernels()) {
    if (!kernel->usable()) continue;
    for (const bool unpacked : {false, true}) all.push_back({"bf16", std::string(kernel->name), unpacked});
  }
  return all;
}

#if defined(__aarch64__)
constexpr bool kX86 = false;
#else
constexpr bool kX86 = true;
#endif
#ifdef EI_PORTABLE
constexpr bool kPortable = true;
#else
constexpr bool kPortable = false;
#endif
// Some of ggml's variants round by the number of rows, for x86 and among those that a portable build chooses from, and
// oneDNN chooses its code by it on x86.
bool counts_rows(const Maths& maths, int64_t tokens) {
  const bool too_short = maths.unpacked && tokens < 128;  // not worth unpacking for
  if (maths.dense == "ggml" || too_short) return kX86 || kPortable;
  return kX86 && maths.dense != "bf16";
}

std::string chronicle(uint64_t seed, size_t bytes) {
  eval::Prose prose(seed);
  std::string text;
  while (text.size() < bytes) text += prose.piece();
  return text;
}

TEST(Greedy, BatchAndThreadsDoNotChangeTheTokens) {
  const std::string path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
  constexpr size_t kPromptBytes = 2000;
  // Threads spin while they wait, so more of them than cores are slow.
  const std::vector<int> thread_counts = usable_cores() > 2 ? std::vector<int>{2, 1, 3} : std::vector<int>{2, 1};
  for (const Maths& maths : all_maths()) {
    const bool any_batch = maths.dense != "onednn" || !kX86;
    std::map<std::pair<size_t, int64_t>, std::vector<int32_t>> first;  // by prompt, and by batch unless any will do
    for (const int threads : thread_counts) {
      const std::unique_ptr<Engine> engine = load_engine(path, "cpu", maths.options(threads));
      ASSERT_NE(engine, nullptr);
      const std::vector<std::vector<int32_t>> prompts = {tokens_of(*engine, chronicle(3, kPromptBytes)),
                                                         tokens_of(*engine, chronicle(4, kPromptBytes)),
                                                         random_tokens(500, engine->config().vocab, 5)};
      for (size_t i = 0; i < prompts.size(); ++i) {
        for (const int64_t batch : {1024, 333, 64}) {
          const std::vector<int32_t> tokens = our_greedy(*engine, prompts[i], batch, std::nullopt, kTokens / 2);
          const auto seen = first.emplace(std::pair(i, any_batch ? 0 : batch), tokens).first;
          EXPECT_EQ(tokens, seen->second)
              << maths.name() << ", " << threads << " threads, batch " << batch << ", prompt " << i;
        }
      }
    }
  }
}

std::vector<float> last_logits(const Engine& engine, const std::vector<int32_t>& prompt, int64_t batch) {
  SessionOptions options;
  options.batch = batch;
  auto session = engine.new_session(options);
  EXPECT_TRUE(session.ok() && (*session)->prefill(prompt).ok());
  return {(*session)->logits().begin(), (*session)->logits().end()};
}

// What another order of summation in every product did to the last logits of this model, four times over: a KL
// divergence of 9.3e-4 and 0.063 standard deviations were the worst of 18 prompts (docs/numerics.md).
constexpr double kOrderDivergence = 4e-3;

// A rest of one row is a row of the prompt all the same, and no generated token.
TEST(Greedy, TheCutOfAPromptDoesNotChangeALogit) {
  for (const Maths& maths : all_maths()) {
    const std::string path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
    const std::unique_ptr<Engine> engine = load_engine(path, "cpu", maths.options(2));
    ASSERT_NE(engine, nullptr);
    for (const int64_t count : {24, 301}) {
      const std::vector<int32_t> prompt = random_tokens(count, engine->config().vocab, static_cast<uint64_t>(count));
      const std::vector<float> whole = last_logits(*engine, prompt, count);
      for (const int64_t batch : {count - 1, count - 2, count - 3, count - 4, count - 5, count / 3, count / 20}) {
        SCOPED_TRACE(::testing::Message() << maths.name() << ": " << count << " tokens, batch " << batch);
        const std::vector<float> cut = last_logits(*engine, prompt, batch);
        if (!counts_rows(maths, count)) {
          EXPECT_TRUE(cut == whole);
          continue;
        }
        const LogitsGap gap = compare_logits(cut, whole, engine->config().vocab, kQuantisedNoise);
        EXPECT_LE(gap.spread_error, kQuantisedNoise);
        if (maths.dense == "onednn") {
          EXPECT_LE(gap.kl_divergence, kOrderDivergence);
        }
      }
    }
  }
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
