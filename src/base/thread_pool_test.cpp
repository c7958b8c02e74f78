#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace ei {
namespace {

TEST(ThreadPool, EveryWorkerRunsOncePerJob) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> runs(static_cast<size_t>(threads));
    for (int job = 0; job < 200; ++job) {
      pool.run([&](Worker worker) {
        EXPECT_EQ(worker.count, threads);
        ++runs[static_cast<size_t>(worker.index)];
      });
    }
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 200);
  }
}

TEST(ThreadPool, WhatWorkersWriteIsSeenByTheCaller) {
  ThreadPool pool(4);
  std::vector<int64_t> squares(10000);
  pool.run([&](Worker worker) {
    const Range mine = even_share(static_cast<int64_t>(squares.size()), worker);
    for (int64_t i = mine.begin; i < mine.end; ++i) squares[static_cast<size_t>(i)] = i * i;
  });
  for (int64_t i = 0; i < static_cast<int64_t>(squares.size()); ++i) ASSERT_EQ(squares[static_cast<size_t>(i)], i * i);
}

TEST(WorkQueue, HandsOutEveryPieceOnce) {
  ThreadPool pool(4);
  WorkQueue queue;
  std::vector<std::atomic<int>> taken(5000);
  pool.run([&](Worker) {
    for (int64_t piece = queue.take(); piece < 5000; piece = queue.take()) ++taken[static_cast<size_t>(piece)];
  });
  for (const std::atomic<int>& count : taken) ASSERT_EQ(count, 1);
}

TEST(WorkQueue, StopsAfterACancellation) {
  CancelToken cancel;
  WorkQueue queue;
  queue.watch(&cancel);
  EXPECT_EQ(queue.take(), 0);
  cancel.cancel();
  EXPECT_GE(queue.take(), int64_t{1} << 40);
}

TEST(EvenShare, CoversEverythingWithoutOverlap) {
  for (const int64_t total : {0, 1, 7, 64}) {
    int64_t next = 0;
    for (int index = 0; index < 5; ++index) {
      const Range range = even_share(total, {index, 5});
      EXPECT_EQ(range.begin, next);
      next = range.end;
    }
    EXPECT_EQ(next, total);
  }
}

}  // namespace
}  // namespace ei
