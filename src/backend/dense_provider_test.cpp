// Every dense provider of the registry against sums in double, on odd shapes and any number of workers.
#include "backend/dense_provider.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "support/dense_problem.h"

namespace ei {
namespace {

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
    const DenseProblem problem(shape[0], shape[1], shape[2], ++seed);
    auto packed = provider_->pack(problem.n, problem.k, problem.source());
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    EXPECT_EQ((*packed)->bytes, provider_->packed_bytes(problem.n, problem.k));
    const DenseOutput first = run_product(*provider_, **packed, problem, 1, 0);
    for (int workers = 1; workers <= 3; ++workers) {
      const DenseOutput out = run_product(*provider_, **packed, problem, workers, workers - 1);
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

TEST_P(Dense, StartsNoThreadsOfItsOwn) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  const DenseProblem problem(512, 512, 64, 7);
  auto packed = provider_->pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  run_product(*provider_, **packed, problem, 1, 0);
  EXPECT_EQ(threads(), before);  // OpenMP would keep a team it had started
}

TEST_P(Dense, RefusesAnEmptyMatrixAndAcceptsNoRows) {
  EXPECT_FALSE(provider_->pack(0, 8, {}).ok());
  const DenseProblem problem(0, 8, 8, 3);
  auto packed = provider_->pack(problem.n, problem.k, problem.source());
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  EXPECT_TRUE(run_product(*provider_, **packed, problem, 2, 0).y.empty());
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
