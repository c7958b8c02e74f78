#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/pages/cuda/fp8_layout.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {
namespace {

TEST(Fp8Rows, CodesAreTheNearestOnes) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_f32(static_cast<uint8_t>(code));
    if (std::isnan(value)) {
      EXPECT_EQ(code & 0x7f, 0x7f);
      continue;
    }
    EXPECT_EQ(f32_to_e4m3(value), code);
    if ((code & 0x7f) >= 0x7e) continue;  // nothing larger
    const float next = e4m3_to_f32(static_cast<uint8_t>(code + 1));
    const float middle = (value + next) / 2;  // goes to the even code
    EXPECT_EQ(f32_to_e4m3(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, value)), code);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, next)), code + 1);
  }
  EXPECT_EQ(f32_to_e4m3(1e30f), 0x7e);
  EXPECT_EQ(f32_to_e4m3(-INFINITY), 0xfe);
  EXPECT_EQ(f32_to_e4m3(NAN) & 0x7f, 0x7f);
}

TEST(Fp8Rows, ExponentsKeepARowInsideTheCodes) {
  for (const float largest : {1e-9f, 0.01f, 0.4375f, 1.0f, 447.0f, 448.0f, 449.0f, 896.0f, 50000.0f, 57344.0f}) {
    const int32_t exponent = Fp8Layout::exponent_for(largest);
    EXPECT_LE(std::ldexp(largest, -exponent), 448.0f) << largest;
    if (exponent > Fp8Layout::kLeastExponent) {
      EXPECT_GT(std::ldexp(largest, 1 - exponent), 448.0f) << largest;
    }
  }
  EXPECT_EQ(Fp8Layout::exponent_for(0), Fp8Layout::kLeastExponent);
  EXPECT_EQ(Fp8Layout::exponent_for(INFINITY), Fp8Layout::kMostExponent);
}

// What once was rounded stays as it is, however small or large: saved and loaded caches are the same.
TEST(Fp8Rows, GoToTheirPlacesAndBack) {
  for (const int32_t head_dim : {16, 80, 128}) {
    const Fp8Layout layout{head_dim};
    constexpr int64_t kSlots = 24;
    constexpr int64_t kCount = 19;
    Random random(static_cast<uint64_t>(head_dim));
    std::vector<uint8_t> page(static_cast<size_t>(layout.page_bytes(kSlots)), 0xa5);
    for (const bool values : {false, true}) {
      std::vector<uint16_t> rows(static_cast<size_t>(kCount * head_dim));
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto slot = static_cast<int>(i) / head_dim;
        rows[i] = f32_to_f16(std::ldexp(random.normal(), slot * 2 - 24));
      }
      scatter_fp8_rows(layout, rows.data(), kCount, values, page.data());
      std::vector<uint16_t> back(rows.size());
      gather_fp8_rows(layout, page.data(), kCount, values, back.data());
      for (size_t i = 0; i < rows.size(); ++i) {
        const float was = f16_to_f32(rows[i]);
        const float tiny = std::ldexp(1.0f, static_cast<int>(i) / head_dim * 2 - 24 - 14);  // beside the row's largest
        EXPECT_NEAR(f16_to_f32(back[i]), was, std::fabs(was) / 16 + tiny + 0x1.0p-24f) << i;
      }
      scatter_fp8_rows(layout, back.data(), kCount, values, page.data());
      std::vector<uint16_t> again(rows.size());
      gather_fp8_rows(layout, page.data(), kCount, values, again.data());
      EXPECT_EQ(again, back);
    }
    for (int64_t slot = kCount; slot < kSlots; ++slot)
      EXPECT_EQ(page[static_cast<size_t>(layout.row(slot, true))], 0xa5);
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
