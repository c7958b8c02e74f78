// The planner against one without streams, steps and index (support/plain_planner.h): the same records and the same
// blocks, for every method, on every backend whose device is the CPU.
#include "sparse/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/registry.h"
#include "support/plain_planner.h"
#include "support/plain_random_prefill.h"
#include "support/remembered_plan.h"

namespace ei::sparse {
namespace {

constexpr int32_t kLayers = 3;
constexpr kernels::AttentionShape kLayerShape{
    .head_dim = 32, .kv_heads = 2, .group = 2, .tokens = 600, .context = 600, .page_slots = 64};

policy::PrefillOptions in_small(policy::PrefillOptions options) {
  options.segment = 32;
  options.block = 8;
  options.threshold = 64;
  options.local_budget = 16;
  options.density_base = 32;
  if (options.rule != policy::PrefillRule::kEntropy) options.base_budget = 64;
  return options;
}

std::vector<std::pair<std::string, policy::PrefillOptions>> sparse_methods() {
  std::vector<std::pair<std::string, policy::PrefillOptions>> all;
  for (const policy::Method& method : policy::methods())
    if (method.prefill.rule != policy::PrefillRule::kDense) all.emplace_back(method.name, in_small(method.prefill));
#ifdef EI_SANITIZED
  return all;  // the presets will do where the slow references are ten times slower
#endif
  policy::PrefillOptions by_peaks = in_small(policy::find_method("entropyinfer")->prefill);
  for (const policy::PrefillEntry& rule : policy::prefill_rules()) {
    by_peaks.rule = {rule.name};
    by_peaks.base_budget = rule.by_density ? 0 : 64;
    all.emplace_back("budget rule " + std::string(rule.name), by_peaks);
    by_peaks.select = policy::BlockRank::kPeak;
    if (!rule.select) all.emplace_back("peaks, budget rule " + std::string(rule.name), by_peaks);
    by_peaks.select = policy::BlockRank::kAdaptive;
  }
  by_peaks = in_small(policy::find_method("entropyinfer")->prefill);
  by_peaks.rank_queries = policy::RankQueries::kGroup;
  all.emplace_back("entropyinfer, one query for a group", by_peaks);
  return all;
}

// Keys and queries of all layers.
struct Prompt {
  Prompt() {
    for (int32_t layer = 0; layer < kLayers; ++layer)
      made.push_back(std::make_unique<kernels::RandomAttention>(kLayerShape, 40 + static_cast<uint64_t>(layer)));
    for (const auto& one : made) layers.push_back(one.get());
  }
  std::vector<std::unique_ptr<kernels::RandomAttention>> made;
  std::vector<kernels::RandomAttention*> layers;
};

constexpr double kProducts = 4e6;  // so that all ways to rank take their turn

PlannerShape planner_shape() {
  return {.heads = kLayerShape.kv_heads * kLayerShape.group,
          .kv_heads = kLayerShape.kv_heads,
          .head_dim = kLayerShape.head_dim,
          .attention_scale = 1 / std::sqrt(static_cast<float>(kLayerShape.head_dim)),
          .products = kProducts,
          .global = std::vector<uint8_t>(kLayers, 1)};
}

policy::PrefillShape method_shape_of(const policy::PrefillOptions& options) {
  int32_t choosing = 0;
  for (int32_t layer = 0; layer + 1 < kLayers; ++layer) choosing += policy::is_dense_layer(options, layer) ? 0 : 1;
  return {.layers = kLayers,
          .kv_heads = kLayerShape.kv_heads,
          .products = kProducts,
          .per_key = static_cast<double>(choosing * kLayerShape.kv_heads * kLayerShape.group * kLayerShape.head_dim),
          .choosing_heads = choosing * kLayerShape.kv_heads};
}

std::unique_ptr<Backend> make_backend(const char* name) {
  return create_backend(name, {.threads = 2, .isa = {}, .dense = {}, .packed_budget = 0}).value();
}

class PlannedPrompt {
 public:
  PlannedPrompt(const Backend& backend, const policy::PrefillOptions& options, Prompt& prompt)
      : prompt_(prompt), planner_(backend, options, planner_shape()), stream_(backend.new_stream(nullptr).value()) {
    planner_.keep_blocks(true);
    EXPECT_TRUE(planner_.begin_prompt(kLayerShape.tokens).ok());
  }

  void lend(std::span<std::byte> spare) { spare_ = spare; }
  // In chunks of about `batch` tokens, from `first` on.
  void read(int64_t batch, int64_t first = 0) {
    while (first < kLayerShape.tokens) {
      const int64_t end = planner_.chunk_end(first, batch);
      begin(first, end);
      planner_.finish_chunk();
      first = end;
    }
    planner_.end_prompt();
  }
  // Records and runs a chunk that is neither finished nor undone yet.
  void begin(int64_t first, int64_t end) {
    if (!spare_.empty()) std::memset(spare_.data(), 0x5a, spare_.size());  // whatever was there
    ASSERT_TRUE(planner_.begin_chunk(*stream_, first, end - first, spare_).ok());
    for (int layer = 0; layer < kLayers; ++layer) {
      if (!planner_.plans(layer)) continue;
      const kernels::AttentionParams rows =
          prompt_.layers[static_cast<size_t>(layer)]->params(first, end - first, nullptr);
      const Matrix q{const_cast<float*>(rows.q), end - first, rows.q_stride, rows.q_stride};
      planner_.record(*stream_, layer, q, rows.kv, end - first);
      ASSERT_TRUE(stream_->synchronize().ok());  // the view of the next layer takes the place of this one's
    }
  }
  Planner& planner() { return planner_; }

 private:
  Prompt& prompt_;
  std::span<std::byte> spare_;
  Planner planner_;
  std::unique_ptr<Stream> stream_;
};

// Does it name blocks itself, for which no plan of another code has any?
bool names_blocks(const policy::PrefillOptions& options) {
  return policy::make_prefill_method(options, method_shape_of(options))->chooses();
}

// [layers, segments, kv_heads]
std::vector<std::vector<int32_t>> chosen(const Planner& planner) {
  std::vector<std::vector<int32_t>> lists;
  for (int layer = 0; layer < kLayers; ++layer)
    for (const policy::SegmentRecord& record : planner.records(layer))
      for (const policy::HeadRecord& head : record.heads) lists.push_back(head.chosen);
  return lists;
}

void expect_same(const policy::LayerRecords& ours, const policy::LayerRecords& plain, bool lists_too) {
  ASSERT_EQ(ours.size(), plain.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    for (size_t h = 0; h < ours[i].heads.size(); ++h) {
      SCOPED_TRACE(::testing::Message() << "segment " << i << " kv_head " << h);
      EXPECT_EQ(ours[i].dense, plain[i].dense);
      EXPECT_EQ(ours[i].heads[h].type, plain[i].heads[h].type);
      EXPECT_EQ(ours[i].heads[h].rigid, plain[i].heads[h].rigid);
      EXPECT_EQ(ours[i].heads[h].blocks, plain[i].heads[h].blocks);
      if (lists_too) {
        EXPECT_EQ(ours[i].heads[h].chosen, plain[i].heads[h].chosen);
      }
    }
  }
}

TEST(Planner, PlansWhatAPlainOneDoesForEveryMethod) {
  Prompt prompt;
  const auto backend = make_backend("reference");
  for (const auto& [name, options] : sparse_methods()) {
    SCOPED_TRACE(name);
    testing::PlainPlanner plain(options, method_shape_of(options), prompt.layers);
    plain.read();
    for (const int64_t batch : {kLayerShape.tokens, int64_t{96}}) {
      PlannedPrompt ours(*backend, options, prompt);
      ours.read(batch);
      for (int layer = 0; layer < kLayers; ++layer) {
        SCOPED_TRACE(::testing::Message() << "layer " << layer << " batch " << batch);
        const policy::LayerRecords& records = ours.planner().records(layer);
        expect_same(records, plain.records(layer), !names_blocks(options));
        if (names_blocks(options)) testing::expect_random_lists(options, kLayerShape.tokens, records);
      }
    }
  }
}

// Keys rounded to 8 bits may turn a close call.
TEST(Planner, PlansNearlyTheSameByTheKernelsOfThisMachine) {
  Prompt prompt;
  const auto backend = make_backend("cpu");
  for (const auto& [name, options] : sparse_methods()) {
    SCOPED_TRACE(name);
    PlannedPrompt ours(*backend, options, prompt);
    ours.read(256);
    for (int layer = 0; layer < kLayers && names_blocks(options); ++layer)
      testing::expect_random_lists(options, kLayerShape.tokens, ours.planner().records(layer));
    if (names_blocks(options)) continue;
    testing::PlainPlanner plain(options, method_shape_of(options), prompt.layers);
    plain.read();
    int64_t all = 0;
    int64_t common = 0;
    for (int layer = 0; layer < kLayers; ++layer) {
      const policy::LayerRecords& records = plain.records(layer);
      ASSERT_EQ(ours.planner().records(layer).size(), records.size());
      for (size_t i = 0; i < records.size(); ++i) {
        for (size_t h = 0; h < records[i].heads.size(); ++h) {
          const policy::HeadRecord& other = ours.planner().records(layer)[i].heads[h];
          EXPECT_NEAR(other.blocks, records[i].heads[h].blocks, 1 + 0.05 * records[i].heads[h].blocks);
          const std::set<int32_t> found(other.chosen.begin(), other.chosen.end());
          for (const int32_t block : records[i].heads[h].chosen) common += found.contains(block) ? 1 : 0;
          all += static_cast<int64_t>(records[i].heads[h].chosen.size());
        }
      }
    }
    EXPECT_GT(all, 0);
    EXPECT_GT(static_cast<double>(common), 0.93 * static_cast<double>(all));
  }
}

TEST(Planner, ForgetsAChunkThatFailedAndWhatWasRewound) {
  Prompt prompt;
  const auto backend = make_backend("cpu");
  for (const auto& [name, given] : sparse_methods()) {
    SCOPED_TRACE(name);
    policy::PrefillOptions options = given;
    options.rigid_test = policy::RigidTest::kCausal;  // the other one knows whole prompts only
    PlannedPrompt undisturbed(*backend, options, prompt);
    undisturbed.read(128);
    PlannedPrompt ours(*backend, options, prompt);
    const int64_t first = ours.planner().chunk_end(0, 128);
    ours.begin(0, first);
    ours.planner().undo_chunk();
    ours.read(128);
    EXPECT_EQ(chosen(ours.planner()), chosen(undisturbed.planner()));
    ours.planner().truncate(512);
    ASSERT_TRUE(ours.planner().begin_prompt(kLayerShape.tokens).ok());
    ours.read(128, 512);
    EXPECT_EQ(chosen(ours.planner()), chosen(undisturbed.planner()));
  }
}

TEST(Planner, TakesTheSamplesAndTheBlocksThatAreGiven) {
  Prompt prompt;
  const auto backend = make_backend("cpu");
  const policy::PrefillOptions options = in_small(policy::find_method("entropyinfer")->prefill);
  PlannedPrompt source(*backend, options, prompt);
  source.read(256);
  Prompt other;
  std::reverse(other.layers.begin(), other.layers.end());
  PlannedPrompt free(*backend, options, other);
  free.read(256);
  ASSERT_NE(chosen(free.planner()), chosen(source.planner()));
  for (const bool names_blocks : {true, false}) {
    const RememberedPlan given(source.planner(), names_blocks);
    PlannedPrompt ours(*backend, options, other);
    ours.planner().give(&given);
    ours.read(256);
    const auto counts = [](const Planner& planner) {
      std::vector<int32_t> all;
      for (int layer = 0; layer < kLayers; ++layer)
        for (const policy::SegmentRecord& record : planner.records(layer))
          for (const policy::HeadRecord& head : record.heads) all.push_back(record.dense ? 0 : head.blocks);
      return all;
    };
    EXPECT_EQ(counts(ours.planner()), counts(source.planner()));
    EXPECT_EQ(chosen(ours.planner()) == chosen(source.planner()), names_blocks);
  }
}

// Of `visible` blocks the sink's and the latest, `count` together.
std::vector<int32_t> sink_and_latest(int32_t visible, int32_t count) {
  std::vector<int32_t> blocks;
  for (int32_t block = 0; block < visible; ++block)
    if (block == 0 || block > visible - count) blocks.push_back(block);
  return blocks;
}

// A method that measures nothing, by its formula: layers below `deep` read everything, the others the sink and the
// latest, `tokens` together; segments before the threshold and the last of the prompt read everything in all layers.
void expect_sink_and_latest(const char* method, int deep, int32_t tokens) {
  Prompt prompt;
  policy::PrefillOptions options = in_small(policy::find_method(method)->prefill);
  options.base_budget = tokens;
  const int32_t last = (kLayerShape.tokens - 1) / options.segment;
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = make_backend(name);
    PlannedPrompt ours(*backend, options, prompt);
    ours.read(96);
    for (int layer = 0; layer < kLayers; ++layer) {
      ASSERT_EQ(ours.planner().records(layer).size(), static_cast<size_t>(last) + 1);
      for (const policy::SegmentRecord& record : ours.planner().records(layer)) {
        SCOPED_TRACE(::testing::Message() << name << ", layer " << layer << ", segment " << record.segment);
        const int32_t visible = record.segment * options.segment / options.block;
        ASSERT_EQ(record.dense, record.segment * options.segment < options.threshold || record.segment == last);
        for (const policy::HeadRecord& head : record.heads) {
          EXPECT_EQ(head.blocks, record.dense || layer < deep ? visible : std::min(visible, tokens / options.block));
          if (!record.dense) {
            EXPECT_EQ(head.chosen, sink_and_latest(visible, head.blocks));
          }
        }
      }
    }
  }
}

TEST(Planner, StreamingReadsTheSinkAndTheLatestBlocks) { expect_sink_and_latest("streaming", 0, 80); }

TEST(Planner, TriangleReadsTheSinkAndTheLatestBlocksInTheDeepHalfOfTheLayersButNotAtTheEnd) {
  expect_sink_and_latest("triangle", 2, 8 + 64);
}

TEST(Planner, GivesItsMemoryBack) {
  Prompt prompt;
  const auto backend = make_backend("cpu");
  PlannedPrompt ours(*backend, in_small(policy::find_method("entropyinfer")->prefill), prompt);
  const int64_t reserved = ours.planner().held_bytes();
  EXPECT_GT(reserved, 0);
  ours.begin(0, ours.planner().chunk_end(0, 256));
  EXPECT_GT(ours.planner().held_bytes(), reserved);
  EXPECT_LE(ours.planner().held_bytes(), ours.planner().bytes_for(0, kLayerShape.tokens, 256));
  ours.planner().undo_chunk();
  ours.read(256);
  EXPECT_EQ(ours.planner().held_bytes(), reserved);
  ours.planner().keys_dropped();
  EXPECT_EQ(ours.planner().held_bytes(), 0);
}

TEST(Planner, WorksInSpareMemoryWhereThatSuffices) {
  Prompt prompt;
  const auto backend = make_backend("cpu");
  const policy::PrefillOptions options = in_small(policy::find_method("entropyinfer")->prefill);
  PlannedPrompt plain(*backend, options, prompt);
  plain.read(256);
  PlannedPrompt frugal(*backend, options, prompt);
  const int64_t need = frugal.planner().bytes_for(0, kLayerShape.tokens, 256);
  const int64_t less = frugal.planner().bytes_for(0, kLayerShape.tokens, 256, need);
  ASSERT_LT(less, need);
  const int64_t passing = need - less;
  EXPECT_EQ(frugal.planner().spare_for(passing), passing);
  EXPECT_EQ(frugal.planner().spare_for(passing - 1), passing) << "a little more is cheaper than memory of its own";
  EXPECT_EQ(frugal.planner().bytes_for(0, kLayerShape.tokens, 256, passing - 1), less + 1);
  EXPECT_EQ(frugal.planner().spare_for(passing / 2 - 1), passing / 2 - 1) << "but not more than as much again";
  EXPECT_EQ(frugal.planner().bytes_for(0, kLayerShape.tokens, 256, passing / 2 - 1), need);
  Buffer spare = backend->allocate(static_cast<size_t>(passing)).value();
  const int64_t reserved = frugal.planner().held_bytes();
  const std::span<std::byte> bytes(static_cast<std::byte*>(spare.data()), static_cast<size_t>(passing));
  for (const size_t lent : {bytes.size(), bytes.size() - 1}) {
    frugal.lend(bytes.first(lent));
    frugal.begin(0, frugal.planner().chunk_end(0, 256));
    EXPECT_EQ(frugal.planner().held_bytes() == reserved, lent == bytes.size());
    frugal.planner().undo_chunk();
  }
  frugal.lend(bytes);
  frugal.read(256);
  EXPECT_EQ(chosen(frugal.planner()), chosen(plain.planner()));
}

TEST(Planner, PlansNoLayerWithAWindow) {
  const auto backend = make_backend("cpu");
  PlannerShape shape = planner_shape();
  shape.global = {1, 0, 1};
  const Planner planner(*backend, in_small(policy::find_method("entropyinfer")->prefill), shape);
  EXPECT_TRUE(planner.plans(0));
  EXPECT_FALSE(planner.plans(1));
  EXPECT_TRUE(planner.plans(2));
}

TEST(Planner, IsRefusedInOneLineWhereABackendCannotDoIt) {
  const auto backend = make_backend("cpu");
  policy::PrefillOptions options = in_small(policy::find_method("entropyinfer")->prefill);
  EXPECT_TRUE(Planner::served(*backend, options, planner_shape()).ok());
  options.block = 4;
  const Status refused = Planner::served(*backend, options, planner_shape());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(refused.error().message,
            "the cpu backend cannot rate blocks of 4 tokens by adaptive: it rates blocks of a multiple of 8 tokens by "
            "adaptive and peak, all by midrange");
  options.select = policy::BlockRank::kOracleSum;
  EXPECT_TRUE(Planner::served(*backend, options, planner_shape()).ok());
}

}  // namespace
}  // namespace ei::sparse
