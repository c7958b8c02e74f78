// kv_heads in another order, on a model of every family: every method decides the same for them, in that order.
#include <cstring>
#include <filesystem>
#include <iterator>

#include "parity/family_methods.h"
#include "parity/permuted_heads.h"

namespace ei::testing {
namespace {

// kv_head kOrder[h] of the first stands at h in the other: no swap, so that places and heads cannot be mixed up.
constexpr int64_t kOrder[] = {1, 2, 0};

RandomModelSpec permuted_spec(std::string_view family) {
  RandomModelSpec spec = family_spec(family);
  spec.kv_heads = std::ssize(kOrder);
  spec.heads = 2 * spec.kv_heads;
  spec.head_dim = 32;
  spec.width = spec.heads * spec.head_dim;
  spec.ffn = 256;
  return spec;
}

struct TwoEngines {
  std::unique_ptr<Engine> plain;
  std::unique_ptr<Engine> turned;
};

const TwoEngines& two_engines(std::string_view family) {
  static std::map<std::string_view, TwoEngines> engines;
  TwoEngines& pair = engines[family];
  if (pair.plain != nullptr) return pair;
  const RandomModelSpec spec = permuted_spec(family);
  const RandomModelFile file(spec);
  const HeadShape shape{.kv_heads = spec.kv_heads, .group = spec.heads / spec.kv_heads, .head_dim = spec.head_dim};
  separate_kv_heads(file.path(), shape);
  const std::string other = file.path() + ".turned";
  permute_kv_heads(file.path(), other, shape, kOrder);
  BackendOptions backend;
  backend.threads = 1;
  pair.plain = load_engine(file.path(), "cpu", backend);
  pair.turned = load_engine(other, "cpu", backend);
  std::filesystem::remove(other);
  return pair;
}

class PermutedFamilies : public FamilyMethods {
 protected:
  const Engine& plain() const { return *two_engines(GetParam()).plain; }
  const Engine& turned() const { return *two_engines(GetParam()).turned; }
};

// Is something measured of every kv_head by itself? What is not gives all of them the same list.
bool measures_kv_heads(const policy::KvOptions& options) {
  const auto method = policy::make_kv_method(options, {});
  if (method == nullptr || options.granularity == policy::KvGranularity::kLayer) return false;
  const policy::KvNeeds needs = method->needs();
  return needs.queries != policy::QuerySource::kNone || needs.keys != policy::KeyMeasure::kNone;
}

// Without a method already: otherwise what follows would compare two models.
TEST_P(PermutedFamilies, FullAttentionIsTheSameBitForBit) {
  const auto one = open(plain(), {});
  const auto other = open(turned(), {});
  for (Session* session : {one.get(), other.get()}) {
    ASSERT_TRUE(session->prefill(prompt(10)).ok());
    feed(*session, 3);
  }
  EXPECT_EQ(logits_of(*other), logits_of(*one));
  const auto key = [](const Session& session, size_t kv_head) {
    const KvView view = session.store().view(0);
    const void* page = view.heads[kv_head].key_pages[0];
    std::vector<std::byte> row(dtype_row_bytes(view.key_type, view.head_dim));
    std::memcpy(row.data(), page, row.size());
    return row;
  };
  for (size_t h = 0; h < std::size(kOrder); ++h) {
    EXPECT_EQ(key(*other, h), key(*one, static_cast<size_t>(kOrder[h])));
    EXPECT_NE(key(*other, h), key(*one, h)) << "nothing was permuted";
  }
}

TEST_P(PermutedFamilies, KeepListsArePermuted) {
  for_every_generation([&](const SessionOptions& options) {
    const auto one = open(plain(), options);
    const auto other = open(turned(), options);
    for (Session* session : {one.get(), other.get()}) {
      ASSERT_TRUE(session->prefill(prompt(11)).ok());
      feed(*session, 3);
      expect_acted(*session, options, 3);
    }
    // One set for all heads is chosen by a sum over them, whose last bit depends on their order.
    const bool summed = options.kv->granularity == policy::KvGranularity::kLayer;
    int64_t different = 0;
    for (int layer = 0; layer < plain().config().layers; ++layer) {
      for (size_t h = 0; h < std::size(kOrder); ++h) {
        const std::vector<int32_t> kept = positions_of(*one, layer, static_cast<size_t>(kOrder[h]));
        EXPECT_LE(in_one_alone(positions_of(*other, layer, h), kept), summed ? 2 : 0) << layer << ", kv_head " << h;
        different += kept != positions_of(*one, layer, h) ? 1 : 0;
      }
    }
    if (!summed) {
      EXPECT_EQ(logits_of(*other), logits_of(*one));
    }
    // Lists that are the same for all kv_heads would be permuted by anything.
    EXPECT_EQ(different > 0, measures_kv_heads(*options.kv));
  });
}

TEST_P(PermutedFamilies, CountsAndBlocksArePermuted) {
  int64_t different = 0;  // places in which the kv_heads read different blocks
  for_every_prefill([&](const SessionOptions& options) {
    const auto one = open(plain(), options);
    const auto other = open(turned(), options);
    for (Session* session : {one.get(), other.get()}) {
      session->planner()->keep_blocks(true);
      ASSERT_TRUE(session->prefill(prompt(12)).ok());
      EXPECT_LT(session->stats().density(), 1.0) << "nothing was left out";
    }
    EXPECT_EQ(logits_of(*other), logits_of(*one));
    for (int layer = 0; layer < plain().config().layers; ++layer) {
      const policy::LayerRecords& ours = one->planner()->records(layer);
      const policy::LayerRecords& theirs = other->planner()->records(layer);
      ASSERT_EQ(theirs.size(), ours.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        for (size_t h = 0; h < std::size(kOrder); ++h) {
          const policy::HeadRecord& head = ours[i].heads[static_cast<size_t>(kOrder[h])];
          EXPECT_EQ(theirs[i].heads[h].blocks, head.blocks) << layer << ", segment " << i << ", kv_head " << h;
          EXPECT_EQ(theirs[i].heads[h].chosen, head.chosen) << layer << ", segment " << i << ", kv_head " << h;
          different += head.chosen != ours[i].heads[h].chosen ? 1 : 0;
        }
      }
    }
  });
  EXPECT_GT(different, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PermutedFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
