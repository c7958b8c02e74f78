// Ratings of slots and the choice among them on the GPU against the reference, bit for bit; every KV method on both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>

#include "gpu/engine/sides.h"
#include "policy/registry.h"
#include "support/embedded_engine.h"

namespace ei::testing {
namespace {

struct Layer {
  std::vector<int64_t> slots;
  int32_t group = 1;
  bool mean_of_group = true;
  bool mean_of_near = true;
  int32_t kernel = 1;
  int32_t sinks = 0;
  std::vector<int32_t> counts;
  bool ties = false;
};

struct Chosen {
  std::vector<float> ratings;
  std::vector<float> spreads;
  std::vector<int32_t> lists;
  std::vector<int32_t> others;  // chosen once more, without those
};

Chosen choose(const std::string& backend, const Layer& layer, uint64_t seed) {
  const Side side(backend);
  const auto sets = static_cast<int64_t>(layer.slots.size());
  const int64_t longest = *std::max_element(layer.slots.begin(), layer.slots.end());
  const int64_t all = std::accumulate(layer.slots.begin(), layer.slots.end(), int64_t{0});
  std::vector<float> scores = normals(sets * layer.group * longest, seed);
  for (float& score : scores) score = layer.ties ? std::round(2 * score) / 8 : std::exp(4 * score);
  const Matrix from = side.put(0, scores, sets * layer.group, longest);
  const Matrix ratings = side.put(1, std::vector<float>(static_cast<size_t>(all), NAN), 1, all);
  auto* counts = reinterpret_cast<int32_t*>(side.stream->shared(kSlots[2], sets).value());
  auto* lists = reinterpret_cast<int32_t*>(side.stream->shared(kSlots[3], sets * longest).value());
  std::copy(layer.counts.begin(), layer.counts.end(), counts);
  std::fill_n(lists, sets * longest, -1);
  side.stream->rate_slots({.scores = from.data,
                           .stride = longest,
                           .group = layer.group,
                           .slots = layer.slots,
                           .mean_of_group = layer.mean_of_group,
                           .mean_of_near = layer.mean_of_near,
                           .kernel = layer.kernel,
                           .sinks = layer.sinks,
                           .ratings = ratings.data});
  float* spreads = side.stream->shared(kSlots[4], sets).value();
  side.stream->spread_slots({.ratings = ratings.data, .slots = layer.slots, .first = 4, .spreads = spreads});
  const auto choose_again = [&] {
    side.stream->choose_slots(
        {.ratings = ratings.data, .slots = layer.slots, .counts = counts, .chosen = lists, .stride = longest});
  };
  choose_again();
  Chosen chosen{.ratings = side.get(ratings),
                .spreads = {spreads, spreads + sets},
                .lists = {lists, lists + sets * longest},
                .others = {}};
  side.stream->leave_out_slots(
      {.chosen = lists, .counts = counts, .stride = longest, .slots = layer.slots, .ratings = ratings.data});
  choose_again();
  side.get(ratings);  // waits
  chosen.others.assign(lists, lists + sets * longest);
  return chosen;
}

TEST(CudaSlots, AreRatedAndChosenAsByTheReference) {
  EI_NEEDS_GPU();
  const std::vector<Layer> layers = {
      {.slots = {1}, .counts = {1}},
      {.slots = {5, 3}, .group = 2, .kernel = 7, .counts = {2, 3}},
      {.slots = {300, 0, 299, 1}, .group = 4, .kernel = 5, .sinks = 4, .counts = {64, 10, 300, 0}},
      {.slots = {2048, 2049, 1023}, .group = 3, .mean_of_group = false, .counts = {1000, 2000, 1}},
      {.slots = {5000, 4096}, .mean_of_near = false, .kernel = 13, .sinks = 1, .counts = {992, 4095}},
      {.slots = {40000, 39000, 20}, .group = 4, .kernel = 5, .counts = {992, 992, 992}},
      {.slots = {2000, 2000}, .kernel = 1, .counts = {700, 1999}, .ties = true},
      {.slots = {30000}, .group = 2, .kernel = 3, .counts = {9000}, .ties = true},
      {.slots = std::vector<int64_t>(300, 70), .counts = std::vector<int32_t>(300, 33)},
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    SCOPED_TRACE(i);
    const Chosen ours = choose("cuda", layers[i], 40 + i);
    const Chosen reference = choose("reference", layers[i], 40 + i);
    EXPECT_EQ(ours.ratings, reference.ratings);
    for (size_t set = 0; set < ours.spreads.size(); ++set)
      EXPECT_NEAR(ours.spreads[set], reference.spreads[set], 1e-4 * static_cast<double>(reference.spreads[set]));
    EXPECT_EQ(ours.lists, reference.lists);
    EXPECT_EQ(ours.others, reference.others);
  }
}

TEST(CudaSlots, EveryKvMethodKeepsAsManyAsOnTheCpu) {
  EI_NEEDS_GPU();
  const std::vector<int32_t> tokens = ei::random_tokens(2500, 9);
  EngineOptions on_cpu;
  on_cpu.backend = "cpu";
  EngineOptions on_gpu;
  on_gpu.backend = "cuda";
  const std::unique_ptr<Engine> engines[] = {load_embedded(on_cpu), load_embedded(on_gpu)};
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    SCOPED_TRACE(entry.name);
    std::vector<int64_t> kept[2];       // by layer
    std::vector<int64_t> positions[2];  // of all layers and kv_heads, ascending
    for (const int side : {0, 1}) {
      SessionOptions options;
      options.kv = entry.preset;
      options.kv->keep_slots(1024);
      options.kv->gap = std::min(options.kv->gap, 16);  // so that all of them compress
      const auto session = open_session(*engines[side], options);
      ASSERT_TRUE(session->prefill(tokens).ok());
      for (int i = 0; i < 40; ++i) {
        const Status fed = session->decode(tokens[static_cast<size_t>(i)]);
        ASSERT_TRUE(fed.ok()) << fed.error().message;
      }
      for (int layer = 0; layer < session->store().config().layers; ++layer) {
        kept[side].push_back(0);
        for (int h = 0; h < session->store().config().kv_heads; ++h)
          kept[side].back() += session->store().length(layer, h);
        const KvView view = session->store().view(layer);
        for (size_t h = 0; h < view.heads.size(); ++h)
          for (int64_t slot = 0; slot < view.heads[h].length; ++slot)
            positions[side].push_back((int64_t{layer} * 1000 + static_cast<int64_t>(h)) * 100'000 +
                                      view.heads[h].position(slot));
      }
      for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
    }
    // What several heads keep together, and what entropies divide, depends on the last bits.
    const int64_t all = std::accumulate(kept[0].begin(), kept[0].end(), int64_t{0});
    for (size_t layer = 0; layer < kept[0].size(); ++layer)
      EXPECT_NEAR(static_cast<double>(kept[1][layer]), static_cast<double>(kept[0][layer]),
                  0.01 * static_cast<double>(all) / static_cast<double>(kept[0].size()) + 4)
          << "layer " << layer;
    std::vector<int64_t> both;
    std::set_intersection(positions[0].begin(), positions[0].end(), positions[1].begin(), positions[1].end(),
                          std::back_inserter(both));
    const double same = static_cast<double>(both.size()) / static_cast<double>(positions[0].size());
    std::printf("%s: %.2f %% of the slots are the CPU's\n", std::string(entry.name).c_str(), 100 * same);
    EXPECT_GE(same, 0.9);
  }
}

}  // namespace
}  // namespace ei::testing
