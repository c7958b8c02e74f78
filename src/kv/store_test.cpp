#include "kv/store.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/clock.h"
#include "support/fake_backend.h"
#include "support/naive_store.h"

namespace ei::kv {
namespace {

KeepList first_slots(int64_t count) {
  KeepList keep(static_cast<size_t>(count));
  std::iota(keep.begin(), keep.end(), 0);
  return keep;
}

TEST(Store, StartsEmptyExactAndWithoutMemory) {
  FakeBackend backend;
  const Store store(backend, kSmall);
  EXPECT_EQ(store.next_position(), 0);
  EXPECT_EQ(store.bytes(), 0);
  EXPECT_EQ(store.average_slots(), 0);
  EXPECT_TRUE(store.exact());
  EXPECT_EQ(backend.live_bytes(), 0);
}

TEST(Store, GrowsWithoutMovingWhatIsThere) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40);
  const void* const first_page = filled.store.view(0).heads[0].key_pages[0];
  for (int i = 0; i < 50; ++i) filled.feed(17);
  EXPECT_EQ(filled.store.view(0).heads[0].key_pages[0], first_page);
  filled.expect_equal();
}

TEST(Store, AlignsKeysAndValuesToCacheLines) {
  FakeBackend backend;
  Filled filled(
      backend,
      {.layers = 1, .kv_heads = 1, .head_dim = 5, .key_type = DType::kF16, .value_type = DType::kF16, .page_slots = 3});
  filled.feed(7);
  const KvHeadView head = filled.store.view(0).heads[0];
  for (int page = 0; page < 3; ++page) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(head.key_pages[page]) % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(head.value_pages[page]) % 64, 0u);
  }
}

TEST(Store, KeepsPositionsAfterCompact) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(100);
  filled.compact(1, 0, {0, 7, 50, 97, 98, 99});
  filled.feed(2);
  filled.expect_equal();
  const KvHeadView head = filled.store.view(1).heads[0];
  EXPECT_EQ(head.length, 8);
  EXPECT_EQ(head.listed, 3) << "what ends at the newest token needs no list";
  EXPECT_EQ(head.tail_position, 97);
  EXPECT_EQ(filled.store.length(1, 1), 102);
}

TEST(Store, CompactsWithOneSparePage) {
  FakeBackend backend;
  Filled filled(backend);
  while (filled.store.pool_usage().pages < 252) filled.feed(32);
  ASSERT_EQ(filled.store.pool_usage().slab_bytes, 256 * filled.naive.page_bytes());
  backend.limit = backend.live_bytes();
  filled.compact(0, 0, every(2, filled.store.length(0, 0)));
  filled.expect_equal();
}

TEST(Store, LargeSlabsAreWholeHugePages) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  FakeBackend backend;
  Filled filled(backend);
  int large = 0;
  while (large < 3) {
    const int64_t before = backend.live_bytes();
    filled.feed(64);
    const int64_t slab = backend.live_bytes() - before;
    if (slab <= kHugePage) continue;
    EXPECT_EQ(slab % kHugePage, 0);
    ++large;
  }
}

TEST(Store, TakesWhatItNeedsWhereAWholeSlabDoesNotFit) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40000);
  const int64_t free = filled.store.pool_usage().slab_bytes - filled.store.bytes();
  const int64_t quarter = filled.store.pool_usage().slab_bytes / 4;
  int64_t count = 1;
  while (filled.store.bytes_missing(count) <= free) ++count;
  ASSERT_LT(filled.store.bytes_missing(count) - free, quarter / 2);
  backend.limit = backend.live_bytes() + quarter / 2;
  EXPECT_TRUE(filled.store.reserve(count).ok());
}

TEST(Store, TakesNoMoreThanIsExpected) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  FakeBackend backend;
  Filled filled(backend);
  const int64_t need = filled.store.bytes_missing(int64_t{50} * 1000);
  filled.store.expect(int64_t{50} * 1000);
  for (int i = 0; i < 50; ++i) filled.feed(1000);
  EXPECT_EQ(filled.store.bytes(), need);
  EXPECT_LT(filled.store.pool_usage().slab_bytes, need + kHugePage);
}

TEST(Store, ADeviceThatFailsHasNotRunOutOfMemory) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40);
  backend.device_fails = true;
  const Status status = filled.store.reserve(100000);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kDevice);
  EXPECT_EQ(status.error().message, "the device failed");
  filled.expect_equal();
}

TEST(Store, RefusesBadKeepListsAndChangesNothing) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(10);
  for (const KeepList& keep : {KeepList{3, 2}, KeepList{4, 4}, KeepList{-1, 2}, KeepList{0, 10}, first_slots(11)}) {
    const Status status = filled.store.compact(0, 0, keep);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("keep list of layer 0, kv_head 0"), std::string::npos);
  }
  filled.expect_equal();
}

TEST(Store, KeepingEverythingIsNoCompaction) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(33);
  filled.compact(0, 0, first_slots(33));
  EXPECT_EQ(filled.store.compactions(), 0);
  EXPECT_TRUE(filled.store.exact());
}

TEST(Store, RemembersTheMostItHeld) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(100);
  const int64_t whole = filled.store.bytes();
  EXPECT_EQ(filled.store.bytes_peak(), whole);
  Store fork = filled.store.fork().value();
  ASSERT_TRUE(fork.compact(0, 0, first_slots(1)).ok());
  EXPECT_LT(fork.bytes(), whole);
  EXPECT_EQ(fork.bytes_peak(), whole) << "held when it was forked";
  filled.feed(200);
  EXPECT_GT(filled.store.bytes_peak(), whole);
  EXPECT_EQ(filled.store.bytes_peak(), filled.store.bytes());
  EXPECT_EQ(fork.bytes_peak(), whole);
  fork = std::move(filled.store);
  EXPECT_EQ(fork.bytes_peak(), fork.bytes()) << "moved along";
}

TEST(Store, IsExactAgainOnlyBeforeTheFirstDroppedPosition) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(20);
  filled.compact(0, 1, {0, 1, 2, 3, 4, 6, 19});
  EXPECT_FALSE(filled.store.exact());
  filled.feed(5);
  EXPECT_FALSE(filled.store.exact());
  ASSERT_TRUE(filled.store.truncate(6).ok());
  EXPECT_FALSE(filled.store.exact());
  ASSERT_TRUE(filled.store.truncate(5).ok());
  EXPECT_TRUE(filled.store.exact());
  EXPECT_EQ(filled.store.view(0).heads[1].listed, 0);
}

TEST(Store, RewindsOnlyToWhereItHasBeen) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(9);
  EXPECT_TRUE(filled.store.truncate(9).ok());
  EXPECT_FALSE(filled.store.truncate(10).ok());
  EXPECT_FALSE(filled.store.truncate(-1).ok());
  filled.expect_equal();
}

TEST(Store, FailsToReserveWithoutChangingAnything) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40);
  backend.limit = backend.live_bytes() + (40 << 20);  // of the 48 MiB it will ask for
  const int64_t before = backend.live_bytes();
  const Status status = filled.store.reserve(100000);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kMemory);
  EXPECT_EQ(backend.live_bytes(), before) << "slabs taken on the way must be given back";
  filled.expect_equal();
  EXPECT_FALSE(filled.store.reserve(int64_t{1} << 31).ok());
  filled.expect_equal();
}

TEST(Store, KeepsItsContentsWhenCopyingASharedPageFails) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40);
  auto fork = filled.store.fork();
  ASSERT_TRUE(fork.ok());
  backend.copies_fail = true;
  EXPECT_FALSE(fork->reserve(1).ok());
  backend.copies_fail = false;
  filled.expect_equal();
  filled.naive.expect_equal(*fork, backend);
}

TEST(Store, ForkSharesPagesAndSeparatesOnWrite) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40);  // two pages per head, the second partly filled
  const int64_t pages = filled.store.pool_usage().pages;
  auto fork = filled.store.fork();
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(filled.store.pool_usage().pages, pages) << "forking takes no page";
  EXPECT_EQ(fork->bytes(), filled.store.bytes());
  ASSERT_TRUE(fork->reserve(1).ok());
  EXPECT_EQ(filled.store.pool_usage().pages, pages + 4) << "the partly filled page of each of four heads";
  EXPECT_EQ(fork->view(0).heads[0].key_pages[0], filled.store.view(0).heads[0].key_pages[0]);
  EXPECT_NE(fork->view(0).heads[0].key_pages[1], filled.store.view(0).heads[0].key_pages[1]);
  filled.feed(3);
  EXPECT_EQ(filled.store.pool_usage().pages, pages + 4) << "the other side is alone with its page now";
  filled.expect_equal();
}

TEST(Store, AppendsWhatWasReservedBeforeAFork) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(40);
  ASSERT_TRUE(filled.store.reserve(5).ok());
  auto fork = filled.store.fork();
  ASSERT_TRUE(fork.ok());
  NaiveStore forked = filled.naive;
  for (int l = 0; l < kSmall.layers; ++l) filled.naive.append(filled.store, backend, l, 5, filled.number);
  ASSERT_TRUE(fork->reserve(3).ok());
  for (int l = 0; l < kSmall.layers; ++l) forked.append(*fork, backend, l, 3, filled.number);
  filled.expect_equal();
  forked.expect_equal(*fork, backend);
}

TEST(Store, SmallContextsReserveLittle) {
  FakeBackend backend;
  Filled filled(backend);
  filled.feed(64);
  EXPECT_LE(backend.live_bytes(), 1 << 20);
  EXPECT_TRUE(filled.store.truncate(0).ok());
  EXPECT_EQ(backend.live_bytes(), 0) << "empty slabs are released";
}

TEST(Store, ReturnsMemoryToTheSystemWhenCompacted) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's shadow of the pages stays resident";
#endif
  FakeBackend backend;
  const StoreConfig config{
      .layers = 2, .kv_heads = 4, .head_dim = 64, .key_type = DType::kF32, .value_type = DType::kF32};
  Store store(backend, config);
  const int64_t empty = current_rss_bytes();
  constexpr int64_t kTokens = 16384;  // 64 MiB of rows
  ASSERT_TRUE(store.reserve(kTokens).ok());
  const std::vector<unsigned char> ones(static_cast<size_t>(config.page_slots) * 256, 1);
  for (int l = 0; l < config.layers; ++l) {
    const KvAppend append = store.append(l, kTokens);
    for (const KvAppend::Run& run : append.runs) {
      const size_t bytes = static_cast<size_t>(run.count) * 256;
      ASSERT_TRUE(backend.copy_in(plain_key(append.shape, run.page, run.slot), ones.data(), bytes).ok());
      ASSERT_TRUE(backend.copy_in(plain_value(append.shape, run.page, run.slot), ones.data(), bytes).ok());
    }
  }
  const int64_t full = current_rss_bytes();
  EXPECT_GT(full - empty, int64_t{56} << 20);
  EXPECT_EQ(store.bytes(), int64_t{64} << 20);
  for (int l = 0; l < config.layers; ++l) {
    for (int h = 0; h < config.kv_heads; ++h) ASSERT_TRUE(store.compact(l, h, every(32, kTokens)).ok());
  }
  EXPECT_EQ(store.bytes(), int64_t{2} << 20);
  EXPECT_EQ(store.bytes_full(), int64_t{64} << 20);
  EXPECT_LT(current_rss_bytes() - empty, int64_t{12} << 20);
}

}  // namespace
}  // namespace ei::kv
