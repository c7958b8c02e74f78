// KV compression against the released code: from recorded queries to keep lists.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "golden/generator.h"
#include "golden/kernel_set.h"
#include "golden/lists.h"
#include "policy/kv/share.h"

namespace ei::golden {
namespace {

using policy::GroupAggregate;
using policy::GroupScores;
using policy::KvOptions;
using policy::Pooling;

KvOptions read_options(const Json& params) {
  KvOptions options;
  options.rule = policy::KvRule::kLatent;
  params.at("W").get_to(options.window);
  params.at("kernel").get_to(options.kernel);
  params.at("budget").get_to(options.budget);
  const std::string pool = params.at("pool").get<std::string>();
  EXPECT_TRUE(pool == "avg" || pool == "max") << pool;
  options.pooling = pool == "max" ? Pooling::kMax : Pooling::kAverage;
  return options;
}

GroupAggregate read_aggregate(const std::string& name) {
  EXPECT_TRUE(name == "mean" || name == "max") << name;
  return name == "max" ? GroupAggregate::kMax : GroupAggregate::kMean;
}

// Mean attention to each slot of `window` queries, the rows from `first_query` on, [num_heads, tokens]; they are masked
// as if they stood at `first_position`.
std::vector<float> window_scores(const KernelSet& kernels, const KernelInputs& inputs, int32_t window,
                                 int32_t first_query, int32_t first_position) {
  const Shape& shape = inputs.shape();
  std::vector<int32_t> positions(static_cast<size_t>(window));
  std::iota(positions.begin(), positions.end(), first_position);
  std::vector<float> scores(static_cast<size_t>(shape.num_heads * shape.tokens));
  kernels.window_scores({.q = inputs.q(first_query),
                         .q_stride = inputs.q_stride(),
                         .positions = positions.data(),
                         .window = window,
                         .num_heads = shape.num_heads,
                         .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                         .kv = inputs.kv(),
                         .scores = scores.data(),
                         .score_stride = shape.tokens});
  return scores;
}

// `unit`: what the stored scores count ours in.
void expect_scores(const Manifest& manifest, const Json& golden, const std::vector<float>& ours, double unit) {
  const std::vector<float> expected = manifest.floats(golden);
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double golden_score = static_cast<double>(expected[i]);
    EXPECT_NEAR(static_cast<double>(ours[i]) * unit, golden_score,
                manifest.tolerance("scores_kv_rel") * std::abs(golden_score) + manifest.tolerance("scores_kv_abs"))
        << "element " << i;
  }
}

size_t head_of(const Json& entry) { return entry.at("head").get<size_t>(); }

class KvLayer {
 public:
  KvLayer(const Manifest& manifest, const KernelSet& kernels, const Json& golden_case, const KernelInputs& inputs)
      : manifest_(manifest),
        kernels_(kernels),
        case_(golden_case),
        inputs_(inputs),
        options_(read_options(golden_case.at("params"))) {}

  void check(const Json& fields) {
    for (const auto& [field, value] : fields.items())
      EXPECT_TRUE(field == "released" || field == "ours") << "unknown field " << field;
    check_released(fields.at("released"));
    for (const Json& ours : fields.value("ours", Json::array())) {
      const std::string aggregate = ours.at("aggregate").get<std::string>();
      SCOPED_TRACE("ours, group " + aggregate);
      options_.aggregate = read_aggregate(aggregate);
      expect_survivors(ours, window_scores(kernels_, inputs_, options_.window, first_query(), first_query()),
                       inputs_.shape().group());
    }
  }

 private:
  int64_t length() const { return inputs_.shape().tokens; }
  int64_t slots() const { return length() - options_.window; }
  int32_t first_query() const {
    const auto rows = case_.at("params").at("query_positions").get<std::vector<int32_t>>();
    EXPECT_EQ(rows.at(1) - rows.at(0) + 1, options_.window);
    return rows.at(0);
  }

  void check_released(const Json& released) {
    SCOPED_TRACE("released");
    const Json& params = case_.at("params");
    const bool by_kv_head = released.at("granularity") == "kv_head";
    EXPECT_EQ(by_kv_head, params.value("use_gqa", false));
    EXPECT_EQ(released.at("cache_heads").get<int32_t>(),
              by_kv_head ? inputs_.shape().kv_heads : inputs_.shape().num_heads);
    const bool compressed = released.at("compressed").get<bool>();
    EXPECT_EQ(compressed, length() >= options_.budget);
    EXPECT_EQ(released.at("cache_slots").get<int64_t>(), compressed ? options_.budget : length());
    if (by_kv_head) options_.aggregate = read_aggregate(params.at("gqa_func").get<std::string>());
    // As if the last query stood at the last key, wherever it does.
    const auto scores = window_scores(kernels_, inputs_, options_.window, first_query(), static_cast<int32_t>(slots()));
    expect_survivors(released, scores, by_kv_head ? inputs_.shape().group() : 1);
  }

  void expect_survivors(const Json& golden, const std::vector<float>& scores, int32_t group) const {
    // A sum ranks like a mean; only the stored scores differ.
    const double unit = case_.at("method") == "snapkv" ? options_.window : 1.0;
    std::vector<std::vector<int32_t>> keep;
    std::vector<float> all_pooled;
    for (int32_t head = 0; head < inputs_.shape().num_heads; head += group) {
      const GroupScores rows{
          .scores = scores.data() + head * length(), .stride = length(), .group = group, .slots = slots()};
      const std::vector<float> pooled = policy::pooled_scores(options_, rows);
      all_pooled.insert(all_pooled.end(), pooled.begin(), pooled.end());
      keep.push_back(policy::keep_list(options_, rows, length()));
    }
    if (!golden.contains("keep")) {
      for (const auto& list : keep) EXPECT_EQ(static_cast<int64_t>(list.size()), length());
      return;
    }
    expect_scores(manifest_, golden.at("scores"), all_pooled, unit);
    expect_lists(manifest_, golden.at("keep"), keep, head_of);
  }

  const Manifest& manifest_;
  const KernelSet& kernels_;
  const Json& case_;
  const KernelInputs& inputs_;
  KvOptions options_;
};

// Slots shared out among the kv_heads of a layer. The pyramid rule, which gives each layer its `base`, is not ours:
// what it says is taken as given.
void check_shares(const Manifest& manifest, const KernelSet& kernels, const Json& golden_case,
                  const KernelInputs& inputs, const Json& fields) {
  for (const auto& [field, value] : fields.items()) {
    const std::set<std::string> known = {"base",   "compressed", "head_lens",        "scores",
                                         "counts", "budgets",    "counts_ambiguous", "keep"};
    EXPECT_TRUE(known.contains(field)) << "unknown field " << field;
  }
  const Json& params = golden_case.at("params");
  KvOptions options = read_options(params);
  options.aggregate = read_aggregate(params.at("gqa_func").get<std::string>());
  const Shape& shape = inputs.shape();
  const int64_t slots = shape.tokens - options.window;
  const std::vector<float> scores =
      window_scores(kernels, inputs, options.window, static_cast<int32_t>(slots), static_cast<int32_t>(slots));
  std::vector<policy::HeadScores> heads;
  std::vector<float> all;
  for (int32_t head = 0; head < shape.num_heads; head += shape.group()) {
    heads.push_back(
        policy::pooled_scores(options, {scores.data() + head * shape.tokens, shape.tokens, shape.group(), slots}));
    all.insert(all.end(), heads.back().begin(), heads.back().end());
  }
  expect_scores(manifest, fields.at("scores"), all, 1.0);

  const auto base = fields.at("base").get<int64_t>();
  const auto lengths = fields.at("head_lens").get<std::vector<int64_t>>();
  ASSERT_EQ(fields.at("compressed").get<bool>(), base <= slots);
  if (base > slots) {
    EXPECT_EQ(lengths, std::vector<int64_t>(heads.size(), shape.tokens));
    EXPECT_EQ(policy::share_slots(heads, base), std::vector<int64_t>(heads.size(), slots));
    return;
  }
  const auto golden_counts = fields.at("counts").get<std::vector<int64_t>>();
  if (!fields.at("counts_ambiguous").get<bool>()) {
    EXPECT_EQ(policy::top_counts(heads, base * static_cast<int64_t>(heads.size())), golden_counts);
  }
  const auto floor_share = params.at("floor_alpha").get<double>();
  const std::vector<int64_t> budgets = policy::lift_to_floor(golden_counts, base, floor_share);
  EXPECT_EQ(budgets, fields.at("budgets").get<std::vector<int64_t>>());
  const std::vector<int64_t> ours = policy::share_slots(heads, base);
  std::vector<std::vector<int32_t>> keep;
  for (size_t h = 0; h < heads.size(); ++h) {
    EXPECT_EQ(budgets[h] + options.window, lengths.at(h));
    if (floor_share == policy::kFloorShare) {  // ours then differ by what rounding leaves over
      EXPECT_LE(std::abs(ours[h] - budgets[h]), static_cast<int64_t>(heads.size()));
    }
    keep.push_back(policy::keep_best_and_recent(heads[h], budgets[h], shape.tokens));
  }
  expect_lists(manifest, fields.at("keep"), keep, head_of);
}

using CheckLayer = std::function<void(const Manifest&, const KernelSet&, const Json& golden_case, const KernelInputs&,
                                      const Json& fields)>;

void check_layers(const char* method, const KernelSet& kernels, const CheckLayer& check) {
  const Manifest manifest = Manifest::open();
  int layers = 0;
  for (const Json& golden_case : manifest.cases()) {
    if (golden_case.at("method") != method) continue;
    for (const Json& layer : golden_case.at("layers")) {
      const int32_t index = layer.at("layer").get<int32_t>();
      SCOPED_TRACE(golden_case.at("name").get<std::string>() + " layer " + std::to_string(index));
      const KernelInputs inputs(generate(golden_case, index), kernels.kv_type);
      check(manifest, kernels, golden_case, inputs, layer.at("fields"));
      ++layers;
    }
  }
  if (layers == 0) GTEST_SKIP() << manifest.folder() << " has no case of method " << method;
}

void check_survivors(const Manifest& manifest, const KernelSet& kernels, const Json& golden_case,
                     const KernelInputs& inputs, const Json& fields) {
  KvLayer(manifest, kernels, golden_case, inputs).check(fields);
}

class GoldenKv : public testing::TestWithParam<KernelSet> {};

TEST_P(GoldenKv, LatentCompressionMatchesTheReleasedCode) { check_layers("latent", GetParam(), check_survivors); }
TEST_P(GoldenKv, SnapKvMatchesTheReleasedCode) { check_layers("snapkv", GetParam(), check_survivors); }
TEST_P(GoldenKv, SharesAmongKvHeadsMatchTheReleasedCode) { check_layers("adakv", GetParam(), check_shares); }

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenKv, testing::ValuesIn(kernel_sets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace ei::golden
