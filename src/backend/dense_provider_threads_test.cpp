// Every dense provider of this machine, repacked by several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "support/dense_problem.h"

namespace ei {
namespace {

TEST(DenseOnThreads, RepacksInPlace) {
  for (const DenseEntry& entry : dense_providers()) {
    auto created = entry.create("");
    if (!created.ok()) continue;
    const std::unique_ptr<DenseProvider> provider = std::move(created).value();
    const uint32_t seed = 5;
    const DenseProblem problem(40, 600, 48, seed);
    auto packed = provider->pack(problem.n, problem.k, problem.source());
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    expect_product(*provider, problem, run_product(*provider, **packed, problem, 2, 0), 1, seed);
    WorkQueue pieces;
    ThreadPool pool(3);
    pool.run([&](Worker) {
      for (int64_t begin; (begin = 32 * pieces.take()) < problem.n;) {
        provider->repack(**packed, begin, std::min(begin + 32, problem.n), problem.source(2));
      }
    });
    expect_product(*provider, problem, run_product(*provider, **packed, problem, 2, 0), 2, seed);
  }
}

}  // namespace
}  // namespace ei
