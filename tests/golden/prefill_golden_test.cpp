// Sparse prefill against the released code: from keys and queries to block lists and attention rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "golden/lists.h"
#include "golden/prefill_profile.h"
#include "golden/tested_method.h"
#include "policy/prefill/growth.h"
#include "policy/prefill/plan_layout.h"
#include "policy/prefill/walk.h"
#include "support/random_kv.h"

namespace ei::golden {
namespace {

using policy::PrefillOptions;
using policy::SparseMode;

void expect_near(const std::vector<float>& ours, const std::vector<float>& golden, double tolerance) {
  ASSERT_EQ(ours.size(), golden.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], golden[i], tolerance) << "element " << i;
}

class PrefillLayer {
 public:
  PrefillLayer(const Manifest& manifest, const Json& golden_case, const Json& fields, const KernelInputs& inputs,
               const KernelSet& kernels, const Profile& profile)
      : manifest_(manifest),
        case_(golden_case),
        fields_(fields),
        inputs_(inputs),
        kernels_(kernels),
        profile_(profile),
        options_(read_prefill_options(golden_case)),
        segments_(profile.rows.num_segments),
        sparse_(golden_case.at("sparse_segments").get<std::vector<int32_t>>()) {}

  void check() {
    static const std::set<std::string> kKnown = {"entropy", "rigid",          "budgets", "counts", "segment_topk",
                                                 "ours",    "count_boundary", "scores",  "P",      "selected",
                                                 "attn",    "attn_rows"};
    for (const auto& [field, value] : fields_.items()) EXPECT_TRUE(kKnown.contains(field)) << "unknown field " << field;
    check_division();
    check_profile();
    check_budgets();
    std::set<std::string> modes;
    for (const char* group : {"selected", "attn"}) {
      if (!fields_.contains(group)) continue;
      for (const auto& [mode, value] : fields_.at(group).items()) modes.insert(mode);
    }
    for (const std::string& mode : modes) check_mode(mode);
  }

 private:
  // Segments, blocks, and which segments are sparse.
  void check_division() {
    EXPECT_EQ(segments_, case_.at("segments").get<int32_t>());
    EXPECT_EQ(profile_.rows.stride, case_.at("blocks").get<int64_t>());
    std::vector<int32_t> sparse;
    for (int32_t segment = 0; segment < segments_; ++segment)
      if (!is_dense_segment(options_, segment, inputs_.shape().tokens)) sparse.push_back(segment);
    EXPECT_EQ(sparse, sparse_);
  }

  void check_profile() {
    const double tolerance = manifest_.tolerance("entropy_abs");
    if (fields_.contains("entropy")) expect_near(profile_.entropy, manifest_.floats(fields_.at("entropy")), tolerance);
    if (fields_.contains("P"))
      expect_near(profile_.probabilities, manifest_.floats(fields_.at("P")), manifest_.tolerance("P_abs"));
    if (fields_.contains("scores")) {
      // Stored from segment 1 on.
      std::vector<float> scores;
      for (int32_t head = 0; head < profile_.rows.kv_heads; ++head)
        scores.insert(scores.end(), profile_.scores.begin() + profile_.rows.offset(head, 1),
                      profile_.scores.begin() + profile_.rows.offset(head + 1, 0));
      expect_near(scores, manifest_.floats(fields_.at("scores")), manifest_.tolerance("scores_prefill"));
    }
    if (!fields_.contains("ours")) return;
    for (const auto& [field, value] : fields_.at("ours").items()) {
      EXPECT_EQ(field, "entropy_scaled");
      expect_near(profile_.entropy_scaled, manifest_.floats(value), tolerance);
    }
  }

  // What is decided on the measured entropies, by the code that a session runs.
  policy::LayerRecords decide(const PrefillOptions& options) const {
    const int layer = options.layer_skip;
    const policy::PrefillShape shape{.layers = layer + 1, .kv_heads = inputs_.shape().kv_heads};
    policy::PrefillWalk walk(policy::make_prefill_method(options, shape), shape);
    walk.begin_prompt(inputs_.shape().tokens);
    walk.begin_chunk(0, inputs_.shape().tokens);
    walk.begin_layer(layer, inputs_.shape().tokens);
    policy::LayerRecords& run = walk.run(layer);
    for (size_t i = 0; i < run.size(); ++i)
      for (size_t h = 0; h < run[i].heads.size(); ++h)
        run[i].heads[h].midrange_entropy = profile_.entropy[h * run.size() + i];
    walk.decide(layer);
    return run;
  }
  policy::LayerRecords decide(SparseMode mode) const {
    PrefillOptions options = options_;
    options.mode = mode;
    return decide(options);
  }
  // The released code counts for segments that read everything as well.
  policy::LayerRecords decide_for_all() const {
    PrefillOptions options = options_;
    options.threshold = 0;
    options.last_dense = false;
    return decide(options);
  }

  // In the order of the golden lists, [kv_heads, segments].
  template <typename Value>
  static std::vector<Value> by_head(const policy::LayerRecords& run, Value policy::HeadRecord::*field) {
    std::vector<Value> values;
    for (size_t h = 0; h < run.front().heads.size(); ++h)
      for (const policy::SegmentRecord& record : run) values.push_back(record.heads[h].*field);
    return values;
  }

  void check_budgets() {
    const policy::LayerRecords run = decide_for_all();
    counts_ = by_head(run, &policy::HeadRecord::blocks);
    if (fields_.contains("rigid")) {
      std::vector<int32_t> rigid;
      for (const policy::HeadRecord& head : run.back().heads) rigid.push_back(head.rigid ? 1 : 0);
      EXPECT_EQ(rigid, manifest_.ints(fields_.at("rigid")));
    }
    if (fields_.contains("budgets"))
      expect_near(by_head(run, &policy::HeadRecord::budget), manifest_.floats(fields_.at("budgets")),
                  manifest_.tolerance("budget_tokens_abs"));
    if (fields_.contains("counts")) check_counts();
    if (fields_.contains("segment_topk")) {
      std::vector<int32_t> largest;
      for (const policy::SegmentRecord& record : collapsed()) largest.push_back(record.heads[0].blocks);
      EXPECT_EQ(largest, manifest_.ints(fields_.at("segment_topk")));
    }
  }

  // counts_ as records, every kv_head with the largest of its segment.
  policy::LayerRecords collapsed() const {
    policy::LayerRecords run = with_counts(decide_for_all());
    for (policy::SegmentRecord& record : run) policy::collapse_counts(record);
    return run;
  }

  policy::LayerRecords with_counts(policy::LayerRecords run) const {
    for (size_t i = 0; i < run.size(); ++i)
      for (size_t h = 0; h < run[i].heads.size(); ++h) run[i].heads[h].blocks = counts_[h * run.size() + i];
    return run;
  }

  void check_counts() {
    // The released code limits the last segment's count once more. It decides nothing: that segment is dense.
    const int64_t rest = inputs_.shape().tokens % options_.segment;
    const int64_t last_limit = profile_.rows.stride - (rest / options_.block + 1);
    const std::vector<int32_t> golden = manifest_.ints(fields_.at("counts"));
    ASSERT_EQ(golden.size(), counts_.size());
    const auto boundary = fields_.value("count_boundary", std::vector<std::vector<int32_t>>());
    for (size_t i = 0; i < counts_.size(); ++i) {
      const int32_t head = static_cast<int32_t>(i) / segments_;
      const int32_t segment = static_cast<int32_t>(i) % segments_;
      if (segment > 0 && segment == segments_ - 1) counts_[i] = std::min(counts_[i], static_cast<int32_t>(last_limit));
      const std::vector<int32_t> at = {head, segment};
      const bool doubtful = std::find(boundary.begin(), boundary.end(), at) != boundary.end();
      if (!doubtful) {
        EXPECT_EQ(counts_[i], golden[i]) << "kv_head " << head << " segment " << segment;
      } else if (counts_[i] != golden[i]) {
        EXPECT_LE(std::abs(counts_[i] - golden[i]), 1) << "kv_head " << head << " segment " << segment;
        counts_[i] = golden[i];  // what follows is compared at the same count
        allowance_used_ = true;
      }
    }
  }

  void check_mode(const std::string& name) {
    SCOPED_TRACE(name);
    const std::optional<SparseMode> mode = policy::sparse_mode_from_name(name);
    ASSERT_TRUE(mode.has_value());
    PrefillOptions options = options_;
    options.mode = *mode;
    const std::vector<float>& values =
        policy::ranks_on_probabilities(options) ? profile_.probabilities : profile_.scores;
    policy::LayerRecords run = decide(*mode);
    // Where a count was one off within what is allowed, what follows is compared at the golden one.
    if (allowance_used_) {
      run = with_counts(std::move(run));
      for (policy::SegmentRecord& record : run)
        if (*mode != SparseMode::kRagged) policy::collapse_counts(record);
    }
    BlockPlan plan;
    policy::lay_out_plan(options.grid(), run, plan);
    kernels_.select_blocks({.rows = profile_.rows, .values = values.data(), .plan = &plan});
    check_lists(name, plan);
    check_attention(name, plan);
  }

  // Where an ambiguous cut fell elsewhere, `plan` continues with the golden list, so that attention is compared alike.
  void check_lists(const std::string& name, BlockPlan& plan) {
    if (!fields_.contains("selected") || !fields_.at("selected").contains(name)) return;
    std::vector<std::vector<int32_t>> ours;
    for (int32_t head = 0; head < plan.kv_heads; ++head) {
      for (const int32_t segment : sparse_) {
        const size_t list = static_cast<size_t>(head * segments_ + segment);
        ours.emplace_back(plan.blocks.begin() + plan.offsets[list], plan.blocks.begin() + plan.offsets[list + 1]);
      }
    }
    const auto row_of = [&](const Json& entry) {
      const auto at = std::find(sparse_.begin(), sparse_.end(), entry.at("segment").get<int32_t>());
      return entry.at("kv_head").get<size_t>() * sparse_.size() + static_cast<size_t>(at - sparse_.begin());
    };
    const Lists golden = expect_lists(manifest_, fields_.at("selected").at(name), ours, row_of);
    // The sparse lists of a plan follow each other as the golden ones do.
    if (golden.indices.size() == plan.blocks.size()) plan.blocks = golden.indices;
  }

  void check_attention(const std::string& name, const BlockPlan& plan) {
    if (!fields_.contains("attn") || !fields_.at("attn").contains(name)) return;
    std::vector<float> out;
    for (const int32_t row : manifest_.ints(fields_.at("attn_rows"))) {
      std::vector<float> attended(static_cast<size_t>(inputs_.q_stride()));
      kernels::AttentionParams params;
      params.q = inputs_.q(row);
      params.q_stride = params.out_stride = inputs_.q_stride();
      params.out = attended.data();
      params.tokens = 1;
      params.num_heads = inputs_.shape().num_heads;
      params.first_position = row;
      params.scale = 1 / std::sqrt(static_cast<float>(inputs_.shape().head_dim));
      params.plan = &plan;
      params.kv = inputs_.kv();
      kernels::run_attention(*kernels_.attention, params, 1);
      out.insert(out.end(), attended.begin(), attended.end());
    }
    expect_near(out, manifest_.floats(fields_.at("attn").at(name)),
                manifest_.tolerance("attn_abs") + kernels_.attention_rounding());
  }

  const Manifest& manifest_;
  const Json& case_;
  const Json& fields_;
  const KernelInputs& inputs_;
  const KernelSet& kernels_;
  const Profile& profile_;
  PrefillOptions options_;
  int32_t segments_;
  std::vector<int32_t> sparse_;
  std::vector<int32_t> counts_;  // [kv_heads, segments]
  bool allowance_used_ = false;
};

const TestedMethod kEntropyInfer("entropyinfer");
const TestedMethod kCritiPrefill("critiprefill");

void check_prefill(const TestedMethod& method, const KernelSet& kernels) {
  const Manifest manifest = Manifest::open();
  int layers = 0;
  for (const Json& golden_case : manifest.cases()) {
    if (golden_case.at("method") != method.name()) continue;
    const PrefillOptions options = read_prefill_options(golden_case);
    ASSERT_TRUE(validate(options).ok());
    std::vector<float> previous;
    for (const Json& layer : golden_case.at("layers")) {
      const int32_t index = layer.at("layer").get<int32_t>();
      SCOPED_TRACE(golden_case.at("name").get<std::string>() + " layer " + std::to_string(index));
      const KernelInputs inputs(generate(golden_case, index), kernels.kv_type);
      const bool fuse = policy::fuses(options, static_cast<int32_t>(index), !previous.empty());
      Profile profile = measure(kernels, options, inputs, fuse ? &previous : nullptr);
      PrefillLayer(manifest, golden_case, layer.at("fields"), inputs, kernels, profile).check();
      previous = std::move(profile.probabilities);
      ++layers;
    }
  }
  EXPECT_GT(layers, 0) << manifest.folder() << " has no case of method " << method.name();
}

// In the tree; another folder of the same layout may have others.
TEST(Golden, EveryCaseOfTheTreeIsThere) {
  const Manifest manifest = Manifest::open();
  if (manifest.folder() != EI_SOURCE_DIR "/tests/golden/data") GTEST_SKIP() << manifest.folder();
  std::set<std::string> names;
  for (const Json& golden_case : manifest.cases()) names.insert(golden_case.at("name").get<std::string>());
  EXPECT_EQ(names, (std::set<std::string>{"A1", "A10", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9",
                                          "B1", "B2",  "C1", "C2", "C3", "C4", "C5", "D1", "D2", "D3",
                                          "E1", "E2",  "E3", "E4", "E5", "E6", "F1", "F2", "F3"}));
}

class GoldenPrefill : public testing::TestWithParam<KernelSet> {};

TEST_P(GoldenPrefill, EntropyInferMatchesTheReleasedCode) { check_prefill(kEntropyInfer, GetParam()); }
TEST_P(GoldenPrefill, CritiPrefillMatchesTheReleasedCode) { check_prefill(kCritiPrefill, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenPrefill, testing::ValuesIn(kernel_sets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace ei::golden
