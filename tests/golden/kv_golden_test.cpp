// KV compression against the released code: from recorded queries to keep lists.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "golden/generator.h"
#include "golden/kernel_set.h"
#include "golden/kv_case.h"
#include "golden/lists.h"
#include "golden/tested_method.h"
#include "policy/kv/head_share.h"
#include "policy/kv/layer_share.h"
#include "policy/registry.h"

namespace ei::golden {
namespace {

using policy::KvGranularity;
using policy::KvMethod;
using policy::KvOptions;
using policy::LayerRating;

std::unique_ptr<KvMethod> make_method(const KvOptions& options, const Shape& shape, int32_t layers) {
  return policy::make_kv_method(options, {.layers = layers, .heads = shape.num_heads, .kv_heads = shape.kv_heads});
}

LayerRating rate(const KvMethod& method, const Shape& shape, const std::vector<float>& attention) {
  const std::vector<int64_t> lengths(static_cast<size_t>(shape.kv_heads), shape.tokens);
  return method.rate({.layer = 0, .lengths = lengths, .attention = attention.data(), .stride = shape.tokens});
}

std::vector<float> all_scores(const LayerRating& rating) {
  std::vector<float> all;
  for (const policy::SlotScores& scores : rating.sets) all.insert(all.end(), scores.begin(), scores.end());
  return all;
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
        options_(read_kv_options(golden_case)) {}

  void check(const Json& fields) {
    for (const auto& [field, value] : fields.items())
      EXPECT_TRUE(field == "released" || field == "ours") << "unknown field " << field;
    check_released(fields.at("released"));
    for (const Json& ours : fields.value("ours", Json::array())) {
      const std::string aggregate = ours.at("aggregate").get<std::string>();
      SCOPED_TRACE("ours, group " + aggregate);
      options_.aggregate = read_aggregate(aggregate);
      options_.granularity = KvGranularity::kKvHead;
      expect_survivors(ours, window_scores(kernels_, inputs_, options_.window, first_query(), first_query()));
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
    options_.granularity = by_kv_head ? KvGranularity::kKvHead : KvGranularity::kHead;
    // As if the last query stood at the last key, wherever it does.
    const auto scores = window_scores(kernels_, inputs_, options_.window, first_query(), static_cast<int32_t>(slots()));
    expect_survivors(released, scores);
  }

  void expect_survivors(const Json& golden, const std::vector<float>& scores) const {
    // A sum ranks like a mean; only the stored scores differ.
    const double unit = case_.at("method") == "snapkv" ? options_.window : 1.0;
    const std::unique_ptr<KvMethod> method = make_method(options_, inputs_.shape(), 1);
    const LayerRating rating = rate(*method, inputs_.shape(), scores);
    const std::vector<KeepList> keep = method->choose(rating, options_.budget);
    if (!golden.contains("keep")) {
      for (const auto& list : keep) EXPECT_EQ(static_cast<int64_t>(list.size()), length());
      return;
    }
    expect_scores(manifest_, golden.at("scores"), all_scores(rating), unit);
    expect_lists(manifest_, golden.at("keep"), keep, head_of);
  }

  const Manifest& manifest_;
  const KernelSet& kernels_;
  const Json& case_;
  const KernelInputs& inputs_;
  KvOptions options_;
};

// Slots shared out among the layers, and among the kv_heads of a layer.
void check_shares(const Manifest& manifest, const KernelSet& kernels, const Json& golden_case,
                  const KernelInputs& inputs, int32_t layer, const Json& fields) {
  for (const auto& [field, value] : fields.items()) {
    const std::set<std::string> known = {"base",   "compressed", "head_lens",        "scores",
                                         "counts", "budgets",    "counts_ambiguous", "keep"};
    EXPECT_TRUE(known.contains(field)) << "unknown field " << field;
  }
  const Json& params = golden_case.at("params");
  KvOptions options = read_kv_options(golden_case);
  options.aggregate = read_aggregate(params.at("gqa_func").get<std::string>());
  EXPECT_EQ(options.layers == policy::KvLayers::kPyramid, params.at("pyramid").get<bool>()) << "as the preset has it";
  params.at("floor_alpha").get_to(options.floor_share);
  const Shape& shape = inputs.shape();
  const int64_t slots = shape.tokens - options.window;
  const auto layers = params.at("n_layer").get<int32_t>();
  const std::unique_ptr<KvMethod> method = make_method(options, shape, layers);
  const LayerRating rating =
      rate(*method, shape,
           window_scores(kernels, inputs, options.window, static_cast<int32_t>(slots), static_cast<int32_t>(slots)));
  expect_scores(manifest, fields.at("scores"), all_scores(rating), 1.0);

  const auto base = fields.at("base").get<int64_t>();
  const std::vector<policy::LayerState> states(static_cast<size_t>(layers), {.held = shape.tokens});
  int64_t budget = method->layer_budgets(options.budget, states)[static_cast<size_t>(layer)];
  if (shape.tokens <= options.budget && options.layers == policy::KvLayers::kPyramid) {
    // Released drops a slot of some layers although everything would fit; ours keeps all. The rule itself is the same.
    EXPECT_EQ(budget, options.budget);
    budget =
        policy::pyramid_slots(options, options.budget - options.window, layers, slots)[static_cast<size_t>(layer)] +
        options.window;
  }
  EXPECT_EQ(budget, base + options.window);
  const auto lengths = fields.at("head_lens").get<std::vector<int64_t>>();
  ASSERT_EQ(fields.at("compressed").get<bool>(), base <= slots);
  const std::vector<KeepList> chosen = method->choose(rating, budget);
  if (base > slots) {
    for (size_t h = 0; h < chosen.size(); ++h) EXPECT_EQ(static_cast<int64_t>(chosen[h].size()), lengths.at(h));
    return;
  }
  const auto golden_counts = fields.at("counts").get<std::vector<int64_t>>();
  const std::vector<int64_t> budgets = policy::lift_to_floor(golden_counts, base, options.floor_share);
  EXPECT_EQ(budgets, fields.at("budgets").get<std::vector<int64_t>>());
  if (!fields.at("counts_ambiguous").get<bool>()) {
    EXPECT_EQ(policy::top_counts(rating.sets, base * static_cast<int64_t>(rating.sets.size())), golden_counts);
    for (size_t h = 0; h < chosen.size(); ++h) EXPECT_EQ(static_cast<int64_t>(chosen[h].size()), lengths.at(h));
    expect_lists(manifest, fields.at("keep"), chosen, head_of);
    return;
  }
  // The cut fell between scores closer than float32 can tell: the counts are taken as given.
  std::vector<KeepList> keep;
  for (size_t h = 0; h < rating.sets.size(); ++h)
    keep.push_back(policy::keep_best_and_recent(rating.sets[h], budgets[h], shape.tokens));
  expect_lists(manifest, fields.at("keep"), keep, head_of);
}

using CheckLayer = std::function<void(const Manifest&, const KernelSet&, const Json& golden_case, const KernelInputs&,
                                      int32_t layer, const Json& fields)>;

const TestedMethod kLatent("latent");
const TestedMethod kSnapKv("snapkv");
const TestedMethod kAdaKv("adakv");

void check_layers(const TestedMethod& method, const KernelSet& kernels, const CheckLayer& check) {
  const Manifest manifest = Manifest::open();
  int layers = 0;
  for (const Json& golden_case : manifest.cases()) {
    if (golden_case.at("method") != method.name()) continue;
    for (const Json& layer : golden_case.at("layers")) {
      const int32_t index = layer.at("layer").get<int32_t>();
      SCOPED_TRACE(golden_case.at("name").get<std::string>() + " layer " + std::to_string(index));
      const KernelInputs inputs(generate(golden_case, index), kernels.kv_type);
      check(manifest, kernels, golden_case, inputs, index, layer.at("fields"));
      ++layers;
    }
  }
  EXPECT_GT(layers, 0) << manifest.folder() << " has no case of method " << method.name();
}

void check_survivors(const Manifest& manifest, const KernelSet& kernels, const Json& golden_case,
                     const KernelInputs& inputs, int32_t /*layer*/, const Json& fields) {
  KvLayer(manifest, kernels, golden_case, inputs).check(fields);
}

class GoldenKv : public testing::TestWithParam<KernelSet> {};

TEST_P(GoldenKv, LatentCompressionMatchesTheReleasedCode) { check_layers(kLatent, GetParam(), check_survivors); }
TEST_P(GoldenKv, SnapKvMatchesTheReleasedCode) { check_layers(kSnapKv, GetParam(), check_survivors); }
TEST_P(GoldenKv, SharesAmongKvHeadsMatchTheReleasedCode) { check_layers(kAdaKv, GetParam(), check_shares); }

// Of every method whose released code is held to, in every variant that a preset stands for, and of no other.
TEST(Golden, EveryMethodWithReleasedCodeHasCases) {
  const Manifest manifest = Manifest::open();
  std::map<std::string, int> cases = {{"entropyinfer", 0},     {"critiprefill", 0}, {"latent", 0},
                                      {"latent of groups", 0}, {"snapkv", 0},       {"adakv", 0},
                                      {"adakv, pyramid", 0}};
  for (const Json& golden_case : manifest.cases()) {
    std::string name = golden_case.at("method").get<std::string>();
    const Json& params = golden_case.at("params");
    if (name == "latent" && params.at("use_gqa").get<bool>()) name += " of groups";
    if (name == "adakv" && params.at("pyramid").get<bool>()) name += ", pyramid";
    ASSERT_TRUE(cases.contains(name)) << "nothing tests cases of " << name;
    ++cases[name];
  }
  for (const auto& [name, count] : cases) EXPECT_GT(count, 0) << manifest.folder() << " has no case of " << name;
}

// Cases set window, pooling, floor and budget themselves. In one of each method all but the budget is the preset's, so
// that the preset is what the released code is held to.
TEST(GoldenPreset, OfEachKvMethodIsACaseButForItsBudget) {
  const Manifest manifest = Manifest::open();
  if (manifest.folder() != EI_SOURCE_DIR "/tests/golden/data") GTEST_SKIP() << manifest.folder();
  for (const char* name : {"latent", "snapkv", "adakv", "ada-pyramid"}) {
    const KvOptions preset = policy::find_kv_rule({name})->preset;
    EXPECT_EQ(preset.granularity, KvGranularity::kKvHead) << name;
    EXPECT_EQ(preset.budget, 1024) << name;
    bool found = false;
    for (const Json& golden_case : manifest.cases()) {
      const Json& params = golden_case.at("params");
      if (golden_case.at("method") == "entropyinfer" || golden_case.at("method") == "critiprefill") continue;
      const KvOptions options = read_kv_options(golden_case);
      found = found || (options.rule == preset.rule && options.window == preset.window &&
                        options.kernel == preset.kernel && options.pooling == preset.pooling &&
                        read_aggregate(params.value("gqa_func", "mean")) == preset.aggregate &&
                        params.value("floor_alpha", preset.floor_share) == preset.floor_share);
    }
    EXPECT_TRUE(found) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenKv, testing::ValuesIn(kernel_sets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace ei::golden
