#include "kernels/attention/cuda/kv_layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ei::kernels::cuda {
namespace {

const KvLayout kLayouts[] = {{64, 2}, {96, 2}, {128, 2}, {256, 2}, {64, 1}, {96, 1}, {128, 1}, {256, 1}};

TEST(KvLayout, GivesEveryElementOfAPageAPlaceOfItsOwn) {
  for (const KvLayout& layout : kLayouts) {
    ASSERT_TRUE(layout.valid());
    for (const int64_t page_slots : {8, 24, 128}) {
      const int64_t elements = layout.page_bytes(page_slots) / layout.element_bytes;
      ASSERT_EQ(elements, page_slots * layout.head_dim * 2);
      std::vector<int> uses(static_cast<size_t>(elements), 0);
      for (int64_t slot = 0; slot < page_slots; ++slot) {
        for (int32_t dim = 0; dim < layout.head_dim; ++dim) {
          for (const bool value : {false, true}) {
            const int64_t at = layout.element_offset(slot, dim, value);
            ASSERT_TRUE(at >= 0 && at < elements);
            ++uses[static_cast<size_t>(at)];
          }
        }
      }
      for (const int count : uses) ASSERT_EQ(count, 1);
    }
  }
}

TEST(KvLayout, KeepsKeysAndValuesOfABlockTogether) {
  const KvLayout layout{128, 2};
  EXPECT_EQ(layout.block_bytes(), 4096);
  for (int64_t slot = 0; slot < 64; ++slot) {
    EXPECT_EQ(layout.piece_in_page(slot, 77, false) / 2048, slot / 8 * 2);
    EXPECT_EQ(layout.piece_in_page(slot, 77, true) / 2048, slot / 8 * 2 + 1);
  }
}

// The swizzles of the instruction set: of 128, 64 or 32 bytes, by exclusive or of address bits 4.. with bits 7..
TEST(KvLayout, SwizzlesAddressesAsTheTensorCoresDo) {
  for (const KvLayout& layout : kLayouts) {
    const int32_t width = layout.atom_row_bytes();
    const int32_t bits = width == 128 ? 7 : width == 64 ? 3 : 1;
    for (int32_t row = 0; row < kBlockKeys; ++row) {
      for (int32_t piece = 0; piece < layout.head_dim * layout.element_bytes / 16; ++piece) {
        const int32_t per_atom = width / 16;
        const int32_t plain = piece / per_atom * layout.atom_bytes() + row * width + piece % per_atom * 16;
        EXPECT_EQ(layout.piece_offset(row, piece), plain ^ ((plain >> 7 & bits) << 4));
      }
    }
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
