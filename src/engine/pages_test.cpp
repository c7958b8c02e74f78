// Quest: which pages a generated token reads, and what that does to a session.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "policy/registry.h"
#include "sparse/page_reader.h"
#include "support/latent_sessions.h"
#include "support/random_kv.h"

namespace ei {
namespace {

constexpr int64_t kPagedText = 300;

SessionOptions quest(int32_t read, const CancelToken* cancel = nullptr) {
  SessionOptions options;
  options.kv = policy::find_method("quest")->kv;
  options.kv->read = read;
  options.cancel = cancel;
  return options;
}

// The bound of a page for a query, from the keys themselves.
double bound_of(const KvView& kv, int h, int64_t page, int32_t tokens, const float* q) {
  double sum = 0;
  for (int64_t d = 0; d < kv.head_dim; ++d) {
    double best = -INFINITY;
    for (int64_t slot = page * tokens; slot < (page + 1) * tokens; ++slot) {
      const void* keys = kv.heads[static_cast<size_t>(h)].key_pages[slot / kv.page_slots];
      const float key = load_element(keys, kv.key_type, slot % kv.page_slots * kv.head_dim + d);
      best = std::max(best, static_cast<double>(q[d]) * static_cast<double>(key));
    }
    sum += best;
  }
  return sum;
}

TEST(PageReader, ChoosesThePagesOfTheLargestBounds) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    kernels::RandomAttention random(
        {.head_dim = 32, .kv_heads = 2, .group = 3, .tokens = 1, .context = 403, .page_slots = 48, .key_type = type},
        3);
    const kernels::AttentionParams params = random.params(nullptr);
    BackendOptions backend_options;
    backend_options.threads = 2;
    const auto backend = std::move(create_backend("cpu", backend_options)).value();
    const auto stream = std::move(backend->new_stream(nullptr)).value();
    const policy::KvOptions options{.read = 80, .page = 16, .read_skip = 1};
    sparse::PageReader reader(*backend, options,
                              {.heads = 6, .kv_heads = 2, .head_dim = 32, .key_type = type, .global = {1, 1, 0}});
    ASSERT_TRUE(*reader.begin_token(402));
    const Matrix q{const_cast<float*>(params.q), 1, 6 * 32, params.q_stride};
    EXPECT_EQ(*reader.record(*stream, 0, q, params.kv), nullptr) << "below read_skip";
    EXPECT_EQ(*reader.record(*stream, 2, q, params.kv), nullptr) << "a sliding window";
    const BlockPlan* plan = *reader.record(*stream, 1, q, params.kv);
    ASSERT_NE(plan, nullptr);
    ASSERT_TRUE(stream->synchronize().ok());
    for (int h = 0; h < 2; ++h) {
      std::vector<std::pair<double, int32_t>> bounds;
      for (int32_t page = 0; page < 25; ++page) {
        double sum = 0;
        for (int64_t g = 0; g < 3; ++g) sum += bound_of(params.kv, h, page, 16, params.q + (h * 3 + g) * 32);
        bounds.emplace_back(-sum, page);
      }
      std::sort(bounds.begin(), bounds.end());
      std::vector<int32_t> expected;
      for (int i = 0; i < 4; ++i) expected.push_back(bounds[static_cast<size_t>(i)].second);  // and the own page
      std::sort(expected.begin(), expected.end());
      const auto begin = plan->blocks.begin() + plan->offsets[static_cast<size_t>(h)];
      EXPECT_EQ(std::vector<int32_t>(begin, plan->blocks.begin() + plan->offsets[static_cast<size_t>(h) + 1]), expected)
          << dtype_name(type) << ", kv_head " << h;
    }
  }
}

TEST(Pages, ThatCoverTheCacheGiveTheLogitsOfFull) {
  const std::vector<int32_t> tokens = random_tokens(kPagedText, 1);
  const auto full = open_session(one_thread_engine(), {});
  const auto paged = open_session(one_thread_engine(), quest(1024));
  ASSERT_TRUE(full->prefill(tokens).ok());
  ASSERT_TRUE(paged->prefill(tokens).ok());
  feed_likeliest(*full, 20);
  feed_likeliest(*paged, 20);
  EXPECT_EQ(logits_of(*paged), logits_of(*full));
  EXPECT_EQ(paged->stats().paged_tokens, 0);
  EXPECT_FALSE(paged->acted().any());
  EXPECT_EQ(paged->acted().idle().size(), 1u);
}

TEST(Pages, AreChosenByTheTextNotByItsChunksNorByARewind) {
  const std::vector<int32_t> tokens = random_tokens(kPagedText, 2);
  SessionOptions options = quest(64);
  const auto whole = open_session(one_thread_engine(), options);
  ASSERT_TRUE(whole->prefill(tokens).ok());
  for (int32_t token = 20; token < 60; ++token) ASSERT_TRUE(whole->decode(token).ok());
  EXPECT_EQ(whole->stats().paged_tokens, 40);
  EXPECT_TRUE(whole->store().exact()) << "nothing is evicted";
  options.batch = 64;
  const auto cut = open_session(one_thread_engine(), options);
  ASSERT_TRUE(cut->prefill(tokens).ok());
  for (int32_t token = 900; token < 940; ++token) ASSERT_TRUE(cut->decode(token).ok());
  ASSERT_TRUE(cut->truncate(kPagedText).ok());
  for (int32_t token = 20; token < 60; ++token) ASSERT_TRUE(cut->decode(token).ok());
  EXPECT_EQ(logits_of(*cut), logits_of(*whole));
  const auto full = open_session(one_thread_engine(), {});
  ASSERT_TRUE(full->prefill(tokens).ok());
  for (int32_t token = 20; token < 60; ++token) ASSERT_TRUE(full->decode(token).ok());
  EXPECT_NE(logits_of(*full), logits_of(*whole)) << "nothing was left out";
}

TEST(Pages, AnInterruptedTokenIsFedAgain) {
  const std::vector<int32_t> tokens = random_tokens(kPagedText, 3);
  CancelToken cancel;
  const auto session = open_session(one_thread_engine(), quest(64, &cancel));
  const auto other = open_session(one_thread_engine(), quest(64));
  ASSERT_TRUE(session->prefill(tokens).ok());
  ASSERT_TRUE(other->prefill(tokens).ok());
  for (int32_t token = 20; token < 40; ++token) {
    cancel.cancel();
    ASSERT_FALSE(session->decode(token).ok());
    cancel.reset();
    ASSERT_TRUE(session->decode(token).ok());
    ASSERT_TRUE(other->decode(token).ok());
  }
  EXPECT_EQ(logits_of(*session), logits_of(*other));
}

TEST(Pages, OfACacheThatWasCompressedBeforeAreAllRead) {
  SessionOptions small;
  small.kv = policy::find_kv_rule({"snapkv"})->preset;
  small.kv->keep_slots(100);
  const auto compressed = open_session(one_thread_engine(), small);
  ASSERT_TRUE(compressed->prefill(random_tokens(kPagedText, 4)).ok());
  const auto session = std::move(compressed->fork(quest(64))).value();
  ASSERT_TRUE(session->decode(20).ok());
  EXPECT_EQ(session->stats().paged_tokens, 0);
}

}  // namespace
}  // namespace ei
