// The cases of prompts through the engine's own path: keys go into a store, queries to the planner of the preset, what
// it plans to attention. In one chunk and in several.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "golden/generator.h"
#include "golden/lists.h"
#include "golden/prefill_profile.h"
#include "kv/store.h"
#include "policy/registry.h"
#include "sparse/planner.h"

namespace ei::golden {
namespace {

const ScratchSlot kQueries, kAttended;

// The preset that bears the method's name, with the numbers of the case: nothing else is changed.
policy::PrefillOptions preset_options(const Json& golden_case) {
  const bool fixed = golden_case.at("method") == "critiprefill";
  policy::PrefillOptions options = policy::find_method(fixed ? "critiprefill" : "entropyinfer-released")->prefill;
  const policy::PrefillOptions given = read_prefill_options(golden_case);
  options.segment = given.segment;
  options.block = given.block;
  options.threshold = given.threshold;
  options.base_budget = given.base_budget;
  options.layer_fusion = given.layer_fusion;
  options.e_t = given.e_t;
  options.delta_t = given.delta_t;
  options.alpha = given.alpha;
  return options;
}

// A prompt that is read: the layers of a case where they belong, in front of them one that is left dense.
class GoldenPrompt {
 public:
  GoldenPrompt(const std::string& backend, const Json& golden_case, const policy::PrefillOptions& options)
      : shape_(shape_of(golden_case)),
        backend_(create_backend(backend, {.threads = 1, .isa = {}, .dense = {}}).value()),
        stream_(backend_->new_stream(nullptr).value()) {
    for (const Json& layer : golden_case.at("layers")) {
      layers_.push_back(layer.at("layer").get<int>());
      inputs_.push_back(generate(golden_case, layers_.back()));
    }
    const int count = layers_.back() + 1;
    store_ = std::make_unique<kv::Store>(
        *backend_, kv::StoreConfig{.layers = count, .kv_heads = shape_.kv_heads, .head_dim = shape_.head_dim});
    const sparse::PlannerShape planned{.heads = shape_.num_heads,
                                       .kv_heads = shape_.kv_heads,
                                       .head_dim = shape_.head_dim,
                                       .attention_scale = scale(),
                                       .products = 1e9,
                                       .global = std::vector<uint8_t>(static_cast<size_t>(count), 1)};
    EXPECT_TRUE(sparse::Planner::served(*backend_, options, planned).ok());
    planner_ = std::make_unique<sparse::Planner>(*backend_, options, planned);
    chosen_.resize(layers_.size());
    attended_.resize(layers_.size());
    for (std::vector<float>& rows : attended_) rows.resize(static_cast<size_t>(shape_.tokens * width()));
  }

  void read(int64_t batch) {
    ASSERT_TRUE(store_->reserve(shape_.tokens).ok());
    ASSERT_TRUE(planner_->begin_prompt(shape_.tokens).ok());
    for (int64_t first = 0; first < shape_.tokens;) {
      const int64_t end = planner_->chunk_end(first, batch);
      read_chunk(first, end - first);
      first = end;
    }
  }

  // One list per kv_head and segment of these, kv_head outer; empty where a segment reads everything.
  std::vector<std::vector<int32_t>> lists(size_t index, const std::vector<int32_t>& segments) const {
    std::vector<std::vector<int32_t>> all;
    for (int32_t head = 0; head < shape_.kv_heads; ++head)
      for (const int32_t segment : segments) {
        const auto found = chosen_[index].find({head, segment});
        all.push_back(found == chosen_[index].end() ? std::vector<int32_t>() : found->second);
      }
    return all;
  }
  std::vector<float> attended(size_t index, const std::vector<int32_t>& rows) const {
    std::vector<float> out;
    for (const int32_t row : rows)
      out.insert(out.end(), attended_[index].begin() + row * width(), attended_[index].begin() + (row + 1) * width());
    return out;
  }

 private:
  int64_t width() const { return int64_t{shape_.num_heads} * shape_.head_dim; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }

  void read_chunk(int64_t first, int64_t tokens) {
    stream_->enter(Phase::kPrompt, shape_.tokens);
    ASSERT_TRUE(planner_->begin_chunk(*stream_, first, tokens).ok());
    const Matrix q = stream_->scratch(kQueries, tokens, width()).value();
    const Matrix out = stream_->scratch(kAttended, tokens, width()).value();
    std::vector<float> rows(static_cast<size_t>(tokens * width()));
    for (int layer = 0; layer < layers_.front(); ++layer) store_->append(layer, tokens);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Inputs& inputs = inputs_[i];
      append(layers_[i], inputs, first, tokens);
      for (int64_t head = 0; head < shape_.num_heads; ++head)
        for (int64_t token = 0; token < tokens; ++token)
          std::copy_n(inputs.q.begin() + (head * shape_.tokens + first + token) * shape_.head_dim, shape_.head_dim,
                      rows.begin() + token * width() + head * shape_.head_dim);
      ASSERT_TRUE(backend_->copy_in(q.data, rows.data(), rows.size() * sizeof(float)).ok());
      const KvView view = store_->view(layers_[i]);
      const BlockPlan* plan = planner_->record(*stream_, layers_[i], q, view, tokens);
      stream_->attention({.q = q.data,
                          .q_stride = q.stride,
                          .out = out.data,
                          .out_stride = out.stride,
                          .tokens = tokens,
                          .prompt = true,
                          .num_heads = shape_.num_heads,
                          .first_position = static_cast<int32_t>(first),
                          .scale = scale(),
                          .plan = plan,
                          .kv = view});
      ASSERT_TRUE(stream_->synchronize().ok());  // the next layer's queries go to the same place
      ASSERT_TRUE(stream_->read(out, attended_[i].data() + first * width()).ok());
      if (plan != nullptr) remember(i, *plan);
    }
    planner_->finish_chunk();
  }

  void append(int layer, const Inputs& inputs, int64_t first, int64_t tokens) {
    const KvAppend append = store_->append(layer, tokens);
    std::vector<int64_t> written(static_cast<size_t>(shape_.kv_heads));  // rows of each kv_head
    for (const KvAppend::Run& run : append.runs) {
      int64_t& row = written[static_cast<size_t>(run.kv_head)];
      const int64_t from = (run.kv_head * shape_.tokens + first + row) * shape_.head_dim;
      const int64_t count = run.count * shape_.head_dim;
      std::copy_n(inputs.k.begin() + from, count,
                  reinterpret_cast<float*>(plain_key(append.shape, run.page, run.slot)));
      std::copy_n(inputs.v.begin() + from, count,
                  reinterpret_cast<float*>(plain_value(append.shape, run.page, run.slot)));
      row += run.count;
    }
  }

  void remember(size_t index, const BlockPlan& plan) {
    for (int32_t head = 0; head < plan.kv_heads; ++head)
      for (int32_t i = 0; i < plan.num_segments; ++i) {
        const size_t list = plan.list(head, i);
        chosen_[index][{head, plan.first_segment + i}] = {plan.blocks.begin() + plan.offsets[list],
                                                          plan.blocks.begin() + plan.offsets[list + 1]};
      }
  }

  Shape shape_;
  std::vector<int> layers_;  // of the case
  std::vector<Inputs> inputs_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<kv::Store> store_;
  std::unique_ptr<sparse::Planner> planner_;
  std::vector<std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>>> chosen_;  // by kv_head and segment
  std::vector<std::vector<float>> attended_;                                         // [tokens, heads * head_dim]
};

class GoldenPlanner : public testing::TestWithParam<const char*> {
 protected:
  // Returns how many lists were compared.
  static size_t check_layer(const Manifest& manifest, const Json& golden_case, size_t index, const std::string& mode,
                            const GoldenPrompt& prompt) {
    const auto sparse = golden_case.at("sparse_segments").get<std::vector<int32_t>>();
    const Json& fields = golden_case.at("layers").at(index).at("fields");
    if (!fields.contains("selected") || !fields.at("selected").contains(mode)) return 0;
    const auto row_of = [&](const Json& entry) {
      const auto at = std::find(sparse.begin(), sparse.end(), entry.at("segment").get<int32_t>());
      return entry.at("kv_head").get<size_t>() * sparse.size() + static_cast<size_t>(at - sparse.begin());
    };
    const std::vector<std::vector<int32_t>> ours = prompt.lists(index, sparse);
    const Lists golden = expect_lists(manifest, fields.at("selected").at(mode), ours, row_of);
    bool same = golden.size() == ours.size();
    for (size_t i = 0; same && i < ours.size(); ++i) same = golden.list(i) == ours[i];
    // Where a doubtful cut fell elsewhere other blocks are read.
    if (!same || !fields.contains("attn") || !fields.at("attn").contains(mode)) return ours.size();
    const std::vector<float> attended = prompt.attended(index, manifest.ints(fields.at("attn_rows")));
    const std::vector<float> expected = manifest.floats(fields.at("attn").at(mode));
    EXPECT_EQ(attended.size(), expected.size());
    for (size_t i = 0; i < std::min(attended.size(), expected.size()); ++i)
      EXPECT_NEAR(attended[i], expected[i], manifest.tolerance("attn_abs")) << "element " << i;
    return ours.size();
  }

  // `batches`: tokens of a chunk at most.
  void check(const char* method, const std::vector<std::string>& modes, const std::vector<int64_t>& batches) {
    const Manifest manifest = Manifest::open();
    size_t compared = 0;
    for (const Json& golden_case : manifest.cases()) {
      if (golden_case.at("method") != method) continue;
      for (const std::string& mode : modes) {
        for (const int64_t batch : batches) {
          SCOPED_TRACE(golden_case.at("name").get<std::string>() + " " + mode + " in chunks of " +
                       std::to_string(batch));
          policy::PrefillOptions options = preset_options(golden_case);
          const auto named = policy::sparse_mode_from_name(mode);
          ASSERT_TRUE(named.has_value());
          options.mode = *named;
          GoldenPrompt prompt(GetParam(), golden_case, options);
          prompt.read(batch);
          for (size_t i = 0; i < golden_case.at("layers").size(); ++i) {
            SCOPED_TRACE("layer " + std::to_string(i));
            compared += check_layer(manifest, golden_case, i, mode, prompt);
          }
        }
      }
    }
    EXPECT_GT(compared, 0u) << manifest.folder() << " has no case of method " << method;
  }
};

TEST_P(GoldenPlanner, ReadsTheBlocksThatCritiPrefillReads) {
  check("critiprefill", {"released", "collapsed"}, {1 << 20, 1});
}
// As released it looks at the whole prompt before it decides: one chunk.
TEST_P(GoldenPlanner, ReadsTheBlocksThatEntropyInferReads) {
  if (std::string(GetParam()) == "reference") GTEST_SKIP() << "minutes of plain loops, which other tests compare with";
  check("entropyinfer", {"released", "collapsed", "ragged"}, {1 << 20});
}

// With layer fusion, as published, ranks are by probability whatever the mode: the preset itself is the released rule.
TEST(GoldenPreset, OfCritiPrefillReadsWhatTheReleasedCodeReads) {
  const policy::PrefillOptions preset = policy::find_method("critiprefill")->prefill;
  EXPECT_TRUE(preset.layer_fusion);
  EXPECT_TRUE(policy::ranks_on_probabilities(preset));
  EXPECT_EQ(preset.segment, 512);
  EXPECT_EQ(preset.block, 32);
  EXPECT_EQ(preset.threshold, 4096);
  EXPECT_EQ(preset.base_budget, 2048);
  EXPECT_EQ(preset.layer_skip, 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenPlanner, testing::Values("cpu", "reference"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ei::golden
