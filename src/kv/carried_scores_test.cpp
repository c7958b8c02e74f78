// What one compression hands on to the next.
#include "kv/carried_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/compressed_cache.h"

namespace ei::kv {
namespace {

using ::ei::testing::CompressedCache;
using policy::LayerRating;
using policy::SlotScores;

TEST(CarriedScores, FollowTheirSlots) {
  CarriedScores carried(0.5);
  // Two kv_heads of six slots, the last two of which are the window, without scores.
  LayerRating first{.lengths = {6, 6}, .sets = {{1, 2, 3, 4}, {8, 6, 4, 2}}};
  carried.begin();
  carried.remember(0, first, {KeepList{1, 3, 4, 5}, KeepList{}});
  LayerRating unchanged = first;
  carried.add_to(0, unchanged);
  EXPECT_EQ(unchanged.sets, first.sets);  // not before commit()
  carried.commit();
  LayerRating second{.lengths = {7, 9}, .sets = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}}};
  carried.add_to(0, second);
  EXPECT_EQ(second.sets[0], (SlotScores{2, 3, 1, 1, 1}));
  EXPECT_EQ(second.sets[1], (SlotScores{5, 4, 3, 2, 1, 1, 1}));
  // A compression of another layer leaves this one's.
  carried.begin();
  carried.remember(1, first, {KeepList{1, 3, 4, 5}, KeepList{}});
  carried.commit();
  LayerRating third{.lengths = {7, 9}, .sets = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}}};
  carried.add_to(0, third);
  EXPECT_EQ(third.sets, second.sets);
}

TEST(CarriedScores, LeaveProtectedSlotsAndForgetWhatWasRewound) {
  constexpr float kProtected = std::numeric_limits<float>::max();
  CarriedScores carried(1);
  carried.begin();
  carried.remember(0, {.lengths = {4}, .sets = {{kProtected, 2, 3}}}, {KeepList{}});
  carried.commit();
  LayerRating next{.lengths = {4}, .sets = {{kProtected, 1, 1}}};
  carried.add_to(0, next);
  EXPECT_EQ(next.sets[0], (SlotScores{kProtected, 3, 4}));
  carried.trim(0, {2});
  LayerRating behind{.lengths = {4}, .sets = {{1, 1, 1}}};
  carried.add_to(0, behind);
  EXPECT_EQ(behind.sets[0], (SlotScores{1, 3, 1}));  // a protected slot carries nothing
  carried.clear();
  LayerRating afresh{.lengths = {4}, .sets = {{1, 1, 1}}};
  carried.add_to(0, afresh);
  EXPECT_EQ(afresh.sets[0], (SlotScores{1, 1, 1}));
}

std::vector<int32_t> positions_held(const CompressedCache& f) {
  std::vector<int32_t> positions;
  for (const KvHeadView& head : f.store.view(0).heads)
    for (int64_t slot = 0; slot < head.length; ++slot) positions.push_back(head.position(slot));
  return positions;
}

// Positions below `prompt` after several compressions, by how much is carried.
int64_t kept_of_prompt(double carry, int32_t prompt) {
  CompressedCache f({.rule = policy::KvRule::kLatent, .budget = 40, .window = 6, .carry = carry, .kernel = 3}, {0});
  f.feed(prompt);
  for (int round = 0; round < 4; ++round) {
    EXPECT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
    f.feed(20);
  }
  const std::vector<int32_t> held = positions_held(f);
  return std::count_if(held.begin(), held.end(), [&](int32_t position) { return position < prompt; });
}

TEST(CarriedScores, KeepMoreOfWhatTheFirstCompressionKept) { EXPECT_GT(kept_of_prompt(1, 90), kept_of_prompt(0, 90)); }

}  // namespace
}  // namespace ei::kv
