// Random operation sequences on families of forked stores, compared with the naive model after every step.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "kv/store.h"
#include "support/fake_backend.h"
#include "support/naive_store.h"
#include "support/temp_folder.h"

namespace ei::kv {
namespace {

struct Pair {
  Store store;
  NaiveStore naive;
  int family = 0;  // stores of one family share a pool
};

class Sequence {
 public:
  Sequence(const StoreConfig& config, uint64_t seed) : config_(config), random_(seed) {
    pairs_.push_back(std::make_unique<Pair>(Pair{Store(backend_, config), NaiveStore(config), families_++}));
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      Pair& pair = *pairs_[static_cast<size_t>(random_.below(static_cast<int64_t>(pairs_.size())))];
      step(pair);
      for (const auto& each : pairs_) {
        each->naive.expect_equal(each->store, backend_);
        if (::testing::Test::HasFailure()) return;
      }
      expect_exact_page_accounting();
    }
  }

 private:
  void step(Pair& pair) {
    const int64_t dice = random_.below(100);
    if (dice < 35) return append(pair);
    if (dice < 60) return compact(pair);
    if (dice < 70) return truncate(pair);
    if (dice < 80) return fork(pair);
    if (dice < 88) return drop();
    if (dice < 92) return run_out_of_memory(pair);
    if (dice < 97) return reserve_more(pair);
    save_and_load(pair);
  }

  void append(Pair& pair) {
    const int64_t count = random_.between(1, random_.below(4) == 0 ? 3 * config_.page_slots : 5);
    ASSERT_TRUE(pair.store.reserve(count).ok());
    pair.naive.reserve(count);
    // Now and then the chunk is cancelled between two layers and forgotten.
    const int layers = random_.below(6) == 0 ? static_cast<int>(random_.below(config_.layers + 1)) : config_.layers;
    const int32_t before = pair.naive.next_position();
    for (int l = 0; l < layers; ++l) pair.naive.append(pair.store, backend_, l, count, number_);
    if (layers == config_.layers) return;
    pair.naive.expect_equal(pair.store, backend_);
    ASSERT_TRUE(pair.store.truncate(before).ok());
    pair.naive.truncate(before);
  }

  void reserve_more(Pair& pair) {
    const int64_t count = random_.between(1, 2 * config_.page_slots);
    ASSERT_TRUE(pair.store.reserve(count).ok());
    pair.naive.reserve(count);
    if (random_.below(2) == 0) fork(pair);  // with the promise outstanding
    const int64_t used = random_.between(1, count);
    for (int l = 0; l < config_.layers; ++l) pair.naive.append(pair.store, backend_, l, used, number_);
  }

  void compact(Pair& pair) {
    const int layer = static_cast<int>(random_.below(config_.layers));
    const int head = static_cast<int>(random_.below(config_.kv_heads));
    const KeepList keep = random_keep(pair.store.length(layer, head));
    ASSERT_TRUE(pair.store.compact(layer, head, keep).ok());
    pair.naive.compact(layer, head, keep);
  }

  KeepList random_keep(int64_t length) {
    KeepList keep;
    const int64_t kind = random_.below(5);
    const int64_t cut = random_.below(length + 1);
    const double share = random_.uniform();
    for (int64_t slot = 0; slot < length; ++slot) {
      const bool chosen = kind == 0   ? slot < cut
                          : kind == 1 ? slot >= cut
                          : kind == 2 ? slot != cut
                                      : random_.uniform() < share;
      if (chosen) keep.push_back(static_cast<int32_t>(slot));
    }
    return keep;
  }

  void truncate(Pair& pair) {
    const int32_t next = pair.naive.next_position();
    const auto position = static_cast<int32_t>(random_.between(random_.below(next + 1), next));
    ASSERT_TRUE(pair.store.truncate(position).ok());
    pair.naive.truncate(position);
  }

  void fork(Pair& pair) {
    if (pairs_.size() >= 4) return;
    auto forked = pair.store.fork();
    ASSERT_TRUE(forked.ok());
    pairs_.push_back(std::make_unique<Pair>(Pair{std::move(forked).value(), pair.naive, pair.family}));
    pairs_.back()->naive.drop_reservation();
  }

  void drop() {
    if (pairs_.size() > 1) pairs_.erase(pairs_.begin() + random_.below(static_cast<int64_t>(pairs_.size())));
  }

  void run_out_of_memory(Pair& pair) {
    backend_.limit = backend_.live_bytes();
    const Status status = pair.store.reserve(int64_t{1} << 24);
    backend_.limit = int64_t{1} << 40;
    ASSERT_FALSE(status.ok());
    ASSERT_EQ(status.error().kind, ErrorKind::kMemory);
  }

  void save_and_load(Pair& pair) {
    const std::string first = folder_.file("first");
    const std::string second = folder_.file("second");
    ASSERT_TRUE(pair.store.save(first, 7).ok());
    auto loaded = Store::load(first, 7, backend_);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    ASSERT_TRUE(loaded->save(second, 7).ok());
    ASSERT_EQ(read_all(first), read_all(second));
    pair.store = std::move(loaded).value();
    pair.family = families_++;
    pair.naive.drop_reservation();
  }

  // The pool of a family holds exactly the pages its stores hold, shared ones once.
  void expect_exact_page_accounting() const {
    for (const auto& pair : pairs_) {
      std::set<const void*> used;
      int64_t reserved = 0;
      for (const auto& other : pairs_) {
        if (other->family != pair->family) continue;
        int64_t in_views = 0;
        for (int l = 0; l < config_.layers; ++l) {
          for (const KvHeadView& head : other->store.view(l).heads) {
            const int64_t pages = other->naive.pages_for(head.length);
            used.insert(head.key_pages, head.key_pages + pages);
            in_views += pages;
          }
        }
        reserved += other->store.bytes() / other->naive.page_bytes() - in_views;
      }
      ASSERT_EQ(pair->store.pool_usage().pages, static_cast<int64_t>(used.size()) + reserved);
    }
  }

  const StoreConfig config_;
  Random random_;
  FakeBackend backend_;
  TempFolder folder_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  uint64_t number_ = 1;
  int families_ = 0;
};

void run_sequences(const StoreConfig& config, uint64_t first_seed, int sequences, int steps) {
  for (int i = 0; i < sequences; ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Sequence(config, seed).run(steps);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(StoreProperty, TinyPagesBehaveLikeTheNaiveModel) {
  run_sequences(
      {.layers = 2, .kv_heads = 2, .head_dim = 4, .key_type = DType::kF32, .value_type = DType::kF32, .page_slots = 3},
      1000, 1200, 30);
}

TEST(StoreProperty, PagesOfOneSlotBehaveLikeTheNaiveModel) {
  run_sequences(
      {.layers = 1, .kv_heads = 3, .head_dim = 8, .key_type = DType::kBF16, .value_type = DType::kF16, .page_slots = 1},
      5000, 400, 30);
}

TEST(StoreProperty, MixedTypesAndUnalignedRowsBehaveLikeTheNaiveModel) {
  run_sequences(
      {.layers = 3, .kv_heads = 1, .head_dim = 5, .key_type = DType::kF16, .value_type = DType::kF32, .page_slots = 7},
      9000, 500, 30);
}

TEST(StoreProperty, DefaultPagesBehaveLikeTheNaiveModel) {
  run_sequences({.layers = 2, .kv_heads = 2, .head_dim = 32, .key_type = DType::kBF16, .value_type = DType::kBF16},
                20000, 60, 25);
}

TEST(StoreProperty, PagesOfQ8BehaveLikeTheNaiveModel) {
  run_sequences({.layers = 2,
                 .kv_heads = 2,
                 .head_dim = 32,
                 .key_type = DType::kQ8_0,
                 .value_type = DType::kQ8_0,
                 .page_slots = 5},
                30000, 100, 25);
  run_sequences({.layers = 1,
                 .kv_heads = 2,
                 .head_dim = 64,
                 .key_type = DType::kQ8_0,
                 .value_type = DType::kF16,
                 .page_slots = 9},
                31000, 100, 25);
}

}  // namespace
}  // namespace ei::kv
