// Every row of work is done once, whether a grid has a block for each or not.
#include "kernels/cuda/grid_rows.cuh"

#include <gtest/gtest.h>

#include <vector>

namespace ei::kernels::cuda {
namespace {

std::vector<int> done_by(unsigned blocks, int64_t rows) {
  std::vector<int> done(static_cast<size_t>(rows), 0);
  gridDim.y = blocks;
  for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
    for_own_rows(rows, [&](int64_t row) { ++done[static_cast<size_t>(row)]; });
  blockIdx.y = 0;
  return done;
}

TEST(GridRows, AreAsManyAsAGridHas) {
  EXPECT_EQ(grid_rows(1), 1u);
  EXPECT_EQ(grid_rows(65535), 65535u);
  EXPECT_EQ(grid_rows(65536), 65535u);
  EXPECT_EQ(grid_rows(int64_t{8} * 262144 / 32), 65535u);  // kv_heads of a chunk of short segments
  EXPECT_EQ(grid_rows(int64_t{1} << 40), 65535u);
}

TEST(GridRows, AreAllDoneOnce) {
  for (const int64_t rows : {1, 7, 8, 9, 30})
    EXPECT_EQ(done_by(8, rows), std::vector<int>(static_cast<size_t>(rows), 1));
  for (const int64_t rows : {65535, 65536, 200000})
    EXPECT_EQ(done_by(grid_rows(rows), rows), std::vector<int>(static_cast<size_t>(rows), 1)) << rows;
}

}  // namespace
}  // namespace ei::kernels::cuda
