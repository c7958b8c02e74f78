// Streams of several threads on one pool.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/cancel.h"

namespace ei {
namespace {

// On a pool of one thread the work is done by whoever calls: thread sanitizers see all of it.
TEST(SharedPool, StreamsOfSeveralThreadsTakeTurns) {
  BackendOptions options;
  options.threads = 1;
  const auto made = create_backend("cpu", options);
  ASSERT_TRUE(made.ok());
  const Backend& backend = **made;
  int64_t sum = 0;  // not atomic: the turns are what keeps the threads apart
  int inside = 0;
  CancelToken cancel;
  std::vector<std::thread> threads;
  constexpr int kThreads = 4;
  constexpr int kTurns = 50;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      const std::unique_ptr<Stream> stream = std::move(backend.new_stream(index == 0 ? &cancel : nullptr)).value();
      for (int turn = 0; turn < kTurns; ++turn) {
        stream->enter(turn % 2 == 0 ? Phase::kPrompt : Phase::kGeneration, 1);
        stream->host([&] {
          EXPECT_EQ(++inside, 1);
          ++sum;
          --inside;
        });
        if (index == 0 && turn == kTurns / 2) cancel.cancel();
        const Status ran = stream->synchronize();
        EXPECT_EQ(ran.ok(), index != 0 || turn < kTurns / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * kTurns - kTurns / 2);
}

}  // namespace
}  // namespace ei
