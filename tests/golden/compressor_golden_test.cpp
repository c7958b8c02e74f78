// The same cases through the engine's own path: queries go to the observer, keys and values into a store, and the
// compressor drops what the method does not keep. What is left must be the golden lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "golden/generator.h"
#include "golden/kv_case.h"
#include "golden/lists.h"
#include "kv/compressor.h"

namespace ei::golden {
namespace {

// A cache that holds the layers of a case, as a prompt would have left it.
class GoldenCache {
 public:
  GoldenCache(const std::string& backend, const Json& golden_case, const policy::KvOptions& options)
      : shape_(shape_of(golden_case)),
        backend_(create_backend(backend, {.threads = 1, .isa = {}, .dense = {}}).value()),
        stream_(backend_->new_stream(nullptr).value()),
        store_(*backend_, {.layers = static_cast<int>(golden_case.at("layers").size()),
                           .kv_heads = shape_.kv_heads,
                           .head_dim = shape_.head_dim}),
        compressor_(kv::Compressor::create(*backend_, options,
                                           {.heads = shape_.num_heads,
                                            .kv_heads = shape_.kv_heads,
                                            .head_dim = shape_.head_dim,
                                            .attention_scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim)),
                                            .windows = std::vector<int32_t>(golden_case.at("layers").size(), 0),
                                            .ropes = {}})
                        .value()) {
    EXPECT_TRUE(store_.reserve(shape_.tokens).ok());
    const int64_t observed = observed_of(golden_case);
    for (const Json& layer : golden_case.at("layers")) {
      const int index = store_layers_++;
      const Inputs inputs = generate(golden_case, layer.at("layer").get<int32_t>());
      fill(index, inputs);
      observe(index, inputs, observed);
    }
    compressor_.advance(0, observed);
  }

  void compress() { ASSERT_TRUE(compressor_.compress(*stream_, store_).ok()); }

  std::vector<KeepList> kept(int layer) const {
    std::vector<KeepList> lists;
    for (const KvHeadView& head : store_.view(layer).heads) {
      KeepList& list = lists.emplace_back();
      for (int64_t slot = 0; slot < head.length; ++slot) list.push_back(head.position(slot));
    }
    return lists;
  }

 private:
  // Rows whose queries have been seen: all, or those before the last key, whose query is yet to come.
  int64_t observed_of(const Json& golden_case) const {
    const Json& params = golden_case.at("params");
    if (!params.contains("query_positions")) return shape_.tokens;
    return params.at("query_positions").at(1).get<int64_t>() + 1;
  }

  void fill(int layer, const Inputs& inputs) {
    const KvAppend append = store_.append(layer, shape_.tokens);
    std::vector<int64_t> written(static_cast<size_t>(shape_.kv_heads));  // rows of each kv_head
    for (const KvAppend::Run& run : append.runs) {
      int64_t& row = written[static_cast<size_t>(run.kv_head)];
      const int64_t from = (run.kv_head * shape_.tokens + row) * shape_.head_dim;
      const int64_t count = run.count * shape_.head_dim;
      std::copy_n(inputs.k.begin() + from, count,
                  reinterpret_cast<float*>(plain_key(append.shape, run.page, run.slot)));
      std::copy_n(inputs.v.begin() + from, count,
                  reinterpret_cast<float*>(plain_value(append.shape, run.page, run.slot)));
      row += run.count;
    }
  }

  void observe(int layer, const Inputs& inputs, int64_t tokens) {
    const int64_t width = int64_t{shape_.num_heads} * shape_.head_dim;
    std::vector<float> rows(static_cast<size_t>(tokens * width));  // [tokens, heads, head_dim]
    for (int64_t head = 0; head < shape_.num_heads; ++head)
      for (int64_t token = 0; token < tokens; ++token)
        std::copy_n(inputs.q.begin() + (head * shape_.tokens + token) * shape_.head_dim, shape_.head_dim,
                    rows.begin() + token * width + head * shape_.head_dim);
    const Matrix queries{rows.data(), tokens, width, width};
    ASSERT_TRUE(compressor_.record(*stream_, layer, queries, 0, store_.view(layer)).ok());
    ASSERT_TRUE(stream_->synchronize().ok());
  }

  Shape shape_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  kv::Store store_;
  kv::Compressor compressor_;
  int store_layers_ = 0;
};

size_t row_of_head(const Json& entry) { return entry.at("head").get<size_t>(); }

// What a kv_head keeps when each of its heads keeps its own.
std::vector<KeepList> united(const Lists& heads, int32_t group) {
  std::vector<KeepList> all;
  for (size_t first = 0; first < heads.size(); first += static_cast<size_t>(group)) {
    std::set<int32_t> slots;
    for (size_t head = first; head < first + static_cast<size_t>(group); ++head)
      for (const int32_t slot : heads.list(head)) slots.insert(slot);
    all.emplace_back(slots.begin(), slots.end());
  }
  return all;
}

bool cut_in_doubt(const Json& golden) {
  const Json doubtful = golden.value("ambiguous", Json::array());
  return std::any_of(doubtful.begin(), doubtful.end(), [](const Json& one) { return one.at("kind") == "near"; });
}

class GoldenCompressor : public testing::TestWithParam<const char*> {
 protected:
  // Of every case of the method: `check` says how many lists it has compared.
  template <typename Check>
  void for_cases(const char* method, Check check) {
    const Manifest manifest = Manifest::open();
    size_t compared = 0;
    for (const Json& golden_case : manifest.cases()) {
      if (golden_case.at("method") != method) continue;
      SCOPED_TRACE(golden_case.at("name").get<std::string>());
      compared += check(manifest, golden_case);
    }
    EXPECT_GT(compared, 0u) << manifest.folder();
  }

  // One layer, whose heads choose together or each for itself.
  size_t check_survivors(const Manifest& manifest, const Json& golden_case) {
    size_t compared = 0;
    const Json& fields = golden_case.at("layers").at(0).at("fields");
    policy::KvOptions options = read_kv_options(golden_case);
    for (const Json& ours : fields.value("ours", Json::array())) {
      options.granularity = policy::KvGranularity::kKvHead;
      options.aggregate = read_aggregate(ours.at("aggregate").get<std::string>());
      GoldenCache cache(GetParam(), golden_case, options);
      cache.compress();
      if (!ours.contains("keep")) continue;
      compared += expect_lists(manifest, ours.at("keep"), cache.kept(0), row_of_head).size();
    }
    const Json& released = fields.at("released");
    if (golden_case.at("method") != "snapkv") return compared;  // masked by other positions than the true ones
    options.granularity = policy::KvGranularity::kHead;
    options.aggregate = policy::GroupAggregate::kMean;
    GoldenCache cache(GetParam(), golden_case, options);
    cache.compress();
    const Shape shape = shape_of(golden_case);
    if (!released.contains("keep")) {
      for (const KeepList& list : cache.kept(0)) EXPECT_EQ(static_cast<int64_t>(list.size()), shape.tokens);
      return compared + 1;
    }
    if (cut_in_doubt(released.at("keep"))) return compared;
    EXPECT_EQ(cache.kept(0), united(manifest.lists(released.at("keep").at("lists")), shape.group()));
    return compared + 1;
  }

  // All layers of a case at once, as a pyramid divides them.
  size_t check_shares(const Manifest& manifest, const Json& golden_case) {
    const Json& params = golden_case.at("params");
    policy::KvOptions options = read_kv_options(golden_case);
    options.aggregate = read_aggregate(params.at("gqa_func").get<std::string>());
    params.at("floor_alpha").get_to(options.floor_share);
    EXPECT_EQ(params.at("n_layer").get<size_t>(), golden_case.at("layers").size());
    GoldenCache cache(GetParam(), golden_case, options);
    cache.compress();
    const int64_t tokens = shape_of(golden_case).tokens;
    size_t compared = 0;
    for (size_t layer = 0; layer < golden_case.at("layers").size(); ++layer) {
      SCOPED_TRACE(layer);
      const Json& fields = golden_case.at("layers").at(layer).at("fields");
      const std::vector<KeepList> kept = cache.kept(static_cast<int>(layer));
      // Released drops a slot of some layers although everything would fit; ours keeps all.
      if (!fields.at("compressed").get<bool>() || tokens <= options.budget) {
        for (const KeepList& list : kept) EXPECT_EQ(static_cast<int64_t>(list.size()), tokens);
        ++compared;
        continue;
      }
      if (fields.at("counts_ambiguous").get<bool>()) continue;
      compared += expect_lists(manifest, fields.at("keep"), kept, row_of_head).size();
    }
    return compared;
  }
};

TEST_P(GoldenCompressor, LeavesWhatLatentCompressionKeeps) {
  for_cases("latent", [this](const auto&... of) { return check_survivors(of...); });
}
TEST_P(GoldenCompressor, LeavesWhatSnapKvKeeps) {
  for_cases("snapkv", [this](const auto&... of) { return check_survivors(of...); });
}
TEST_P(GoldenCompressor, LeavesWhatAdaKvAndItsPyramidKeep) {
  for_cases("adakv", [this](const auto&... of) { return check_shares(of...); });
}

// The reference's stream chooses slots itself, as a GPU's does; the cpu's leaves that to the host.
INSTANTIATE_TEST_SUITE_P(Backends, GoldenCompressor, testing::Values("cpu", "reference"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ei::golden
