// KV compression against the released code: from recorded queries to keep lists.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/generator.h"
#include "golden/lists.h"
#include "kernels/reference/profile_reference.h"
#include "policy/kv_recipe.h"

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

class KvLayer {
 public:
  KvLayer(const Manifest& manifest, const Json& golden_case, const KernelInputs& inputs)
      : manifest_(manifest), case_(golden_case), inputs_(inputs), options_(read_options(golden_case.at("params"))) {}

  void check(const Json& fields) {
    for (const auto& [field, value] : fields.items())
      EXPECT_TRUE(field == "released" || field == "ours") << "unknown field " << field;
    check_released(fields.at("released"));
    for (const Json& ours : fields.value("ours", Json::array())) {
      const std::string aggregate = ours.at("aggregate").get<std::string>();
      SCOPED_TRACE("ours, group " + aggregate);
      options_.aggregate = read_aggregate(aggregate);
      expect_survivors(ours, window_scores(first_query()), inputs_.shape().group());
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

  // Mean attention of the window to each slot, [num_heads, length]; the queries are masked from `first_position` on.
  std::vector<float> window_scores(int32_t first_position) const {
    const Shape& shape = inputs_.shape();
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < options_.window; ++i) positions.push_back(first_position + i);
    std::vector<float> scores(static_cast<size_t>(shape.num_heads * shape.tokens));
    kernels::reference_window_scores({.q = inputs_.q(first_query()),
                                      .q_stride = inputs_.q_stride(),
                                      .positions = positions.data(),
                                      .window = options_.window,
                                      .num_heads = shape.num_heads,
                                      .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                                      .kv = inputs_.kv(),
                                      .scores = scores.data(),
                                      .score_stride = shape.tokens});
    return scores;
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
    const auto scores = window_scores(static_cast<int32_t>(slots()));
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
      std::vector<float> aggregated(static_cast<size_t>(slots()));
      std::vector<float> pooled(aggregated.size());
      policy::aggregate_group(rows, options_.aggregate, aggregated);
      policy::pool_scores(aggregated, options_.pooling, options_.kernel, pooled);
      all_pooled.insert(all_pooled.end(), pooled.begin(), pooled.end());
      keep.push_back(policy::keep_list(options_, rows, length()));
    }
    if (!golden.contains("keep")) {
      for (const auto& list : keep) EXPECT_EQ(static_cast<int64_t>(list.size()), length());
      return;
    }
    const std::vector<float> expected = manifest_.floats(golden.at("scores"));
    ASSERT_EQ(all_pooled.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double golden_score = static_cast<double>(expected[i]);
      EXPECT_NEAR(static_cast<double>(all_pooled[i]) * unit, golden_score,
                  manifest_.tolerance("scores_kv_rel") * std::abs(golden_score) + manifest_.tolerance("scores_kv_abs"))
          << "element " << i;
    }
    expect_lists(manifest_, golden.at("keep"), keep, [](const Json& entry) { return entry.at("head").get<size_t>(); });
  }

  const Manifest& manifest_;
  const Json& case_;
  const KernelInputs& inputs_;
  KvOptions options_;
};

void check_compression(const char* method) {
  const Manifest manifest = Manifest::open();
  int layers = 0;
  for (const Json& golden_case : manifest.cases()) {
    if (golden_case.at("method") != method) continue;
    for (const Json& layer : golden_case.at("layers")) {
      const int32_t index = layer.at("layer").get<int32_t>();
      SCOPED_TRACE(golden_case.at("name").get<std::string>() + " layer " + std::to_string(index));
      const KernelInputs inputs(generate(golden_case, index));
      KvLayer(manifest, golden_case, inputs).check(layer.at("fields"));
      ++layers;
    }
  }
  if (layers == 0) GTEST_SKIP() << manifest.folder() << " has no case of method " << method;
}

TEST(Golden, LatentCompressionMatchesTheReleasedCode) { check_compression("latent"); }
TEST(Golden, SnapKvMatchesTheReleasedCode) { check_compression("snapkv"); }

}  // namespace
}  // namespace ei::golden
