// Products on several workers.
#include <gtest/gtest.h>

#include <string>

#include "support/gemm_problem.h"

namespace ei::kernels {
namespace {

class GemmOnWorkers : public testing::TestWithParam<GemmKernel> {};
INSTANTIATE_TEST_SUITE_P(Kernels, GemmOnWorkers, testing::ValuesIn(tested_gemm_kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(GemmOnWorkers, DependsNeitherOnWorkersNorOnHowRowsAreCut) {
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

}  // namespace
}  // namespace ei::kernels
