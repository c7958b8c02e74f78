#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {
namespace {

TEST(PageRows, GoToTheElementsOfTheLayoutAndBack) {
  for (const int32_t head_dim : {64, 96, 128, 256}) {
    const KvLayout layout{head_dim, 2};
    constexpr int64_t kSlots = 24;
    constexpr int64_t kCount = 19;
    std::vector<uint16_t> page(static_cast<size_t>(layout.page_bytes(kSlots) / 2), 0xffff);
    for (const bool values : {false, true}) {
      std::vector<uint16_t> rows(static_cast<size_t>(kCount * head_dim));
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint16_t>(i + (values ? 30000 : 0));
      scatter_rows(layout, rows.data(), kCount, values, page.data());
      for (int64_t slot = 0; slot < kSlots; ++slot) {
        for (int32_t dim = 0; dim < head_dim; ++dim) {
          const uint16_t expected = slot < kCount ? rows[static_cast<size_t>(slot * head_dim + dim)] : 0xffff;
          ASSERT_EQ(page[static_cast<size_t>(layout.element_offset(slot, dim, values))], expected);
        }
      }
      std::vector<uint16_t> back(rows.size());
      gather_rows(layout, page.data(), kCount, values, back.data());
      EXPECT_EQ(back, rows);
    }
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
