// However a prompt is cut and however many threads there are: the same logits, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>

#include "backend/dense_provider.h"
#include "base/cores.h"
#include "engine/decode_batch.h"
#include "eval/prose.h"
#include "gguf/tensor_type.h"
#include "kernels/products/gemm.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

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

// Threads spin while they wait, so more of them than cores are slow, and beside busy programs take minutes.
std::vector<int> thread_counts_here() { return usable_cores() > 1 ? std::vector<int>{1, 2} : std::vector<int>{1}; }

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

#if defined(__x86_64__)
constexpr bool kX86 = true;
#else
constexpr bool kX86 = false;
#endif
// oneDNN chooses its code by the number of rows there.
bool counts_rows(const Maths& maths) { return kX86 && maths.dense == "onednn"; }

std::vector<int32_t> chronicle(const Engine& engine, uint64_t seed, size_t bytes) {
  eval::Prose prose(seed);
  std::string text;
  while (text.size() < bytes) text += prose.piece();
  auto tokens = engine.tokenizer().tokenize(text, {.add_bos_eos = true, .parse_special = false});
  EXPECT_TRUE(tokens.ok());
  return tokens.ok() ? std::move(tokens).value() : std::vector<int32_t>{};
}

TEST(Cuts, BatchAndThreadsDoNotChangeTheTokens) {
  const std::string path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
  constexpr size_t kPromptBytes = 2000;
  constexpr int kTokens = 32;
  std::vector<int> thread_counts = thread_counts_here();
  if (usable_cores() > 2) thread_counts.push_back(3);
  for (const Maths& maths : all_maths()) {
    const bool any_batch = !counts_rows(maths);
    std::map<std::pair<size_t, int64_t>, std::vector<int32_t>> first;  // by prompt, and by batch unless any will do
    for (const int threads : thread_counts) {
      const std::unique_ptr<Engine> engine = load_engine(path, "cpu", maths.options(threads));
      ASSERT_NE(engine, nullptr);
      const std::vector<std::vector<int32_t>> prompts = {chronicle(*engine, 3, kPromptBytes),
                                                         chronicle(*engine, 4, kPromptBytes),
                                                         random_tokens(500, engine->config().vocab, 5)};
      for (size_t i = 0; i < prompts.size(); ++i) {
        for (const int64_t batch : {1024, 333, 64}) {
          const std::vector<int32_t> tokens = our_greedy(*engine, prompts[i], batch, std::nullopt, kTokens);
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
TEST(Cuts, TheCutOfAPromptDoesNotChangeALogit) {
  for (const Maths& maths : all_maths()) {
    const std::string path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
    const std::unique_ptr<Engine> engine = load_engine(path, "cpu", maths.options(thread_counts_here().back()));
    ASSERT_NE(engine, nullptr);
    for (const int64_t count : {24, 301}) {
      const std::vector<int32_t> prompt = random_tokens(count, engine->config().vocab, static_cast<uint64_t>(count));
      const std::vector<float> whole = last_logits(*engine, prompt, count);
      for (const int64_t batch : {count - 1, count - 2, count - 3, count - 4, count - 5, count / 3, count / 20}) {
        SCOPED_TRACE(::testing::Message() << maths.name() << ": " << count << " tokens, batch " << batch);
        const std::vector<float> cut = last_logits(*engine, prompt, batch);
        if (!counts_rows(maths)) {
          EXPECT_TRUE(cut == whole);
          continue;
        }
        const LogitsGap gap = compare_logits(cut, whole, engine->config().vocab, kQuantisedNoise);
        EXPECT_LE(gap.spread_error, kQuantisedNoise);
        EXPECT_LE(gap.kl_divergence, kOrderDivergence);
      }
    }
  }
}

// Turns of a chat: each call is a prompt of its own. Weights without packed copies go through ggml in short calls.
TEST(Cuts, CallsOfAHundredAndTwentyEightTokensChangeNoLogit) {
  for (const Maths& maths : all_maths()) {
    if (counts_rows(maths)) continue;
    const std::string path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
    const std::unique_ptr<Engine> engine = load_engine(path, "cpu", maths.options(1));
    ASSERT_NE(engine, nullptr);
    const std::vector<int32_t> prompt = random_tokens(301, engine->config().vocab, 5);
    const std::vector<float> whole = last_logits(*engine, prompt, 301);
    for (const size_t first : {size_t{128}, size_t{173}, maths.unpacked ? size_t{150} : size_t{297}}) {
      const Result<std::unique_ptr<Session>> session = engine->new_session({});
      ASSERT_TRUE(session.ok());
      const std::span<const int32_t> tokens(prompt);
      ASSERT_TRUE((*session)->prefill(tokens.first(first)).ok());
      ASSERT_TRUE((*session)->prefill(tokens.subspan(first)).ok());
      EXPECT_TRUE(std::equal(whole.begin(), whole.end(), (*session)->logits().begin()))
          << maths.name() << ": " << first << " tokens, then " << prompt.size() - first;
    }
  }
}

// ggml has other kernels for every type of weights, and takes a row alone by another than several together.
class CutsOfType : public ::testing::TestWithParam<std::string> {};

TEST_P(CutsOfType, ChangeNoLogit) {
  constexpr int64_t kCount = 37;
  const RandomModelFile file(small_spec("llama", GetParam()));
  std::vector<float> whole;
  for (const int threads : thread_counts_here()) {
    const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", Maths{"ggml", ""}.options(threads));
    ASSERT_NE(engine, nullptr);
    const std::vector<int32_t> prompt = random_tokens(kCount, engine->config().vocab, 19);
    const std::vector<int64_t> batches = threads == 1 ? std::vector<int64_t>{kCount, kCount - 1, kCount - 2, 33, 20, 7}
                                                      : std::vector<int64_t>{kCount, 20};
    for (const int64_t batch : batches) {
      const std::vector<float> logits = our_logits(*engine, prompt, batch, std::nullopt);
      if (whole.empty()) whole = logits;
      EXPECT_TRUE(logits == whole) << threads << " threads, batch " << batch;
    }
  }
}

// The same for generated tokens: alone, and with those of other sessions in one pass.
TEST_P(CutsOfType, NeighboursChangeNoLogit) {
  const RandomModelFile file(small_spec("llama", GetParam()));
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", Maths{"", ""}.options(1));
  ASSERT_NE(engine, nullptr);
  DecodeBatch batch(*engine);
  const auto read = [&](int64_t tokens) {
    auto session = engine->new_session({});
    EXPECT_TRUE(session.ok() && (*session)->prefill(random_tokens(tokens, engine->config().vocab, 7)).ok());
    return std::move(*session);
  };
  for (const int64_t count : {2, 3, 6}) {
    std::vector<std::unique_ptr<Session>> together;
    std::vector<DecodeBatch::Feed> feeds;
    for (int64_t i = 0; i < count; ++i) {
      together.push_back(read(11 + 3 * i));
      feeds.push_back({.session = together.back().get(), .token = static_cast<int32_t>(3 + i)});
    }
    batch.decode(feeds);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(feeds[static_cast<size_t>(i)].status.ok());
      const auto alone = read(11 + 3 * i);
      ASSERT_TRUE(alone->decode(static_cast<int32_t>(3 + i)).ok());
      const std::span<const float> logits = together[static_cast<size_t>(i)]->logits();
      EXPECT_TRUE(std::equal(logits.begin(), logits.end(), alone->logits().begin(), alone->logits().end()))
          << i << " of " << count;
    }
  }
}

std::vector<std::string> all_types() {
  std::vector<std::string> names;
  for (const gguf::TensorType& type : gguf::tensor_types())
    if (type.loadable) names.emplace_back(type.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, CutsOfType, ::testing::ValuesIn(all_types()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ei::testing
