#include "kernels/products/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/products/reference/gemm_reference.h"
#include "support/gemm_problem.h"

namespace ei::kernels {
namespace {

class Gemm : public testing::TestWithParam<GemmKernel> {};
INSTANTIATE_TEST_SUITE_P(Kernels, Gemm, testing::ValuesIn(tested_gemm_kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(Gemm, EqualsTheReferenceOnOddShapes) {
  const int64_t shapes[][3] = {{1, 1, 1},      {1, 8, 8},       {10, 8, 16},     {11, 9, 7},     {9, 7, 33},
                               {131, 70, 100}, {250, 129, 384}, {33, 513, 1024}, {21, 40, 1032}, {25, 17, 4100},
                               {12, 32, 32},   {13, 48, 289},   {48, 31, 512}};
  uint32_t seed = 20;
  for (const auto& shape : shapes) {
    Problem problem(shape[0], shape[1], shape[2], ++seed);
    const std::vector<uint16_t> weight = packed_weight(GetParam(), problem);
    Output want(problem.m, problem.n);
    const bool halves = GetParam().numbers == "fp16";
    reference_gemm(problem.input(), problem.w.data(), want.y, GetParam().numbers);
    Output got(problem.m, problem.n);
    multiply(GetParam(), weight, problem.input(), got.y, 2);
    const double tolerance = (halves ? 6e-3 : 4e-5) * std::sqrt(static_cast<double>(problem.k));  // docs/numerics.md
    for (int64_t row = 0; row < problem.m; ++row) {
      for (int64_t column = 0; column < got.y.stride; ++column) {
        if (column >= problem.n) {
          ASSERT_EQ(got.at(row, column), kUntouched) << "wrote behind row " << row << ", seed " << seed;
          continue;
        }
        ASSERT_NEAR(got.at(row, column), want.at(row, column), tolerance)
            << "row " << row << " column " << column << " of " << problem.m << "x" << problem.n << "x" << problem.k
            << ", seed " << seed;
      }
    }
  }
}

TEST_P(Gemm, OneRowsInfinitiesStayInThatRow) {
  Problem problem(12, 16, 24, 8);
  const std::vector<uint16_t> weight = packed_weight(GetParam(), problem);
  Output before(problem.m, problem.n);
  multiply(GetParam(), weight, problem.input(), before.y, 1);
  problem.x[static_cast<size_t>(4 * (problem.k + 3))] = INFINITY;
  Output after(problem.m, problem.n);
  multiply(GetParam(), weight, problem.input(), after.y, 1);
  for (int64_t row = 0; row < problem.m; ++row) {
    for (int64_t column = 0; column < problem.n; ++column) {
      if (row == 4) {
        EXPECT_FALSE(std::isfinite(after.at(row, column)));
      } else {
        EXPECT_EQ(after.at(row, column), before.at(row, column)) << row;
      }
    }
  }
}

TEST(GemmChoice, AnIsaBelowTheMatrixInstructionsTurnsItOff) {
  EXPECT_EQ(choose_gemm("scalar"), nullptr);
  EXPECT_EQ(choose_gemm("no such isa"), nullptr);
}

TEST(GemmChoice, TakesTheFirstThatIsUsableAndEachByItsName) {
  const GemmKernel* first = nullptr;
  for (const GemmKernel* kernel : gemm_kernels()) {
    if (!kernel->usable()) continue;
    if (first == nullptr) first = kernel;
    EXPECT_EQ(choose_gemm(kernel->name), kernel) << kernel->name;
  }
  EXPECT_EQ(choose_gemm(""), first);
}

}  // namespace
}  // namespace ei::kernels
