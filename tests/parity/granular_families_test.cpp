// --kv-granularity head, on a model of every family: every query head chooses its slots, and its kv_head holds what any
// of the group has chosen, counted as what it is.
#include <algorithm>
#include <filesystem>

#include "parity/family_methods.h"
#include "parity/permuted_heads.h"

namespace ei::testing {
namespace {

using policy::KvGranularity;

// A model, and copies of it in whose first layer all heads of a group ask what one of them does.
struct GroupEngines {
  explicit GroupEngines(const RandomModelSpec& spec)
      : shape{.kv_heads = spec.kv_heads, .group = spec.heads / spec.kv_heads, .head_dim = spec.head_dim} {
    const RandomModelFile file(spec);
    BackendOptions backend;
    backend.threads = 1;
    whole = load_engine(file.path(), "cpu", backend);
    for (int64_t member = 0; member < shape.group; ++member) {
      const std::string other = file.path() + ".alone" + std::to_string(member);  // weights stay in the file
      repeat_query_head(file.path(), other, shape, member);
      alone.push_back(load_engine(other, "cpu", backend));
      std::filesystem::remove(other);
    }
  }
  HeadShape shape;
  std::unique_ptr<Engine> whole;
  std::vector<std::unique_ptr<Engine>> alone;  // [group]
};

class GranularFamilies : public FamilyMethods {
 protected:
  std::unique_ptr<Session> compressed(const Engine& engine, policy::KvOptions kv, KvGranularity granularity) const {
    SessionOptions options;
    options.kv = kv;
    options.kv->keep_slots(kSlots);
    options.kv->window = kWindow;
    options.kv->rounding = policy::KvRounding::kExact;
    options.kv->granularity = granularity;
    auto session = open(engine, options);
    EXPECT_TRUE(session->prefill(prompt(17)).ok());
    EXPECT_EQ(session->stats().compressions, 1);
    return session;
  }

  // Slots of every layer between the budget, where all heads choose the same, and group times what is outside the
  // window; memory and counts are those of the slots that are held.
  static void expect_counted(const Session& session, const HeadShape& shape) {
    const kv::Store& store = session.store();
    int64_t kept = 0;
    int64_t bytes = 0;
    for (int layer = 0; layer < store.config().layers; ++layer) {
      int64_t of_layer = 0;
      for (int h = 0; h < shape.kv_heads; ++h) {
        const int64_t length = store.length(layer, h);
        const int64_t page = store.config().page_slots;
        of_layer += length;
        bytes += (length + page - 1) / page * store.page_bytes();
      }
      EXPECT_GE(of_layer, shape.kv_heads * kSlots);
      EXPECT_LE(of_layer, shape.kv_heads * (kWindow + shape.group * (kSlots - kWindow)));
      kept += of_layer;
    }
    const int64_t kv_heads = store.config().layers * shape.kv_heads;
    EXPECT_GT(kept, kv_heads * kSlots) << "all heads of a group chose the same";
    EXPECT_EQ(store.tokens_kept(), kept);
    EXPECT_EQ(store.bytes(), bytes);
    EXPECT_EQ(session.stats().evicted, kv_heads * kPrompt - kept);
  }

  static constexpr int32_t kSlots = 120;  // less than a page, and the union more
  static constexpr int32_t kWindow = 16;
};

TEST_P(GranularFamilies, AKvHeadKeepsWhatAnyOfItsHeadsChooses) {
  RandomModelSpec spec = family_spec(GetParam());
  spec.window_pattern = 1;  // the first layer attends to everything, too
  const GroupEngines engines(spec);
  const policy::KvOptions snapkv = policy::find_method("snapkv")->kv;
  ASSERT_GT(engines.shape.group, 1);
  std::vector<std::unique_ptr<Session>> alone;
  for (const auto& engine : engines.alone) alone.push_back(compressed(*engine, snapkv, KvGranularity::kKvHead));
  const auto together = compressed(*engines.whole, snapkv, KvGranularity::kHead);
  expect_counted(*together, engines.shape);
  for (size_t h = 0; h < static_cast<size_t>(spec.kv_heads); ++h) {
    std::vector<int32_t> any;
    for (const auto& session : alone) {
      const std::vector<int32_t> own = positions_of(*session, 0, h);
      EXPECT_EQ(std::ssize(own), kSlots);
      std::vector<int32_t> both;
      std::set_union(any.begin(), any.end(), own.begin(), own.end(), std::back_inserter(both));
      any = std::move(both);
    }
    EXPECT_EQ(positions_of(*together, 0, h), any) << "kv_head " << h;
  }
}

// Heads share a layer's slots there: what each gets depends on all of them. Heads that ask alike get alike, and keep
// together what they would as one.
TEST_P(GranularFamilies, SharesOfHeadsAreCountedToo) {
  RandomModelSpec spec = family_spec(GetParam());
  spec.window_pattern = 1;
  const GroupEngines engines(spec);
  policy::KvOptions adakv = policy::find_method("adakv")->kv;
  expect_counted(*compressed(*engines.whole, adakv, KvGranularity::kHead), engines.shape);
  adakv.kernel = 1;  // plateaus of pooled scores, where the cut falls into one, go to the first head
  for (const auto& engine : engines.alone) {
    const auto by_heads = compressed(*engine, adakv, KvGranularity::kHead);
    const auto by_groups = compressed(*engine, adakv, KvGranularity::kKvHead);
    for (size_t h = 0; h < static_cast<size_t>(spec.kv_heads); ++h)
      EXPECT_EQ(positions_of(*by_heads, 0, h), positions_of(*by_groups, 0, h)) << "kv_head " << h;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GranularFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
