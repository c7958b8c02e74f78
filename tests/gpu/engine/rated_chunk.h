// A chunk of a prompt on one backend: keys of one layer, queries, and what rating its blocks gives.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpu/engine/sides.h"
#include "kv/store.h"

namespace ei::testing {

struct RatedShape {
  DType type = DType::kBF16;
  int32_t head_dim = 64;
  int32_t kv_heads = 2;
  int32_t group = 3;
  SegmentGrid grid{64, 8};
  int64_t before = 640;  // tokens that are there
  int64_t tokens = 230;  // of the chunk, from there on
};

inline std::string name_of(const RatedShape& s) {
  return str_format("%s dim %d, %d x %d heads, segment %d, block %d, %lld behind %lld", dtype_name(s.type), s.head_dim,
                    s.kv_heads, s.group, s.grid.segment, s.grid.block, static_cast<long long>(s.tokens),
                    static_cast<long long>(s.before));
}

// One layer's keys and the queries of a chunk, on one backend.
struct RatedChunk {
  RatedChunk(const std::string& name, const RatedShape& shape, const std::string& kernels)
      : side(name, /*wide=*/true, kernels),
        s(shape),
        store(*side.backend,
              {.layers = 1, .kv_heads = s.kv_heads, .head_dim = s.head_dim, .key_type = s.type, .value_type = s.type}) {
    if (s.before > 0) feed(s.before, 100, 8);
    q = feed(s.tokens, 200, 9);
    rows.grid = s.grid;
    rows.kv_heads = s.kv_heads;
    rows.first_segment = static_cast<int32_t>(s.before / s.grid.segment);
    rows.num_segments = static_cast<int32_t>((s.before + s.tokens - 1) / s.grid.segment) - rows.first_segment + 1;
    rows.stride = rows.visible(rows.num_segments - 1) + 3;
    lists = int64_t{rows.kv_heads} * rows.num_segments;
  }

  int32_t heads() const { return s.kv_heads * s.group; }

  Matrix feed(int64_t tokens, uint64_t seed, int slot) {
    EXPECT_TRUE(store.reserve(tokens).ok());
    const int64_t width = int64_t{heads() + 2 * s.kv_heads} * s.head_dim;
    // Some keys and queries stand out, as they do in models.
    std::vector<float> values = normals(tokens * width, seed);
    for (int64_t t = 0; t < tokens; t += 7)
      for (int64_t i = 0; i < width; ++i) values[static_cast<size_t>(t * width + i)] *= 2;
    const Matrix qkv = side.put(slot, values, tokens, width);
    const std::vector<float> ones(static_cast<size_t>(tokens), 1.0f);
    const std::vector<float> zeros(static_cast<size_t>(tokens), 0.0f);
    const int64_t kv_width = int64_t{s.kv_heads} * s.head_dim;
    const int64_t q_width = int64_t{heads()} * s.head_dim;
    Stream& stream = *side.stream;
    stream.rotate_append({.q = qkv.columns(0, q_width),
                          .k = qkv.columns(q_width, kv_width),
                          .v = qkv.columns(q_width + kv_width, kv_width),
                          .rope = {.cos = static_cast<const float*>(stream.stage(ones.data(), ones.size() * 4)),
                                   .sin = static_cast<const float*>(stream.stage(zeros.data(), zeros.size() * 4)),
                                   .dims = 2},
                          .append = store.append(0, tokens)});
    EXPECT_TRUE(stream.synchronize().ok());
    return qkv.columns(0, q_width);
  }

  // Keys and values as hosts see those of a chunk of this shape.
  void take_rows_of(const RatedChunk& other) const {
    const KvView to = store.view(0);
    const KvView from = other.store.view(0);
    const KvPageShape shape{to.page_slots, to.head_dim, to.key_type, to.value_type};
    const KvPageShape shape_of_other{from.page_slots, from.head_dim, from.key_type, from.value_type};
    std::vector<std::byte> keys(static_cast<size_t>(to.page_slots) * shape.key_row());
    std::vector<std::byte> values(static_cast<size_t>(to.page_slots) * shape.value_row());
    for (size_t h = 0; h < to.heads.size(); ++h) {
      for (int64_t slot = 0; slot < to.heads[h].length; slot += to.page_slots) {
        const int64_t count = std::min<int64_t>(to.page_slots, to.heads[h].length - slot);
        const int64_t page = slot / to.page_slots;
        ASSERT_TRUE(other.side.backend
                        ->read_slots(shape_of_other, from.heads[h].key_pages[page], count, keys.data(), values.data())
                        .ok());
        auto* own = const_cast<void*>(to.heads[h].key_pages[page]);
        ASSERT_TRUE(side.backend->write_slots(shape, own, count, keys.data(), values.data()).ok());
      }
    }
  }

  // Scores of all lists, and samples.
  std::vector<float> rate(const std::vector<BlockRanking>& rankings, bool sampled_only,
                          std::vector<AttentionSample>& samples) {
    Stream& stream = *side.stream;
    const kernels::KeyIndexShape keys{.heads = heads(),
                                      .kv_heads = s.kv_heads,
                                      .head_dim = s.head_dim,
                                      .key_type = host_type(s.type),
                                      .grid = s.grid};
    const int64_t length = s.before + s.tokens;
    const kernels::KeyIndexBytes bytes = side.backend->key_index_bytes(keys, length, lists / s.kv_heads);
    const Buffer kept = side.backend->allocate(static_cast<size_t>(std::max<int64_t>(bytes.kept, 1))).value();
    const Buffer passing = side.backend->allocate(static_cast<size_t>(std::max<int64_t>(bytes.passing, 1))).value();
    const kernels::KeyIndex index{
        .shape = keys, .kept = kept.data(), .passing = passing.data(), .kept_tokens = length, .passing_tokens = length};
    const int64_t supers = length / (int64_t{kernels::blocks_per_super(s.grid)} * s.grid.block);
    for (const int64_t first : {int64_t{0}, supers / 2})  // in two steps, as a prompt that grows
      stream.pack_keys({.kv = store.view(0),
                        .index = index,
                        .first = 0,
                        .length = length,
                        .block = s.grid.block,
                        .first_super = first,
                        .supers = first == 0 ? supers / 2 : supers,
                        .out = {}});
    auto* ranking = reinterpret_cast<BlockRanking*>(stream.shared(kSlots[1], 16 * lists).value());
    std::copy(rankings.begin(), rankings.end(), ranking);
    auto* found = reinterpret_cast<AttentionSample*>(stream.shared(kSlots[2], 16 * lists).value());
    const Matrix scores =
        side.put(3, std::vector<float>(static_cast<size_t>(lists * rows.stride), -5.0f), lists, rows.stride);
    stream.peak_scores({.rows = rows,
                        .q = q.data,
                        .q_stride = q.stride,
                        .tokens = s.tokens,
                        .first_position = static_cast<int32_t>(s.before),
                        .num_heads = heads(),
                        .scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim)),
                        .kv = store.view(0),
                        .index = index,
                        .keys = {},
                        .ranking = ranking,
                        .sampled_only = sampled_only,
                        .most_queries = s.group,
                        .scores = scores.data,
                        .samples = found},
                       std::vector<uint8_t>(static_cast<size_t>(rows.num_segments), 1));
    std::vector<float> result = side.get(scores);
    samples.assign(found, found + lists);
    return result;
  }

  Side side;
  RatedShape s;
  kv::Store store;
  Matrix q;
  kernels::BlockRows rows;
  int64_t lists = 0;
};

}  // namespace ei::testing
