#include "kernels/products/few_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

// Weights of random blocks: f16 scale, f16 minimum, 32 numbers of four bits.
struct FourBitWeights {
  FourBitWeights(int64_t rows, int64_t width, uint32_t seed) : row_bytes(width / 32 * 20), cols(width) {
    std::mt19937 random(seed);
    bytes.resize(static_cast<size_t>(rows * row_bytes));
    values.resize(static_cast<size_t>(rows * cols));
    for (int64_t block = 0; block < rows * cols / 32; ++block) {
      std::byte* at = bytes.data() + block * 20;
      const auto step = static_cast<int>(random() % 16);  // scales and minima are powers of two: exact in f16
      const uint16_t scale = static_cast<uint16_t>((6 + step % 4) << 10);
      const uint16_t minimum = static_cast<uint16_t>(0x8000 | (10 + step % 3) << 10);
      std::memcpy(at, &scale, 2);
      std::memcpy(at + 2, &minimum, 2);
      const float d = std::ldexp(1.0f, 6 + step % 4 - 15);
      const float m = -std::ldexp(1.0f, 10 + step % 3 - 15);
      for (int i = 0; i < 16; ++i) {
        const auto both = static_cast<uint8_t>(random());
        at[4 + i] = std::byte{both};
        values[static_cast<size_t>(block * 32 + i)] = d * static_cast<float>(both & 15) + m;
        values[static_cast<size_t>(block * 32 + i + 16)] = d * static_cast<float>(both >> 4) + m;
      }
    }
  }
  int64_t row_bytes;
  int64_t cols;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<float> normal_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

template <typename Weights>
std::vector<float> few_products(const FewRowsKernel& kernel, const Weights& weights, float* x, int64_t rows,
                                int64_t columns) {
  std::vector<float> y(static_cast<size_t>(rows * columns), -1.0f);
  std::vector<std::byte> packed(kernel.packed_bytes(rows, weights.cols));
  WorkQueue packing;
  pack_few_rows(kernel, Matrix{x, rows, weights.cols, weights.cols}, packed.data(), packing);
  WorkQueue queue;
  few_rows(kernel,
           {.weights = weights.bytes.data(),
            .row_bytes = weights.row_bytes,
            .k = weights.cols,
            .x = packed.data(),
            .y = Matrix{y.data(), rows, columns, columns}},
           queue);
  return y;
}

TEST(FewRows, AreTheProductsAndARowIsTheSameAloneAndAmongOthers) {
  const FewRowsKernel* kernel = choose_few_rows(FewRowsForm::kQ4_1, "");
  if (kernel == nullptr) GTEST_SKIP() << "this CPU has no such kernel";
  constexpr int64_t kRows = 11;
  for (const int64_t cols : {32, 64, 576, 1536}) {
    for (const int64_t columns : {4, 36, 100}) {
      const FourBitWeights weights(columns, cols, static_cast<uint32_t>(cols + columns));
      std::vector<float> x = normal_numbers(kRows * cols, 5);
      std::vector<std::vector<float>> alone;
      for (int64_t row = 0; row < kRows; ++row)
        alone.push_back(few_products(*kernel, weights, x.data() + row * cols, 1, columns));
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          double want = 0;
          double size = 0;
          for (int64_t i = 0; i < cols; ++i) {
            const double term = static_cast<double>(x[static_cast<size_t>(row * cols + i)]) *
                                static_cast<double>(weights.values[static_cast<size_t>(column * cols + i)]);
            want += term;
            size += term * term;
          }
          // Rounding x to 127 steps of the largest of 32 numbers: at most 1/254 of about 2.5, so 1 % of a term.
          ASSERT_NEAR(alone[static_cast<size_t>(row)][static_cast<size_t>(column)], want, 0.05 * std::sqrt(size) + 1e-4)
              << cols << " columns, row " << row << ", " << column;
        }
      }
      for (int64_t rows = 2; rows <= kRows; ++rows) {
        const std::vector<float> together = few_products(*kernel, weights, x.data(), rows, columns);
        for (int64_t row = 0; row < rows; ++row)
          ASSERT_EQ(std::memcmp(together.data() + row * columns, alone[static_cast<size_t>(row)].data(),
                                static_cast<size_t>(columns) * sizeof(float)),
                    0)
              << rows << " rows of " << cols << ", row " << row;
      }
    }
  }
}

// Blocks of 32 numbers with a scale each, as the file has them, or four rows interleaved by eight numbers, as ggml
// repacks Q8_0.
struct EightBitWeights {
  EightBitWeights(int64_t rows, int64_t width, uint32_t seed, FewRowsForm form)
      : row_bytes(width / 32 * 34), cols(width) {
    std::mt19937 random(seed);
    bytes.resize(static_cast<size_t>(rows * row_bytes));
    values.resize(static_cast<size_t>(rows * cols));
    const bool interleaved = form == FewRowsForm::kQ8Interleaved;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < cols / 32; ++block) {
        std::byte* of_four = bytes.data() + (row / 4 * (cols / 32) + block) * 136;
        std::byte* of_row = bytes.data() + row * row_bytes + block * 34;
        const auto exponent = static_cast<int>(4 + random() % 5);
        const auto scale = static_cast<uint16_t>(exponent << 10);
        std::memcpy(interleaved ? of_four + 2 * (row % 4) : of_row, &scale, 2);
        for (int i = 0; i < 32; ++i) {
          const auto number = static_cast<int8_t>(static_cast<int>(random() % 256) - 128);
          std::memcpy(interleaved ? of_four + 8 + 32 * (i / 8) + 8 * (row % 4) + i % 8 : of_row + 2 + i, &number, 1);
          values[static_cast<size_t>(row * cols + block * 32 + i)] =
              std::ldexp(static_cast<float>(number), exponent - 15);
        }
      }
    }
  }
  int64_t row_bytes;
  int64_t cols;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

class FewRowsOfEightBits : public testing::TestWithParam<FewRowsForm> {};

TEST_P(FewRowsOfEightBits, AreTheProductsAndTheNumberOfRowsChangesNothing) {
  const FewRowsKernel* kernel = choose_few_rows(GetParam(), "");
  if (kernel == nullptr) GTEST_SKIP() << "this CPU has no such kernel";
  constexpr int64_t kRows = 11;
  for (const int64_t cols : {32, 384, 1024}) {
    for (const int64_t columns : {4, 36, 100}) {
      const EightBitWeights weights(columns, cols, static_cast<uint32_t>(cols + columns), GetParam());
      std::vector<float> x = normal_numbers(kRows * cols, 5);
      const std::vector<float> all = few_products(*kernel, weights, x.data(), kRows, columns);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          double want = 0;
          double size = 0;
          for (int64_t i = 0; i < cols; ++i) {
            const double term = static_cast<double>(x[static_cast<size_t>(row * cols + i)]) *
                                static_cast<double>(weights.values[static_cast<size_t>(column * cols + i)]);
            want += term;
            size += term * term;
          }
          ASSERT_NEAR(all[static_cast<size_t>(row * columns + column)], want, 0.05 * std::sqrt(size) + 1e-4)
              << cols << " columns, row " << row << ", " << column;
        }
      }
      for (int64_t rows = 2; rows < kRows; ++rows) {
        const std::vector<float> some = few_products(*kernel, weights, x.data(), rows, columns);
        ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << rows << " of " << cols;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FewRowsOfEightBits, testing::Values(FewRowsForm::kQ8_0, FewRowsForm::kQ8Interleaved));

// ggml's product of a row alone on a CPU with AVX2, in plain numbers: eight sums of four products each in every block,
// a chain of fused multiply-adds for each of the eight, and these added in halves.
float row_by_row(const float* x, const EightBitWeights& weights, int64_t column) {
  float sums[8] = {};
  for (int64_t block = 0; block < weights.cols / 32; ++block, x += 32) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float inverse = largest != 0 ? 127.0f / largest : 0.0f;
    const std::byte* from = weights.bytes.data() + column * weights.row_bytes + block * 34;
    uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    const float scale = std::ldexp(1.0f, (half >> 10) - 15) * f16_to_f32(f32_to_f16(largest / 127.0f));
    for (int lane = 0; lane < 8; ++lane) {
      int sum = 0;
      for (int i = 4 * lane; i < 4 * lane + 4; ++i)
        sum += static_cast<int8_t>(from[2 + i]) * static_cast<int>(std::nearbyintf(x[i] * inverse));
      sums[lane] = std::fma(scale, static_cast<float>(sum), sums[lane]);
    }
  }
  for (const int half : {4, 2, 1})
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

TEST(FewRows, OfEightBitsHaveTheBitsOfARowAlone) {
  const FewRowsKernel* kernel = choose_few_rows(FewRowsForm::kQ8_0, "");
  if (kernel == nullptr) GTEST_SKIP() << "this CPU has no such kernel";
  constexpr int64_t kRows = 5, kColumns = 20;
  for (const int64_t cols : {32, 384, 1024}) {
    const EightBitWeights weights(kColumns, cols, static_cast<uint32_t>(cols), FewRowsForm::kQ8_0);
    std::vector<float> x = normal_numbers(kRows * cols, 9);
    std::fill_n(x.begin(), 32, 0.0f);  // a block of zeros has no scale
    const std::vector<float> together = few_products(*kernel, weights, x.data(), kRows, kColumns);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < kColumns; ++column)
        ASSERT_EQ(together[static_cast<size_t>(row * kColumns + column)],
                  row_by_row(x.data() + row * cols, weights, column))
            << cols << " columns, row " << row << ", " << column;
  }
}

TEST(FewRows, ZerosAreZeros) {
  const FewRowsKernel* kernel = choose_few_rows(FewRowsForm::kQ4_1, "");
  if (kernel == nullptr) GTEST_SKIP() << "this CPU has no such kernel";
  const FourBitWeights weights(8, 64, 3);
  std::vector<float> x(2 * 64, 0.0f);
  for (const float value : few_products(*kernel, weights, x.data(), 2, 8)) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace ei::kernels
