#include "backend/onednn_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/dtype.h"

namespace ei {
namespace {

float rounded(float value) { return bf16_to_f32(f32_to_bf16(value)); }

struct Problem {
  int64_t m, n, k;
  std::vector<float> x, w;  // [m, k + 3], [n, k]

  Problem(int64_t rows, int64_t outputs, int64_t inputs, uint32_t seed) : m(rows), n(outputs), k(inputs) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    x.resize(static_cast<size_t>(m * x_stride()));
    w.resize(static_cast<size_t>(n * k));
    for (float& value : x) value = normal(random);
    for (float& value : w) value = normal(random);
  }
  int64_t x_stride() const { return k + 3; }
  OnednnMatmul::RowSource source(float factor = 1) const {
    return [this, factor](int64_t begin, int64_t end, float* rows) {
      for (int64_t i = 0; i < (end - begin) * k; ++i) rows[i] = factor * w[static_cast<size_t>(begin * k + i)];
    };
  }
  double expected(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += static_cast<double>(rounded(x[static_cast<size_t>(row * x_stride() + i)])) *
             static_cast<double>(rounded(w[static_cast<size_t>(column * k + i)]));
    }
    return sum;
  }
};

struct Output {
  int64_t stride = 0;
  std::vector<float> y;
};

Output run(const OnednnMatmul::Packed& packed, const Problem& problem, int workers, int64_t gap) {
  Output out{problem.n + gap, {}};
  out.y.assign(static_cast<size_t>(problem.m * out.stride), -77.0f);
  const size_t bytes = OnednnMatmul::scratch_bytes(packed, problem.m, workers);
  std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
  WorkQueue queue;
  ThreadPool pool(workers);
  pool.run([&](Worker worker) {
    OnednnMatmul::run(packed, problem.x.data(), problem.x_stride(), out.y.data(), out.stride, problem.m, scratch.get(),
                      worker, queue);
  });
  return out;
}

void expect_product(const Problem& problem, const Output& out, double factor, uint32_t seed) {
  for (int64_t row = 0; row < problem.m; ++row) {
    for (int64_t column = 0; column < out.stride; ++column) {
      const float got = out.y[static_cast<size_t>(row * out.stride + column)];
      if (column >= problem.n) {
        ASSERT_EQ(got, -77.0f) << "wrote behind row " << row << ", seed " << seed;
        continue;
      }
      const double tolerance = 1e-5 * std::sqrt(static_cast<double>(problem.k)) * factor;
      ASSERT_NEAR(got, factor * problem.expected(row, column), 4 * tolerance)
          << "row " << row << " column " << column << " of " << problem.m << "x" << problem.n << "x" << problem.k
          << ", seed " << seed;
    }
  }
}

TEST(OnednnMatmul, MultipliesOddShapesOnAnyNumberOfWorkers) {
  if (!OnednnMatmul::built()) GTEST_SKIP() << "built without oneDNN";
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 64, 64},   {31, 17, 33},  {32, 512, 96},
                               {33, 513, 7}, {95, 530, 40}, {257, 96, 64}, {290, 1100, 30}};
  uint32_t seed = 11;
  for (const auto& shape : shapes) {
    const Problem problem(shape[0], shape[1], shape[2], ++seed);
    auto packed = OnednnMatmul::pack(problem.n, problem.k, problem.source());
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    EXPECT_EQ((*packed)->bytes, OnednnMatmul::packed_bytes(problem.n, problem.k));
    const Output first = run(**packed, problem, 1, 0);
    for (int workers = 1; workers <= 3; ++workers) {
      const Output out = run(**packed, problem, workers, workers - 1);
      expect_product(problem, out, 1, seed);
      if (HasFatalFailure()) return;
      for (int64_t i = 0; i < problem.m * problem.n; ++i) {
        const int64_t row = i / problem.n, column = i % problem.n;
        ASSERT_EQ(out.y[static_cast<size_t>(row * out.stride + column)],
                  first.y[static_cast<size_t>(row * first.stride + column)])
            << workers << " workers changed a value, seed " << seed;
      }
    }
  }
}

TEST(OnednnMatmul, RepacksInPlaceFromManyThreads) {
  if (!OnednnMatmul::built()) GTEST_SKIP() << "built without oneDNN";
  const uint32_t seed = 5;
  const Problem problem(40, 600, 48, seed);
  auto packed = OnednnMatmul::pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  expect_product(problem, run(**packed, problem, 2, 0), 1, seed);
  ThreadPool pool(3);
  pool.run([&](Worker worker) {
    const Range range = even_share(problem.n, worker);
    OnednnMatmul::repack(**packed, range.begin, range.end, problem.source(2));
  });
  expect_product(problem, run(**packed, problem, 2, 0), 2, seed);
}

TEST(OnednnMatmul, StartsNoThreadsOfItsOwn) {
  if (!OnednnMatmul::built()) GTEST_SKIP() << "built without oneDNN";
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  const Problem problem(512, 512, 64, 7);
  auto packed = OnednnMatmul::pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  run(**packed, problem, 1, 0);
  EXPECT_EQ(threads(), before);  // OpenMP would keep a team it had started
}

TEST(OnednnMatmul, RefusesAnEmptyMatrixAndAcceptsNoRows) {
  EXPECT_FALSE(OnednnMatmul::pack(0, 8, {}).ok());
  if (!OnednnMatmul::built()) GTEST_SKIP() << "built without oneDNN";
  const Problem problem(0, 8, 8, 3);
  auto packed = OnednnMatmul::pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  EXPECT_TRUE(run(**packed, problem, 2, 0).y.empty());
}

TEST(OnednnMatmul, IsAvailableOnlyWhenBuilt) {
  EXPECT_TRUE(OnednnMatmul::built() || !OnednnMatmul::available());
  EXPECT_EQ(OnednnMatmul::describe().empty(), !OnednnMatmul::built());
}

}  // namespace
}  // namespace ei
