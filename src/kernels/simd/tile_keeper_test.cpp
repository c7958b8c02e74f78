// ggml relies on the tiles that it configured once per thread: whoever uses them in between must put them back.
#include "kernels/simd/tile_keeper.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/attention/attention.h"
#include "support/random_kv.h"
#include "support/tiles_emulated.h"
#if defined(__x86_64__)
#include "kernels/simd/tiles_amx.h"
#include "kernels/simd/x86_features.h"
#endif

namespace ei::kernels {
namespace {

TEST(Tiles, ConfiguringGivesBackWhatWasThere) {
  const TileShapes first = {{1, 2, 3, 4, 5, 6, 7, 8}, {4, 4, 4, 4, 4, 4, 4, 4}};
  const TileShapes empty = TilesEmulated::configure(first);
  const TileShapes second = TilesEmulated::configure();
  EXPECT_EQ(second.rows[6], 7);
  TilesEmulated::restore(second);
  EXPECT_EQ(TilesEmulated::configure().row_bytes[0], 4);
  TilesEmulated::restore(empty);
}

#if defined(__x86_64__)
TEST(Tiles, AttentionLeavesThemAsTheyWere) {
  if (!cpu_has_amx_bf16()) GTEST_SKIP() << "no AMX here";
  const AttentionVariant* variant = choose_attention(DType::kBF16, DType::kBF16, "amx");
  ASSERT_NE(variant, nullptr);
  const TileShapes theirs = {{8, 8, 16, 16, 16, 16, 16, 16}, {64, 64, 32, 32, 64, 64, 64, 64}};
  const TileConfig none = TilesAmx::configure(theirs);
  const TileConfig wanted = TilesAmx::current();
  EXPECT_EQ(wanted.rows[0], 8);
  AttentionShape shape;
  shape.tokens = shape.context = 40;
  shape.key_type = shape.value_type = DType::kBF16;
  RandomAttention input(shape, 1);
  std::vector<float> out(static_cast<size_t>(input.shape().tokens * input.width()));
  run_attention(*variant, input.params(out.data()), 1);
  TileConfig now = TilesAmx::current();
  EXPECT_EQ(std::memcmp(&wanted, &now, sizeof wanted), 0);
  {
    const TileKeeper keeper;
    TilesAmx::configure();
  }
  now = TilesAmx::current();
  EXPECT_EQ(std::memcmp(&wanted, &now, sizeof wanted), 0);
  TilesAmx::restore(none);
}
#endif

}  // namespace
}  // namespace ei::kernels
