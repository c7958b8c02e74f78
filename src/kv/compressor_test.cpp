// The observer's ring, the compressor's choice against the reference, and where a compressed cache may be rewound to.
#include "kv/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "kv/rewind.h"

namespace ei::kv {
namespace {

constexpr int kHeads = 4;
constexpr int kKvHeads = 2;
constexpr int kDim = 8;
constexpr int64_t kWidth = kHeads * kDim;

std::unique_ptr<Backend> make_backend(const char* name) {
  BackendOptions options;
  options.threads = 2;
  auto backend = create_backend(name, options);
  EXPECT_TRUE(backend.ok());
  return std::move(backend).value();
}

// A store, a compressor and random tokens fed to both, two layers.
class Fixture {
 public:
  Fixture(const policy::KvOptions& options, std::vector<int32_t> windows)
      : backend_(make_backend("cpu")),
        stream(std::move(backend_->new_stream(nullptr)).value()),
        store(*backend_, {.layers = static_cast<int>(windows.size()),
                          .kv_heads = kKvHeads,
                          .head_dim = kDim,
                          .key_type = DType::kF32,
                          .value_type = DType::kF32,
                          .page_slots = 16}),
        compressor(std::move(Compressor::create(*backend_, options,
                                                {.heads = kHeads,
                                                 .kv_heads = kKvHeads,
                                                 .head_dim = kDim,
                                                 .attention_scale = 0.35f,
                                                 .windows = std::move(windows)}))
                       .value()) {}

  // Queries of earlier chunks stay in `queries`.
  void feed(int64_t tokens, bool fails = false) {
    const int32_t first = store.next_position();
    std::vector<float> rows(static_cast<size_t>(tokens * kWidth));
    for (float& value : rows) value = 2 * random_.normal();
    ASSERT_TRUE(store.reserve(tokens).ok());
    for (int layer = 0; layer < store.config().layers; ++layer) {
      const KvAppend append = store.append(layer, tokens);
      for (const KvAppend::Run& run : append.runs) {
        const float sharpness = run.kv_head == sharp_head ? 4.0f : 1.0f;
        auto* keys = reinterpret_cast<float*>(plain_key(append.shape, run.page, run.slot));
        auto* values = reinterpret_cast<float*>(plain_value(append.shape, run.page, run.slot));
        for (int64_t i = 0; i < run.count * kDim; ++i) {
          keys[i] = sharpness * random_.normal();
          values[i] = random_.normal();
        }
      }
      compressor.observer().record(*stream, layer, {rows.data(), tokens, kWidth, kWidth});
    }
    ASSERT_TRUE(stream->synchronize().ok());
    if (fails) {
      ASSERT_TRUE(store.truncate(first).ok());
      return;
    }
    compressor.observer().advance(first, tokens);
    queries.insert(queries.end(), rows.begin(), rows.end());
  }

  void rewind(int32_t position) {
    ASSERT_TRUE(store.truncate(position).ok());
    compressor.observer().truncate(position);
    queries.resize(static_cast<size_t>(position * kWidth));
  }

  // What the observer must hold, from all queries ever fed.
  void expect_last_queries(int64_t count) {
    const int32_t next = store.next_position();
    std::vector<int32_t> positions;
    for (int64_t i = next - count; i < next; ++i) positions.push_back(static_cast<int32_t>(i));
    ASSERT_EQ(compressor.observer().positions(), positions);
    const Matrix window = compressor.observer().queries(*stream, 0);
    ASSERT_TRUE(stream->synchronize().ok());
    ASSERT_EQ(window.rows, count);
    std::vector<float> held(static_cast<size_t>(count * kWidth));
    stream->read(window, held.data());
    EXPECT_TRUE(std::equal(held.begin(), held.end(), queries.end() - static_cast<int64_t>(held.size())));
  }

  // The attention of one more query at the end of `layer`.
  std::vector<float> attend(int layer, int32_t window) {
    std::vector<float> q(kWidth, 0.5f);
    std::vector<float> out(kWidth);
    stream->attention({.q = q.data(),
                       .q_stride = kWidth,
                       .out = out.data(),
                       .out_stride = kWidth,
                       .tokens = 1,
                       .num_heads = kHeads,
                       .first_position = store.next_position(),
                       .scale = 0.35f,
                       .window = window,
                       .plan = nullptr,
                       .kv = store.view(layer)});
    EXPECT_TRUE(stream->synchronize().ok());
    return out;
  }

 private:
  std::unique_ptr<Backend> backend_;
  Random random_{17};

 public:
  std::unique_ptr<Stream> stream;
  Store store;
  Compressor compressor;
  std::vector<float> queries;
  int sharp_head = -1;  // its keys are longer
};

policy::KvOptions latent(int32_t budget, int32_t window) {
  return {.rule = policy::KvRule::kLatent, .budget = budget, .window = window, .kernel = 3};
}

TEST(Observer, HoldsTheLastQueriesHoweverTheyCame) {
  Fixture f(latent(20, 6), {0, 0});
  EXPECT_EQ(f.compressor.observer().size(), 0);
  f.feed(1);
  f.expect_last_queries(1);
  f.feed(4);
  f.expect_last_queries(5);
  for (const int64_t tokens : {1, 1, 50, 1, 5, 6, 7, 1, 12, 13, 1}) {
    f.feed(tokens);
    f.expect_last_queries(6);
  }
}

TEST(Observer, LosesNothingWithAChunkThatFails) {
  Fixture f(latent(20, 6), {0, 0});
  f.feed(23);
  for (const int64_t tokens : {1, 3, 6, 12, 40}) {
    f.feed(tokens, /*fails=*/true);
    f.feed(tokens, /*fails=*/true);
    f.expect_last_queries(6);
    f.feed(1);
    f.expect_last_queries(6);
  }
}

TEST(Observer, ForgetsWhatIsRewound) {
  Fixture f(latent(20, 6), {0, 0});
  f.feed(40);  // only the last 6 were recorded
  f.feed(6);
  f.rewind(44);
  f.expect_last_queries(6);
  f.rewind(36);
  f.expect_last_queries(2);
  f.rewind(10);
  EXPECT_EQ(f.compressor.observer().size(), 0);
  f.feed(3);
  f.expect_last_queries(3);
}

TEST(Compressor, KeepsWhatTheMethodSaysOfTheReferencesScores) {
  const policy::KvOptions options = latent(20, 6);
  Fixture f(options, {0, 0});
  f.feed(30);
  f.feed(33);
  const std::unique_ptr<Backend> reference = make_backend("reference");
  const std::unique_ptr<Stream> oracle = std::move(reference->new_stream(nullptr)).value();
  for (int round = 0; round < 3; ++round) {
    const std::vector<int32_t> at = f.compressor.observer().positions();
    std::vector<std::vector<int32_t>> expected;  // positions, layer by layer and head by head
    for (int layer = 0; layer < 2; ++layer) {
      const KvView view = f.store.view(layer);
      const int64_t length = view.heads[0].length;
      std::vector<float> scores(static_cast<size_t>(kHeads * length));
      oracle->window_scores({.q = f.queries.data() + f.queries.size() - 6 * kWidth,
                             .q_stride = kWidth,
                             .positions = at.data(),
                             .window = 6,
                             .num_heads = kHeads,
                             .scale = 0.35f,
                             .kv = view,
                             .scores = scores.data(),
                             .score_stride = length});
      ASSERT_TRUE(oracle->synchronize().ok());
      // By hand: the mean of the group, the mean of three neighbours, the best fourteen and the last six.
      for (int h = 0; h < kKvHeads; ++h) {
        const KeepList keep = policy::keep_best_and_recent(
            policy::pooled_scores(options, {scores.data() + h * 2 * length, length, 2, length - 6}), 14, length);
        std::vector<int32_t>& positions = expected.emplace_back();
        for (const int32_t slot : keep) positions.push_back(view.heads[static_cast<size_t>(h)].position(slot));
      }
    }
    const int64_t before = f.store.tokens_kept();
    const Result<int64_t> dropped = f.compressor.compress(*f.stream, f.store);
    ASSERT_TRUE(dropped.ok());
    EXPECT_EQ(*dropped, before - f.store.tokens_kept());
    for (int layer = 0; layer < 2; ++layer) {
      for (int h = 0; h < kKvHeads; ++h) {
        const KvHeadView& head = f.store.view(layer).heads[static_cast<size_t>(h)];
        std::vector<int32_t> held;
        for (int64_t slot = 0; slot < head.length; ++slot) held.push_back(head.position(slot));
        EXPECT_EQ(held, expected[static_cast<size_t>(layer * kKvHeads + h)]) << "round " << round;
        EXPECT_EQ(head.length, 20);
      }
    }
    f.feed(9 + round);
  }
}

TEST(Compressor, UnevenSharesStayInsideTheLayersSlotsThroughManyRounds) {
  policy::KvOptions options = latent(40, 6);
  options.share = policy::KvShare::kAdaptive;
  Fixture f(options, {0, 0});
  f.sharp_head = 1;
  f.feed(90);
  bool uneven = false;
  for (int round = 0; round < 6; ++round) {
    ASSERT_GT(f.compressor.most_held(f.store), 40);
    ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
    for (int layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(f.store.length(layer, 0) + f.store.length(layer, 1), 80) << "round " << round;
      uneven = uneven || f.store.length(layer, 0) != f.store.length(layer, 1);
      for (int h = 0; h < kKvHeads; ++h) {
        const KvHeadView& head = f.store.view(layer).heads[static_cast<size_t>(h)];
        EXPECT_GE(head.length, 6 + 34 / 5);  // the window and the floor
        for (int32_t i = 1; i <= 6; ++i) EXPECT_EQ(head.position(head.length - i), f.store.next_position() - i);
      }
    }
    EXPECT_EQ(f.compressor.most_held(f.store), 40);
    EXPECT_EQ(*f.compressor.compress(*f.stream, f.store), 0);  // within its slots, however they are shared
    f.feed(1 + 5 * round);
  }
  EXPECT_TRUE(uneven);
}

TEST(Compressor, LeavesACacheWithinItsBudgetAlone) {
  Fixture f(latent(20, 6), {0, 0});
  f.feed(20);
  const Result<int64_t> dropped = f.compressor.compress(*f.stream, f.store);
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(*dropped, 0);
  EXPECT_TRUE(f.store.exact());
}

TEST(Compressor, TakesFromASlidingWindowOnlyWhatNobodyCanSee) {
  constexpr int32_t kWindow = 25;
  Fixture f(latent(20, 6), {0, kWindow});
  f.feed(100);
  const std::vector<float> before = f.attend(1, kWindow);
  ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
  EXPECT_EQ(f.store.length(0, 0), 20);
  EXPECT_EQ(f.store.length(1, 0), kWindow - 1 + 6);  // the next token is one of its window; six for a rewind
  EXPECT_EQ(f.attend(1, kWindow), before);
  EXPECT_NE(f.attend(1, kWindow + 7), before);
  f.feed(1);
  EXPECT_EQ(f.compressor.most_held(f.store), 21);
}

TEST(Compressor, CountsOfASlidingWindowWhatLiesOutsideIt) {
  Fixture f(latent(20, 6), {25, 25});
  f.feed(40);
  EXPECT_EQ(f.compressor.most_held(f.store), 15);
  EXPECT_EQ(f.compressor.most_slots(10, 5), 15);
}

TEST(Rewind, GoesBehindTheLastGapOrInFrontOfTheFirst) {
  Fixture f(latent(20, 6), {0, 0});
  f.feed(60);
  const std::vector<int32_t> windows = {0, 0};
  for (const int32_t position : {0, 17, 60}) EXPECT_EQ(rewind_point(f.store, windows, position), position);
  // One head keeps 0 1 2 and the last ten, the other 0 1 2 3 and the last twenty; layer 0 keeps all.
  KeepList first = {0, 1, 2};
  for (int32_t slot = 50; slot < 60; ++slot) first.push_back(slot);
  KeepList second = {0, 1, 2, 3};
  for (int32_t slot = 40; slot < 60; ++slot) second.push_back(slot);
  ASSERT_TRUE(f.store.compact(1, 0, first).ok());
  ASSERT_TRUE(f.store.compact(1, 1, second).ok());
  for (const int32_t position : {60, 55, 50, 3, 2, 0}) EXPECT_EQ(rewind_point(f.store, windows, position), position);
  for (const int32_t position : {49, 45, 40, 20, 4}) EXPECT_EQ(rewind_point(f.store, windows, position), 3);
  ASSERT_TRUE(f.store.truncate(3).ok());
  EXPECT_TRUE(f.store.exact());
}

TEST(Rewind, NeedsTheWholeSlidingWindow) {
  Fixture f(latent(20, 6), {0, 10});
  f.feed(60);
  KeepList last;
  for (int32_t slot = 45; slot < 60; ++slot) last.push_back(slot);
  for (int h = 0; h < kKvHeads; ++h) ASSERT_TRUE(f.store.compact(1, h, last).ok());
  const std::vector<int32_t> windows = {0, 10};
  for (const int32_t position : {60, 57, 54, 0}) EXPECT_EQ(rewind_point(f.store, windows, position), position);
  for (const int32_t position : {53, 45, 30, 1}) EXPECT_EQ(rewind_point(f.store, windows, position), 0);
}

}  // namespace
}  // namespace ei::kv
