#include "kernels/rowwise/rowwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/random.h"

namespace ei::kernels {
namespace {

constexpr int64_t kRows = 5;
constexpr float kUnwritten = -77.0f;

// Odd widths, so that every variant has a tail; rows lie apart.
struct Rows {
  std::vector<float> data;
  Matrix matrix;

  explicit Rows(int64_t cols) : data(static_cast<size_t>(kRows * (cols + 3)), kUnwritten) {
    matrix = {data.data(), kRows, cols, cols + 3};
  }
  Rows(int64_t cols, uint32_t seed, float spread) : Rows(cols) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    for (float& value : data) value = normal(random);
    matrix.data = data.data();
  }
  float at(int64_t row, int64_t col) const { return data[static_cast<size_t>(row * matrix.stride + col)]; }
};

std::vector<const RowwiseVariant*> usable() {
  std::vector<const RowwiseVariant*> found;
  for (const RowwiseVariant* variant : rowwise_variants()) {
    if (variant->usable()) found.push_back(variant);
  }
  return found;
}

TEST(Rowwise, TheLastVariantRunsAnywhere) {
  ASSERT_FALSE(rowwise_variants().empty());
  EXPECT_TRUE(rowwise_variants().back()->usable());
}

TEST(Rowwise, AreCappedLikeAttention) {
  EXPECT_EQ(&choose_rowwise("scalar"), rowwise_variants().back());
  EXPECT_EQ(&choose_rowwise(""), usable().front());
  for (const RowwiseVariant* variant : usable()) EXPECT_EQ(&choose_rowwise(variant->name), variant);
}

TEST(Rowwise, ActivationsFollowTheirFormulasAtEverySize) {
  for (const RowwiseVariant* variant : usable()) {
    for (const int64_t cols : {1, 7, 16, 100}) {
      for (const float spread : {1e-3f, 1.0f, 30.0f}) {
        Rows gate(cols, 1, spread);
        Rows up(cols, 2, 1.0f);
        Rows silu(cols);
        Rows gelu(cols);
        variant->silu_multiply(gate.matrix, up.matrix, silu.matrix, {1, kRows});
        variant->gelu_multiply(gate.matrix, up.matrix, gelu.matrix, {1, kRows});
        EXPECT_EQ(silu.at(0, 0), kUnwritten) << "a row that was not asked for";
        for (int64_t row = 1; row < kRows; ++row) {
          EXPECT_EQ(silu.at(row, cols), kUnwritten) << "wrote behind the row";
          for (int64_t col = 0; col < cols; ++col) {
            const double x = static_cast<double>(gate.at(row, col));
            const double u = static_cast<double>(up.at(row, col));
            const double want = x / (1 + std::exp(-x)) * u;
            EXPECT_NEAR(silu.at(row, col), want, 1e-6 * std::abs(want) + 1e-30) << variant->name << " x=" << x;
            const double inner = 0.7978845608028654 * x * (1 + 0.044715 * x * x);
            const double wanted = 0.5 * x * (1 + std::tanh(inner)) * u;
            // Argument and value have the eleven bits of a half.
            const double bits = 3e-3 * (std::abs(wanted) + std::abs(u) * std::min(1.0, std::abs(x)));
            EXPECT_NEAR(gelu.at(row, col), wanted, bits) << variant->name << " x=" << x;
          }
        }
      }
    }
  }
}

TEST(Rowwise, ActivationsStayFiniteAtTheEnds) {
  for (const RowwiseVariant* variant : usable()) {
    Rows gate(40);
    Rows up(40, 3, 1.0f);
    Rows out(40);
    const float ends[] = {-1e30f, -200, -88.5f, -87, -0.0f, 0, 87, 88.5f, 200, 1e30f};
    for (int64_t col = 0; col < 40; ++col) gate.matrix.data[col] = ends[col % 10];
    variant->silu_multiply(gate.matrix, up.matrix, out.matrix, {0, 1});
    for (int64_t col = 0; col < 40; ++col) {
      const float x = ends[col % 10];
      const float u = up.at(0, col);
      const float want = x > 80 ? x * u : 0;
      EXPECT_NEAR(out.at(0, col), want, 1e-6f * std::abs(want) + (x < -1e29f ? 1e-7f * std::abs(u) : 1e-30f))
          << variant->name << " x=" << x;
    }
    gate.matrix.data[3] = std::numeric_limits<float>::quiet_NaN();
    variant->silu_multiply(gate.matrix, up.matrix, out.matrix, {0, 1});
    EXPECT_TRUE(std::isnan(out.at(0, 3))) << "a NaN must not be hidden";
  }
}

TEST(Rowwise, NormsDivideByTheRootMeanSquare) {
  for (const RowwiseVariant* variant : usable()) {
    for (const int64_t cols : {1, 9, 384, 577}) {
      Rows x(cols, 4, 3.0f);
      Rows sum(cols, 5, 2.0f);
      const Rows before = sum;
      Rows y(cols);
      std::vector<float> gain(static_cast<size_t>(cols), 1.5f);
      variant->add_rms_norm(x.matrix, sum.matrix, gain.data(), 1e-5f, y.matrix, {0, kRows});
      Rows again(cols);
      variant->rms_norm(sum.matrix, gain.data(), 1e-5f, again.matrix, {0, kRows});
      for (int64_t row = 0; row < kRows; ++row) {
        double squares = 0;
        for (int64_t col = 0; col < cols; ++col) {
          ASSERT_EQ(sum.at(row, col), before.at(row, col) + x.at(row, col));
          squares += static_cast<double>(sum.at(row, col)) * static_cast<double>(sum.at(row, col));
        }
        const double scale = 1.5 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
        for (int64_t col = 0; col < cols; ++col) {
          ASSERT_NEAR(y.at(row, col), static_cast<double>(sum.at(row, col)) * scale, 2e-6) << variant->name;
          ASSERT_EQ(again.at(row, col), y.at(row, col)) << variant->name;
        }
      }
    }
  }
}

// What the plain variant gives, every variant gives, to the last bit.
TEST(Rowwise, VariantsAgreeToTheLastBit) {
  const RowwiseVariant& plain = *rowwise_variants().back();
  const auto run = [](const RowwiseVariant& variant, int64_t cols) {
    Rows gate(cols, 6, 4.0f);
    Rows up(cols, 7, 1.0f);
    Rows out(cols);
    std::vector<float> all;
    const auto keep = [&](const Rows& rows) { all.insert(all.end(), rows.data.begin(), rows.data.end()); };
    std::vector<float> gain(static_cast<size_t>(cols), 0.7f);
    variant.silu_multiply(gate.matrix, up.matrix, out.matrix, {0, kRows});
    keep(out);
    variant.gelu_multiply(gate.matrix, up.matrix, out.matrix, {0, kRows});
    keep(out);
    variant.rms_norm(gate.matrix, gain.data(), 1e-6f, out.matrix, {0, kRows});
    keep(out);
    variant.add_rms_norm(gate.matrix, up.matrix, gain.data(), 1e-6f, out.matrix, {0, kRows});
    keep(up);
    keep(out);
    variant.add_bias(gain.data(), out.matrix, {0, kRows});
    keep(out);
    variant.softcap(out.matrix, 3.0f, {0, kRows});
    keep(out);
    std::vector<float> angles(static_cast<size_t>(cols), 0.6f);
    for (const bool interleaved : {false, true}) {
      const RotateHead rotate{.gain = gain.data(),
                              .eps = 1e-6f,
                              .cos = angles.data(),
                              .sin = gain.data(),
                              .dims = static_cast<int32_t>(cols / 2 * 2),
                              .head_dim = static_cast<int32_t>(cols),
                              .interleaved = interleaved};
      for (int64_t row = 0; row < kRows; ++row)
        variant.rotate_head(rotate, gate.matrix.data + row * gate.matrix.stride);
      keep(gate);
    }
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      std::vector<float> converted(static_cast<size_t>(cols), 0);
      variant.convert_row(gate.matrix.data, converted.data(), type, cols);
      all.insert(all.end(), converted.begin(), converted.end());
    }
    return all;
  };
  for (const RowwiseVariant* variant : usable()) {
    for (const int64_t cols : {2, 15, 64, 250}) {
      const std::vector<float> want = run(plain, cols);
      const std::vector<float> got = run(*variant, cols);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << variant->name << " " << cols;
    }
  }
}

TEST(Rowwise, RowsOfQ8AreWithinHalfAStepOfWhatTheyWere) {
  Random random(12);
  std::vector<float> row(96);
  for (float& element : row) element = 3 * random.normal();
  std::fill(row.begin() + 32, row.begin() + 64, 0.0f);
  row[64] = 1e-30f;
  row[70] = NAN;  // has no code, and must not harm other blocks
  for (const RowwiseVariant* variant : usable()) {
    std::vector<Q8Block> blocks(3);
    variant->convert_row(row.data(), blocks.data(), DType::kQ8_0, 96);
    const float largest = std::abs(
        *std::max_element(row.begin(), row.begin() + 32, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    EXPECT_EQ(blocks[0].scale, f32_to_f16(largest / 127));
    const float step = f16_to_f32(blocks[0].scale);
    for (int64_t i = 0; i < 64; ++i) {
      const float error = std::abs(load_element(blocks.data(), DType::kQ8_0, i) - row[static_cast<size_t>(i)]);
      EXPECT_LE(error, i < 32 ? 0.56f * step : 0.0f) << i << " seed=12";  // half a step, and the scale's own rounding
    }
  }
}

}  // namespace
}  // namespace ei::kernels
