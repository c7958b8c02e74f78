// Random products through a dense provider, held to sums in double: for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "backend/dense_provider.h"
#include "base/thread_pool.h"
#include "kernels/products/reference/gemm_reference.h"

namespace ei {

inline constexpr float kUntouched = -77.0f;

struct DenseProblem {
  int64_t m, n, k;
  std::vector<float> x, w;  // [m, k + 3], [n, k]

  DenseProblem(int64_t rows, int64_t outputs, int64_t inputs, uint32_t seed) : m(rows), n(outputs), k(inputs) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    x.resize(static_cast<size_t>(m * (k + 3)));
    w.resize(static_cast<size_t>(n * k));
    for (float& value : x) value = normal(random);
    for (float& value : w) value = normal(random);
  }
  Matrix input() const { return {const_cast<float*>(x.data()), m, k, k + 3}; }
  DenseProvider::RowSource source(float factor = 1) const {
    return [this, factor](int64_t begin, int64_t end, float* rows) {
      for (int64_t i = 0; i < (end - begin) * k; ++i) rows[i] = factor * w[static_cast<size_t>(begin * k + i)];
    };
  }
};

struct DenseOutput {
  int64_t stride = 0;
  std::vector<float> y;
};

inline DenseOutput run_product(const DenseProvider& provider, const DenseProvider::Packed& packed,
                               const DenseProblem& problem, int workers, int64_t gap) {
  DenseOutput out{problem.n + gap, {}};
  out.y.assign(static_cast<size_t>(problem.m * out.stride), kUntouched);
  const size_t bytes = provider.scratch_bytes(packed, problem.m, workers);
  std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
  const DenseProvider::Product product{
      packed, problem.input(), {out.y.data(), problem.m, problem.n, out.stride}, scratch.get()};
  WorkQueue preparing;
  WorkQueue multiplying;
  ThreadPool pool(workers);
  pool.run([&](Worker) { provider.prepare(product, preparing); });
  pool.run([&](Worker worker) { provider.multiply(product, worker, multiplying); });
  return out;
}

// Six standard deviations of what rounding the sums of a run of 32 products to fp16 leaves: a sum s is off by at most
// 2^-11 |s|, evenly spread, so by 2^-11 |s| / sqrt(3) in the mean square.
inline double half_run_error(const DenseProblem& problem, int64_t row, int64_t column) {
  constexpr int64_t kRun = 32;
  constexpr double kDeviations = 6;
  double squares = 0;
  double sum = 0;
  for (int64_t i = 0; i < problem.k; ++i) {
    if (i % kRun == 0) sum = 0;
    sum += static_cast<double>(problem.x[static_cast<size_t>(row * (problem.k + 3) + i)]) *
           static_cast<double>(problem.w[static_cast<size_t>(column * problem.k + i)]);
    squares += sum * sum;
  }
  return kDeviations * std::ldexp(1.0, -11) * std::sqrt(squares / 3) + std::ldexp(1.0, -20);
}

inline void expect_product(const DenseProvider& provider, const DenseProblem& problem, const DenseOutput& out,
                           float factor, uint32_t seed) {
  std::vector<float> want(static_cast<size_t>(problem.m * problem.n));
  kernels::reference_gemm(problem.input(), problem.w.data(), {want.data(), problem.m, problem.n, problem.n},
                          provider.numbers());
  const bool fp16 = provider.numbers() == "fp16";
  const double of_unit = 4e-5 * std::sqrt(static_cast<double>(problem.k));  // docs/numerics.md
  for (int64_t row = 0; row < problem.m; ++row) {
    for (int64_t column = 0; column < out.stride; ++column) {
      const float got = out.y[static_cast<size_t>(row * out.stride + column)];
      if (column >= problem.n) {
        ASSERT_EQ(got, kUntouched) << "wrote behind row " << row << ", seed " << seed;
        continue;
      }
      const double tolerance = (fp16 ? half_run_error(problem, row, column) : of_unit) * static_cast<double>(factor);
      ASSERT_NEAR(got, factor * want[static_cast<size_t>(row * problem.n + column)], tolerance)
          << "row " << row << " column " << column << " of " << problem.m << "x" << problem.n << "x" << problem.k
          << ", seed " << seed;
    }
  }
}

}  // namespace ei
