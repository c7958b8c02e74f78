// A store, a compressor and random tokens fed to both: for tests of what is observed and what is dropped.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "kv/compressor.h"

namespace ei::testing {

inline constexpr int kHeads = 4;
inline constexpr int kKvHeads = 2;
inline constexpr int kDim = 8;
inline constexpr int64_t kWidth = kHeads * kDim;

inline std::unique_ptr<Backend> make_backend(const char* name) {
  BackendOptions options;
  options.threads = 2;
  auto backend = create_backend(name, options);
  EXPECT_TRUE(backend.ok());
  return std::move(backend).value();
}

// Every layer is rotated alike.
inline std::vector<kv::LayerRope> small_ropes(size_t layers) {
  static const Rope rope;
  return std::vector<kv::LayerRope>(layers, {.rope = &rope, .dims = kDim, .interleaved = false});
}

class CompressedCache {
 public:
  CompressedCache(const policy::KvOptions& options, const std::vector<int32_t>& windows, const char* backend = "cpu")
      : backend_(make_backend(backend)),
        stream(std::move(backend_->new_stream(nullptr)).value()),
        store(*backend_, {.layers = static_cast<int>(windows.size()),
                          .kv_heads = kKvHeads,
                          .head_dim = kDim,
                          .key_type = DType::kF32,
                          .value_type = DType::kF32,
                          .page_slots = 16}),
        compressor(std::move(kv::Compressor::create(*backend_, options,
                                                    {.heads = kHeads,
                                                     .kv_heads = kKvHeads,
                                                     .head_dim = kDim,
                                                     .attention_scale = 0.35f,
                                                     .slot_bytes = 2 * kDim * 4,
                                                     .windows = windows,
                                                     .ropes = small_ropes(windows.size())}))
                       .value()) {}

  // Queries of earlier chunks stay in `queries`.
  void feed(int64_t tokens, bool fails = false) {
    const int32_t first = store.next_position();
    std::vector<float> rows(static_cast<size_t>(tokens * kWidth));
    for (float& value : rows) value = 2 * random_.normal();
    ASSERT_TRUE(store.reserve(tokens).ok());
    for (int layer = 0; layer < store.config().layers; ++layer) {
      const KvAppend append = store.append(layer, tokens);
      for (const KvAppend::Run& run : append.runs) {
        const float sharpness = (run.kv_head == sharp_head ? 4.0f : 1.0f) *
                                (layer_sharpness.empty() ? 1.0f : layer_sharpness[static_cast<size_t>(layer)]);
        auto* keys = reinterpret_cast<float*>(plain_key(append.shape, run.page, run.slot));
        auto* values = reinterpret_cast<float*>(plain_value(append.shape, run.page, run.slot));
        for (int64_t i = 0; i < run.count * kDim; ++i) {
          keys[i] = sharpness * random_.normal();
          values[i] = random_.normal();
        }
      }
      const Matrix chunk{rows.data(), tokens, kWidth, kWidth};
      ASSERT_TRUE(compressor.record(*stream, layer, chunk, first, store.view(layer)).ok());
    }
    ASSERT_TRUE(stream->synchronize().ok());
    if (fails) {
      ASSERT_TRUE(store.truncate(first).ok());
      return;
    }
    compressor.advance(first, tokens);
    queries.insert(queries.end(), rows.begin(), rows.end());
  }

  void rewind(int32_t position) {
    ASSERT_TRUE(store.truncate(position).ok());
    compressor.rewound(store);
    queries.resize(static_cast<size_t>(position * kWidth));
  }

  // What the observer must hold, from all queries ever fed.
  void expect_last_queries(int64_t count) {
    const int32_t next = store.next_position();
    std::vector<int32_t> positions;
    for (int64_t i = next - count; i < next; ++i) positions.push_back(static_cast<int32_t>(i));
    ASSERT_EQ(compressor.observer().positions(), positions);
    const Matrix window = compressor.observer().queries(*stream, 0);
    ASSERT_TRUE(stream->synchronize().ok());
    ASSERT_EQ(window.rows, count);
    std::vector<float> held(static_cast<size_t>(count * kWidth));
    ASSERT_TRUE(stream->read(window, held.data()).ok());
    EXPECT_TRUE(std::equal(held.begin(), held.end(), queries.end() - static_cast<int64_t>(held.size())));
  }

  // The attention of one more query at the end of `layer`.
  std::vector<float> attend(int layer, int32_t window) {
    std::vector<float> q(kWidth, 0.5f);
    std::vector<float> out(kWidth);
    stream->attention({.q = q.data(),
                       .q_stride = kWidth,
                       .out = out.data(),
                       .out_stride = kWidth,
                       .tokens = 1,
                       .num_heads = kHeads,
                       .first_position = store.next_position(),
                       .scale = 0.35f,
                       .window = window,
                       .plan = nullptr,
                       .kv = store.view(layer)});
    EXPECT_TRUE(stream->synchronize().ok());
    return out;
  }

 private:
  std::unique_ptr<Backend> backend_;
  Random random_{17};

 public:
  std::unique_ptr<Stream> stream;
  kv::Store store;
  kv::Compressor compressor;
  std::vector<float> queries;
  int sharp_head = -1;                 // its keys are longer
  std::vector<float> layer_sharpness;  // [layers]; none: all alike
};

// The attention of one head of the query at `position` to the slots that are not behind it, written out. Slots must
// still be positions.
inline std::vector<double> attention_of(const CompressedCache& f, int layer, int64_t head, int32_t position) {
  const KvView view = f.store.view(layer);
  const KvHeadView& keys = view.heads[static_cast<size_t>(head / (kHeads / kKvHeads))];
  std::vector<double> weights;
  double total = 0;
  for (int64_t slot = 0; slot <= position; ++slot) {
    const auto* key = static_cast<const float*>(keys.key_pages[slot / view.page_slots]) + slot % view.page_slots * kDim;
    const float* query = f.queries.data() + position * kWidth + head * kDim;
    double product = 0;
    for (int64_t d = 0; d < kDim; ++d) product += static_cast<double>(query[d]) * static_cast<double>(key[d]);
    weights.push_back(std::exp(0.35 * product));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace ei::testing
