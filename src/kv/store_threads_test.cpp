// Forks of one store on several threads.
#include <gtest/gtest.h>

#include <thread>

#include "base/random.h"
#include "kv/store.h"
#include "support/fake_backend.h"
#include "support/naive_store.h"

namespace ei::kv {
namespace {

TEST(Store, ForksWorkInParallelOnOnePool) {
  FakeBackend backend;
  Filled base(backend);
  base.feed(75);
  const auto work = [&backend, &base](Store store, uint64_t seed) {
    Random random(seed);
    NaiveStore naive = base.naive;
    uint64_t number = seed << 32;
    for (int round = 0; round < 150; ++round) {
      const int64_t count = random.between(1, 40);
      ASSERT_TRUE(store.reserve(count).ok());
      naive.reserve(count);
      for (int l = 0; l < kSmall.layers; ++l) naive.append(store, backend, l, count, number);
      auto fork = store.fork();
      ASSERT_TRUE(fork.ok());
      if (random.below(2) == 0) store = std::move(fork).value();
      for (int h = 0; h < kSmall.kv_heads; ++h) {
        const KeepList keep = every(random.between(1, 3), store.length(0, h));
        ASSERT_TRUE(store.compact(0, h, keep).ok());
        naive.compact(0, h, keep);
      }
      if (round % 10 == 9) {
        const auto position = static_cast<int32_t>(random.below(store.next_position()));
        ASSERT_TRUE(store.truncate(position).ok());
        naive.truncate(position);
      }
      naive.expect_equal(store, backend);
      if (testing::Test::HasFailure()) return;
    }
  };
  auto left = base.store.fork();
  auto right = base.store.fork();
  ASSERT_TRUE(left.ok() && right.ok());
  std::thread first(work, std::move(left).value(), 1);
  std::thread second(work, std::move(right).value(), 2);
  first.join();
  second.join();
  base.expect_equal();
}

}  // namespace
}  // namespace ei::kv
