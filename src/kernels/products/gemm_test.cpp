#include "kernels/products/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/products/cpu/gemm_lanes.h"
#include "kernels/products/cpu/gemm_tiles.h"
#include "kernels/products/reference/gemm_reference.h"
#include "kernels/simd/tiles_emulated.h"
#include "kernels/simd/vec_emulated.h"

namespace ei::kernels {
namespace {

constexpr float kUntouched = -77.0f;

bool emulated(const GemmKernel& kernel) { return kernel.name.starts_with("emulated"); }

// This CPU's kernels, and those of x86 in plain loops.
std::vector<GemmKernel> kernels() {
  std::vector<GemmKernel> all = {
      make_pair_gemm<TilesGemm<VecEmulated<16>, TilesEmulated>>("emulated_tiles", emulated_always),
      make_pair_gemm<LanesGemm<VecEmulated<16>>>("emulated_lanes", emulated_always)};
  for (const GemmKernel* kernel : gemm_kernels()) {
    if (kernel->usable()) all.push_back(*kernel);
  }
  return all;
}

struct Problem {
  int64_t m, n, k;
  std::vector<float> x, w;  // [m, k + 3], [n, k]

  Problem(int64_t rows, int64_t outputs, int64_t inputs, uint32_t seed) : m(rows), n(outputs), k(inputs) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    x.resize(static_cast<size_t>(m * (k + 3)));
    w.resize(static_cast<size_t>(n * k));
    for (float& value : x) value = normal(random);
    for (float& value : w) value = normal(random);
  }
  Matrix input() { return {x.data(), m, k, k + 3}; }
};

struct Output {
  std::vector<float> data;
  Matrix y;

  Output(int64_t m, int64_t n) : data(static_cast<size_t>(m * (n + 2)), kUntouched), y{data.data(), m, n, n + 2} {}
  float at(int64_t row, int64_t column) const { return y.data[row * y.stride + column]; }
};

std::vector<uint16_t> packed_weight(const GemmKernel& kernel, const Problem& problem) {
  const int64_t depth = kernel.depth(problem.k);
  std::vector<uint16_t> packed(static_cast<size_t>(kernel.packed_columns(problem.n, problem.k)), 0x7fff);
  for (int64_t row = 0; row < problem.n; row += kernel.column_panel) {
    kernel.pack_columns(problem.w.data() + row * problem.k, problem.k, std::min(kernel.column_panel, problem.n - row),
                        problem.k, packed.data() + row * depth);
  }
  return packed;
}

void multiply(const GemmKernel& kernel, const std::vector<uint16_t>& weight, Matrix x, Matrix y, int workers) {
  // Not-a-number everywhere that packing leaves alone.
  std::vector<uint16_t> packed(static_cast<size_t>(kernel.packed_rows(x.rows, x.cols)), 0x7fff);
  WorkQueue packing;
  WorkQueue multiplying;
  ThreadPool pool(workers);
  pool.run([&](Worker) { gemm_pack(kernel, x, packed.data(), packing); });
  pool.run([&](Worker) { gemm(kernel, {.x = packed.data(), .w = weight.data(), .k = x.cols, .y = y}, multiplying); });
}

class Gemm : public testing::TestWithParam<GemmKernel> {};
INSTANTIATE_TEST_SUITE_P(Kernels, Gemm, testing::ValuesIn(kernels()),
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
    reference_gemm(problem.input(), problem.w.data(), want.y, halves ? DType::kF16 : DType::kBF16);
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

TEST_P(Gemm, DependsNeitherOnWorkersNorOnHowRowsAreCut) {
  // Emulation is slow: fewer rows, and k of three passes only.
  const bool slow = emulated(GetParam());
  const int64_t rows_in_all = slow ? 70 : 157;
  for (const int64_t k : {int64_t{64}, slow ? int64_t{520} : int64_t{2500}}) {
    Problem problem(rows_in_all, 75, k, 3);
    const std::vector<uint16_t> weight = packed_weight(GetParam(), problem);
    Output whole(problem.m, problem.n);
    multiply(GetParam(), weight, problem.input(), whole.y, 1);
    for (const int workers : {1, 2, 3}) {
      for (const int64_t piece : {rows_in_all, int64_t{64}, int64_t{33}, int64_t{1}}) {
        Output cut(problem.m, problem.n);
        for (int64_t row = 0; row < problem.m; row += piece) {
          const int64_t rows = std::min(piece, problem.m - row);
          multiply(GetParam(), weight, problem.input().row_range(row, rows), cut.y.row_range(row, rows), workers);
        }
        ASSERT_EQ(cut.data, whole.data) << workers << " workers, pieces of " << piece << ", k " << k;
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
