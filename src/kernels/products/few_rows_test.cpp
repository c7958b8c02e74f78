#include "kernels/products/few_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

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

// Four rows interleaved by eight numbers, as ggml repacks Q8_0.
struct InterleavedWeights {
  InterleavedWeights(int64_t rows, int64_t width, uint32_t seed) : row_bytes(width / 32 * 34), cols(width) {
    std::mt19937 random(seed);
    bytes.resize(static_cast<size_t>(rows * row_bytes));
    values.resize(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < cols / 32; ++block) {
        std::byte* at = bytes.data() + (row / 4 * (cols / 32) + block) * 136;
        const auto exponent = static_cast<int>(4 + random() % 5);
        const auto scale = static_cast<uint16_t>(exponent << 10);
        std::memcpy(at + 2 * (row % 4), &scale, 2);
        for (int i = 0; i < 32; ++i) {
          const auto number = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
          std::memcpy(at + 8 + 32 * (i / 8) + 8 * (row % 4) + i % 8, &number, 1);
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

TEST(FewRows, OfEightBitsAreTheProductsAndTheNumberOfRowsChangesNothing) {
  const FewRowsKernel* kernel = choose_few_rows(FewRowsForm::kQ8_0, "");
  if (kernel == nullptr) GTEST_SKIP() << "this CPU has no such kernel";
  constexpr int64_t kRows = 11;
  for (const int64_t cols : {32, 384, 1024}) {
    for (const int64_t columns : {4, 36, 100}) {
      const InterleavedWeights weights(columns, cols, static_cast<uint32_t>(cols + columns));
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

TEST(FewRows, ZerosAreZeros) {
  const FewRowsKernel* kernel = choose_few_rows(FewRowsForm::kQ4_1, "");
  if (kernel == nullptr) GTEST_SKIP() << "this CPU has no such kernel";
  const FourBitWeights weights(8, 64, 3);
  std::vector<float> x(2 * 64, 0.0f);
  for (const float value : few_products(*kernel, weights, x.data(), 2, 8)) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace ei::kernels
