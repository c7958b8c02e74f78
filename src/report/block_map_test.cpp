#include "report/block_map.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"

namespace ei::report {
namespace {

std::vector<int32_t> first_blocks(int32_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

TEST(BlockMap, ShowsEveryBlockWhereThereIsRoom) {
  BlockMap map(choose_map_shape(3, 6, 1));
  map.add(1, std::vector<int32_t>{0, 1});
  map.add(2, std::vector<int32_t>{3});
  EXPECT_EQ(map.levels(), (std::vector<uint8_t>{0, 0, 0, 0, 0, 0,    //
                                                15, 15, 0, 0, 0, 0,  //
                                                0, 0, 0, 15, 0, 0}));
}

TEST(BlockMap, OneBlockOfManyStillShowsAndOnlyAllOfThemAreFull) {
  const MapShape shape{.segments = 1, .blocks = 1000, .rows = 1, .cols = 3};  // cells of 334, 333 and 333 blocks
  BlockMap map(shape);
  std::vector<int32_t> blocks = first_blocks(334);
  blocks.push_back(334);
  for (int32_t block = 667; block < 999; ++block) blocks.push_back(block);
  map.add(0, blocks);
  EXPECT_EQ(map.levels(), (std::vector<uint8_t>{15, 1, 14}));
}

TEST(BlockMap, AnyShapeIsFullWhenEverythingIsChosen) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    MapShape shape{.segments = 1 + static_cast<int64_t>(random.below(40)),
                   .blocks = 1 + static_cast<int64_t>(random.below(200))};
    shape.rows = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(shape.segments)));
    shape.cols = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(shape.blocks)));
    BlockMap map(shape);
    for (int64_t segment = 0; segment < shape.segments; ++segment)
      map.add(segment, first_blocks(static_cast<int32_t>(shape.blocks)));
    EXPECT_EQ(map.levels(), std::vector<uint8_t>(static_cast<size_t>(shape.rows * shape.cols), 15));
  }
}

TEST(BlockMap, ManyHeadsGetCoarserMaps) {
  const MapShape one = choose_map_shape(256, 16384, 1);
  EXPECT_EQ(one.rows, 256);
  EXPECT_EQ(one.cols, 512);
  const MapShape many = choose_map_shape(1000, 64000, 48 * 8);
  EXPECT_LE(many.rows * many.cols * 48 * 8, int64_t{1} << 23);
  EXPECT_GE(many.cols, 64);
  const MapShape none = choose_map_shape(0, 0, 4);
  EXPECT_EQ(none.rows * none.cols, 0);
}

}  // namespace
}  // namespace ei::report
