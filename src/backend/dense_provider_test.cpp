// Every dense provider of the registry against sums in double, on odd shapes and any number of workers.
#include "backend/dense_provider.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/products/reference/gemm_reference.h"

namespace ei {
namespace {

constexpr float kUntouched = -77.0f;

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
  Matrix input() const { return {const_cast<float*>(x.data()), m, k, k + 3}; }
  DenseProvider::RowSource source(float factor = 1) const {
    return [this, factor](int64_t begin, int64_t end, float* rows) {
      for (int64_t i = 0; i < (end - begin) * k; ++i) rows[i] = factor * w[static_cast<size_t>(begin * k + i)];
    };
  }
};

struct Output {
  int64_t stride = 0;
  std::vector<float> y;
};

Output run(const DenseProvider& provider, const DenseProvider::Packed& packed, const Problem& problem, int workers,
           int64_t gap) {
  Output out{problem.n + gap, {}};
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

void expect_product(const DenseProvider& provider, const Problem& problem, const Output& out, float factor,
                    uint32_t seed) {
  std::vector<float> want(static_cast<size_t>(problem.m * problem.n));
  const bool fp16 = provider.numbers() == "fp16";
  kernels::reference_gemm(problem.input(), problem.w.data(), {want.data(), problem.m, problem.n, problem.n},
                          fp16 ? DType::kF16 : DType::kBF16);
  const double of_unit = (fp16 ? 6e-3 : 4e-5) * std::sqrt(static_cast<double>(problem.k));  // docs/numerics.md
  for (int64_t row = 0; row < problem.m; ++row) {
    for (int64_t column = 0; column < out.stride; ++column) {
      const float got = out.y[static_cast<size_t>(row * out.stride + column)];
      if (column >= problem.n) {
        ASSERT_EQ(got, kUntouched) << "wrote behind row " << row << ", seed " << seed;
        continue;
      }
      const double tolerance = of_unit * static_cast<double>(factor);
      ASSERT_NEAR(got, factor * want[static_cast<size_t>(row * problem.n + column)], tolerance)
          << "row " << row << " column " << column << " of " << problem.m << "x" << problem.n << "x" << problem.k
          << ", seed " << seed;
    }
  }
}

class Dense : public ::testing::TestWithParam<DenseEntry> {
 protected:
  void SetUp() override {
    auto created = GetParam().create("");
    if (!created.ok()) GTEST_SKIP() << created.error().message;
    provider_ = std::move(created).value();
  }
  std::unique_ptr<DenseProvider> provider_;
};

TEST_P(Dense, MultipliesOddShapesOnAnyNumberOfWorkers) {
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 64, 64},   {31, 17, 33},  {32, 512, 96},
                               {33, 513, 7}, {95, 530, 40}, {257, 96, 64}, {290, 1100, 30}};
  uint32_t seed = 11;
  for (const auto& shape : shapes) {
    const Problem problem(shape[0], shape[1], shape[2], ++seed);
    auto packed = provider_->pack(problem.n, problem.k, problem.source());
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    EXPECT_EQ((*packed)->bytes, provider_->packed_bytes(problem.n, problem.k));
    const Output first = run(*provider_, **packed, problem, 1, 0);
    for (int workers = 1; workers <= 3; ++workers) {
      const Output out = run(*provider_, **packed, problem, workers, workers - 1);
      expect_product(*provider_, problem, out, 1, seed);
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

TEST_P(Dense, RepacksInPlaceFromManyThreads) {
  const uint32_t seed = 5;
  const Problem problem(40, 600, 48, seed);
  auto packed = provider_->pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  expect_product(*provider_, problem, run(*provider_, **packed, problem, 2, 0), 1, seed);
  WorkQueue pieces;
  ThreadPool pool(3);
  pool.run([&](Worker) {
    for (int64_t begin; (begin = 32 * pieces.take()) < problem.n;) {
      provider_->repack(**packed, begin, std::min(begin + 32, problem.n), problem.source(2));
    }
  });
  expect_product(*provider_, problem, run(*provider_, **packed, problem, 2, 0), 2, seed);
}

TEST_P(Dense, StartsNoThreadsOfItsOwn) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  const Problem problem(512, 512, 64, 7);
  auto packed = provider_->pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  run(*provider_, **packed, problem, 1, 0);
  EXPECT_EQ(threads(), before);  // OpenMP would keep a team it had started
}

TEST_P(Dense, RefusesAnEmptyMatrixAndAcceptsNoRows) {
  EXPECT_FALSE(provider_->pack(0, 8, {}).ok());
  const Problem problem(0, 8, 8, 3);
  auto packed = provider_->pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  EXPECT_TRUE(run(*provider_, **packed, problem, 2, 0).y.empty());
}

TEST_P(Dense, IsChosenByNameAndSaysWhatItIs) {
  auto chosen = create_dense_provider(GetParam().name, "");
  ASSERT_TRUE(chosen.ok());
  EXPECT_FALSE((*chosen)->describe().empty());
}

INSTANTIATE_TEST_SUITE_P(Providers, Dense, ::testing::ValuesIn(dense_providers().begin(), dense_providers().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DenseChoice, GgmlNeedsNoProviderAndUnknownNamesAreRefused) {
  auto none = create_dense_provider("ggml", "");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  const auto unknown = create_dense_provider("mkl", "");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUsage);
  EXPECT_NE(unknown.error().message.find("ggml, bf16, onednn"), std::string::npos) << unknown.error().message;
}

TEST(DenseChoice, UnaskedOnlyOursIsTaken) {
  for (const char* isa : {"", "scalar"}) {
    const auto chosen = create_dense_provider("", isa);
    const auto ours = create_dense_provider("bf16", isa);
    ASSERT_TRUE(chosen.ok());
    EXPECT_EQ(*chosen != nullptr, ours.ok());
    if (ours.ok()) {
      EXPECT_EQ((*chosen)->describe(), (*ours)->describe());
    }
  }
}

TEST(DenseChoice, AnIsaWithoutMatrixInstructionsTurnsOursOff) {
  for (const DenseEntry& entry : dense_providers()) {
    if (entry.name != "bf16") continue;
    EXPECT_FALSE(entry.fast("scalar"));
    EXPECT_FALSE(entry.create("scalar").ok());
  }
}

}  // namespace
}  // namespace ei
