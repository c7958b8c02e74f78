// For the tests of this room: the obvious model of a Store. Every row has a number of its own that decides its bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "kv/store.h"

namespace ei::kv {

struct NaiveRow {
  int32_t position = 0;
  uint64_t number = 0;
};

struct NaiveHead {
  std::vector<NaiveRow> rows;
  int64_t pages = 0;
};

inline std::vector<unsigned char> row_bytes_of(uint64_t number, size_t bytes) {
  Random random(number);
  std::vector<unsigned char> row(bytes);
  for (unsigned char& byte : row) byte = static_cast<unsigned char>(random.next());
  return row;
}

class NaiveStore {
 public:
  explicit NaiveStore(const StoreConfig& config)
      : config_(config),
        layers(static_cast<size_t>(config.layers), std::vector<NaiveHead>(static_cast<size_t>(config.kv_heads))) {}

  int64_t pages_for(int64_t length) const { return (length + config_.page_slots - 1) / config_.page_slots; }
  size_t key_row() const { return dtype_row_bytes(config_.key_type, config_.head_dim); }
  size_t value_row() const { return dtype_row_bytes(config_.value_type, config_.head_dim); }
  int64_t page_bytes() const {
    const auto slots = static_cast<size_t>(config_.page_slots);
    const size_t keys = (slots * key_row() + 63) / 64 * 64;
    return static_cast<int64_t>((keys + slots * value_row() + 4095) / 4096 * 4096);
  }

  void reserve(int64_t count) {
    each_head([&](NaiveHead& head) {
      head.pages = std::max(head.pages, pages_for(static_cast<int64_t>(head.rows.size()) + count));
    });
  }
  // Appends to one layer and writes the rows where the store says.
  void append(Store& store, const Backend& backend, int layer, int64_t count, uint64_t& number) {
    const uint64_t first = number;
    const int32_t position = next[static_cast<size_t>(layer)];
    auto& heads = layers[static_cast<size_t>(layer)];
    for (NaiveHead& head : heads) {
      for (int64_t t = 0; t < count; ++t) head.rows.push_back({position + static_cast<int32_t>(t), number++});
    }
    next[static_cast<size_t>(layer)] += static_cast<int32_t>(count);
    const KvAppend append = store.append(layer, count);
    EXPECT_EQ(append.shape.head_dim, config_.head_dim);
    std::vector<int64_t> seen(heads.size(), 0);
    for (const KvAppend::Run& run : append.runs) {
      EXPECT_EQ(run.token, seen[static_cast<size_t>(run.kv_head)]);
      seen[static_cast<size_t>(run.kv_head)] += run.count;
      for (int64_t t = 0; t < run.count; ++t) {
        const uint64_t row = first + static_cast<uint64_t>(run.kv_head * count + run.token + t);
        const auto key = row_bytes_of(2 * row, key_row());
        const auto value = row_bytes_of(2 * row + 1, value_row());
        EXPECT_TRUE(backend.copy_in(plain_key(append.shape, run.page, run.slot + t), key.data(), key.size()).ok());
        EXPECT_TRUE(
            backend.copy_in(plain_value(append.shape, run.page, run.slot + t), value.data(), value.size()).ok());
      }
    }
    for (const int64_t tokens : seen) EXPECT_EQ(tokens, count);
  }
  void compact(int layer, int kv_head, const KeepList& keep) {
    NaiveHead& head = layers[static_cast<size_t>(layer)][static_cast<size_t>(kv_head)];
    if (keep.size() == head.rows.size()) return;
    std::vector<NaiveRow> kept;
    for (const int32_t slot : keep) kept.push_back(head.rows[static_cast<size_t>(slot)]);
    evicted += static_cast<int64_t>(head.rows.size() - kept.size());
    ++compactions;
    head.rows = kept;
    head.pages = pages_for(static_cast<int64_t>(kept.size()));
  }
  void truncate(int32_t position) {
    each_head([&](NaiveHead& head) {
      std::erase_if(head.rows, [&](const NaiveRow& row) { return row.position >= position; });
    });
    std::fill(next.begin(), next.end(), position);
    drop_reservation();
  }
  void drop_reservation() {
    each_head([&](NaiveHead& head) { head.pages = pages_for(static_cast<int64_t>(head.rows.size())); });
  }
  int32_t next_position() const { return *std::min_element(next.begin(), next.end()); }
  bool exact() const {
    for (size_t l = 0; l < layers.size(); ++l) {
      for (const NaiveHead& head : layers[l]) {
        for (int32_t p = 0; p < next[l]; ++p) {
          if (static_cast<size_t>(p) >= head.rows.size() || head.rows[static_cast<size_t>(p)].position != p)
            return false;
        }
      }
    }
    return true;
  }

  // Does the store say and hold the same?
  void expect_equal(const Store& store, const Backend& backend) const {
    int64_t pages = 0;
    int64_t kept = 0;
    for (int l = 0; l < config_.layers; ++l) {
      const KvView view = store.view(l);
      ASSERT_EQ(view.heads.size(), static_cast<size_t>(config_.kv_heads));
      ASSERT_EQ(view.page_slots, config_.page_slots);
      for (int h = 0; h < config_.kv_heads; ++h) {
        const NaiveHead& head = layers[static_cast<size_t>(l)][static_cast<size_t>(h)];
        pages += head.pages;
        kept += static_cast<int64_t>(head.rows.size());
        ASSERT_EQ(store.length(l, h), static_cast<int64_t>(head.rows.size()));
        expect_rows(view.heads[static_cast<size_t>(h)], head, backend);
        if (::testing::Test::HasFailure()) return;
      }
    }
    ASSERT_EQ(store.next_position(), next_position());
    ASSERT_EQ(store.bytes(), pages * page_bytes());
    const int64_t heads = int64_t{config_.layers} * config_.kv_heads;
    ASSERT_EQ(store.bytes_full(), pages_for(next_position()) * heads * page_bytes());
    ASSERT_EQ(store.tokens_kept(), kept);
    ASSERT_EQ(store.tokens_total(), heads * next_position());
    ASSERT_EQ(store.evicted(), evicted);
    ASSERT_EQ(store.compactions(), compactions);
    ASSERT_EQ(store.exact(), exact());
  }

 private:
  const StoreConfig config_;

  template <typename Visit>
  void each_head(Visit visit) {
    for (auto& layer : layers) {
      for (NaiveHead& head : layer) visit(head);
    }
  }
  void expect_rows(const KvHeadView& view, const NaiveHead& head, const Backend& backend) const {
    ASSERT_EQ(view.length, static_cast<int64_t>(head.rows.size()));
    ASSERT_LE(view.listed, view.length);
    std::vector<unsigned char> found;
    for (int64_t slot = 0; slot < view.length; ++slot) {
      const NaiveRow& row = head.rows[static_cast<size_t>(slot)];
      ASSERT_EQ(view.position(slot), row.position) << "slot " << slot;
      const auto at = static_cast<size_t>(slot % config_.page_slots);
      const int64_t page = slot / config_.page_slots;
      found.resize(key_row());
      const auto* key = static_cast<const std::byte*>(view.key_pages[page]) + at * key_row();
      ASSERT_TRUE(backend.copy_out(found.data(), key, found.size()).ok());
      ASSERT_EQ(found, row_bytes_of(2 * row.number, key_row())) << "key of slot " << slot;
      found.resize(value_row());
      const auto* value = static_cast<const std::byte*>(view.value_pages[page]) + at * value_row();
      ASSERT_TRUE(backend.copy_out(found.data(), value, found.size()).ok());
      ASSERT_EQ(found, row_bytes_of(2 * row.number + 1, value_row())) << "value of slot " << slot;
    }
  }

 public:
  std::vector<std::vector<NaiveHead>> layers;  // [layers][kv_heads]
  std::vector<int32_t> next = std::vector<int32_t>(layers.size(), 0);
  int64_t evicted = 0;
  int64_t compactions = 0;
};

inline constexpr StoreConfig kSmall{
    .layers = 2, .kv_heads = 2, .head_dim = 16, .key_type = DType::kF32, .value_type = DType::kF32, .page_slots = 32};

inline KeepList every(int64_t stride, int64_t length) {
  KeepList keep;
  for (int64_t slot = 0; slot < length; slot += stride) keep.push_back(static_cast<int32_t>(slot));
  return keep;
}

// A store and its model, filled together.
struct Filled {
  explicit Filled(const Backend& memory, const StoreConfig& config = kSmall)
      : backend(memory), store(memory, config), naive(config) {}
  void feed(int64_t count) {
    ASSERT_TRUE(store.reserve(count).ok());
    naive.reserve(count);
    for (int l = 0; l < store.config().layers; ++l) naive.append(store, backend, l, count, number);
  }
  void compact(int layer, int head, const KeepList& keep) {
    ASSERT_TRUE(store.compact(layer, head, keep).ok());
    naive.compact(layer, head, keep);
  }
  void expect_equal() const { naive.expect_equal(store, backend); }

  const Backend& backend;
  Store store;
  NaiveStore naive;
  uint64_t number = 1;
};

}  // namespace ei::kv
