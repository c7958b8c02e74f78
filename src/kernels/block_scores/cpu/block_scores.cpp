#include "kernels/block_scores/cpu/block_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"
#include "kernels/rowwise/rowwise.h"
#include "kernels/simd/wide.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

constexpr int64_t kBlocksPerPiece = 512;
constexpr int64_t kTogether = 4;  // blocks whose extremes meet a query at once

const void* key_row(const KvView& kv, const KvHeadView& head, int64_t slot) {
  const size_t row_bytes = dtype_row_bytes(kv.key_type, kv.head_dim);
  return static_cast<const std::byte*>(head.key_pages[slot / kv.page_slots]) +
         static_cast<size_t>(slot % kv.page_slots) * row_bytes;
}

const void* element_at(const void* data, DType type, int64_t index) {
  return static_cast<const std::byte*>(data) + static_cast<size_t>(index) * dtype_bytes(type);
}

// Softmax, fusion and entropy of one row; `row` becomes the probabilities.
float entropy_of(const BlockEntropyParams& params, int64_t begin, std::vector<float>& row) {
  const float max = row.empty() ? 0 : *std::max_element(row.begin(), row.end());
  double total = 0;
  for (float& value : row) total += static_cast<double>(value = std::exp(value - max));
  const float share = params.previous_share;
  double entropy = 0;
  for (size_t j = 0; j < row.size(); ++j) {
    float& p = row[j];
    p /= static_cast<float>(total);
    if (params.previous != nullptr) p = share * params.previous[begin + static_cast<int64_t>(j)] + (1 - share) * p;
    entropy -= static_cast<double>(p) * static_cast<double>(std::log(p + 1e-9f));
  }
  return static_cast<float>(std::max(entropy, 0.0));
}

// How many of the largest values make up `share`; sorts them.
float count_covering(std::vector<float>& row, float share) {
  std::sort(row.begin(), row.end(), std::greater<>());
  double sum = 0;
  size_t count = 0;
  while (count < row.size() && sum < static_cast<double>(share)) sum += static_cast<double>(row[count++]);
  return static_cast<float>(count);
}

// Sum over the heads of a group, queries [heads, dim], of the larger of their products with the extremes of four
// blocks.
template <typename Element>
Lanes score_four(const float* q, int64_t heads, const Element* const high[4], const Element* const low[4],
                 int64_t dim) {
  Lanes sum = {};
  const auto add = [&]<int kHeads>(std::integral_constant<int, kHeads>) {
    Lanes by_max[kHeads];
    Lanes by_min[kHeads];
    four_dots<kHeads>(q, high, dim, by_max);
    four_dots<kHeads>(q, low, dim, by_min);
    for (int i = 0; i < kHeads; ++i) sum += by_max[i] > by_min[i] ? by_max[i] : by_min[i];
  };
  for (; heads >= 4; heads -= 4, q += 4 * dim) add(std::integral_constant<int, 4>());
  if (heads == 3) add(std::integral_constant<int, 3>());
  if (heads == 2) add(std::integral_constant<int, 2>());
  if (heads == 1) add(std::integral_constant<int, 1>());
  return sum;
}

// The same with upper bounds: where a component of the query is negative the smallest key makes the most of it.
template <typename Element>
Lanes bound_four(const float* q, int64_t heads, const Element* const high[4], const Element* const low[4],
                 int64_t dim) {
  Lanes sum = {};
  std::vector<float> parts(static_cast<size_t>(2 * dim));
  for (; heads > 0; --heads, q += dim) {
    for (int64_t d = 0; d < dim; ++d) {
      parts[static_cast<size_t>(d)] = std::max(q[d], 0.0f);
      parts[static_cast<size_t>(dim + d)] = std::min(q[d], 0.0f);
    }
    Lanes by_max[1];
    Lanes by_min[1];
    four_dots<1>(parts.data(), high, dim, by_max);
    four_dots<1>(parts.data() + dim, low, dim, by_min);
    sum += by_max[0] + by_min[0];
  }
  return sum;
}

// Scores of the blocks [block, block + count) of a kv_head by all segments that see them; high and low: their extremes.
template <typename Element>
void score_blocks(const BlockScoreParams& params, int64_t h, int64_t block, int64_t count,
                  const Element* const high[kTogether], const Element* const low[kTogether]) {
  const BlockRows& rows = params.rows;
  const int64_t group = params.num_heads / rows.kv_heads;
  for (int32_t i = 0; i < rows.num_segments; ++i) {
    const int64_t seen = std::min(count, rows.visible(i) - block);
    if (seen <= 0) continue;
    const float* q = params.queries + (int64_t{i} * params.num_heads + h * group) * params.head_dim;
    const Lanes sum = params.kind == BlockScore::kUpperBound ? bound_four(q, group, high, low, params.head_dim)
                                                             : score_four(q, group, high, low, params.head_dim);
    float* out = params.scores + rows.offset(static_cast<int32_t>(h), i) + block;
    for (int64_t b = 0; b < seen; ++b) out[b] = params.scale * (sum[b] / static_cast<float>(group));
  }
}

// Extremes that four_dots reads where they lie.
template <typename Element>
void score_span(const BlockScoreParams& params, int64_t h, Range blocks) {
  const BlockExtremes& keys = params.keys;
  const Element* high[kTogether];
  const Element* low[kTogether];
  for (int64_t block = blocks.begin; block < blocks.end; block += kTogether) {
    for (int64_t b = 0; b < kTogether; ++b) {
      const int64_t at = h * keys.head_stride + std::min(block + b, blocks.end - 1) * keys.block_stride;
      high[b] = static_cast<const Element*>(keys.max_keys) + at;
      low[b] = static_cast<const Element*>(keys.min_keys) + at;
    }
    score_blocks(params, h, block, std::min(kTogether, blocks.end - block), high, low);
  }
}

// f16 becomes f32 first: not every CPU converts it in a vector.
void score_halves(const BlockScoreParams& params, int64_t h, Range blocks) {
  const BlockExtremes& keys = params.keys;
  const int64_t dim = params.head_dim;
  std::vector<float> wide(static_cast<size_t>(2 * kTogether * dim));
  const float* high[kTogether];
  const float* low[kTogether];
  for (int64_t b = 0; b < kTogether; ++b) {
    high[b] = wide.data() + b * dim;
    low[b] = wide.data() + (kTogether + b) * dim;
  }
  for (int64_t block = blocks.begin; block < blocks.end; block += kTogether) {
    const int64_t count = std::min(kTogether, blocks.end - block);
    for (int64_t b = 0; b < count; ++b) {
      const int64_t at = h * keys.head_stride + (block + b) * keys.block_stride;
      load_row(element_at(keys.max_keys, keys.type, at), keys.type, dim, wide.data() + b * dim);
      load_row(element_at(keys.min_keys, keys.type, at), keys.type, dim, wide.data() + (kTogether + b) * dim);
    }
    score_blocks(params, h, block, count, high, low);
  }
}

}  // namespace

void block_extremes(const BlockExtremesParams& params, Worker worker) {
  const RowwiseVariant& rowwise = plain_rowwise();
  const KvView& kv = params.kv;
  const auto dim = static_cast<size_t>(kv.head_dim);
  std::vector<float> row(dim);
  std::vector<float> max(dim);
  std::vector<float> min(dim);
  for (size_t h = 0; h < kv.heads.size(); ++h) {
    EI_CHECK_LE((params.first_block + params.num_blocks) * params.block, kv.heads[h].length);
    const Range share = even_share(params.num_blocks, worker);
    for (int64_t block = params.first_block + share.begin; block < params.first_block + share.end; ++block) {
      for (int64_t slot = block * params.block; slot < (block + 1) * params.block; ++slot) {
        load_row(key_row(kv, kv.heads[h], slot), kv.key_type, kv.head_dim, row.data());
        keep_extremes(row.data(), kv.head_dim, slot == block * params.block, max.data(), min.data());
      }
      const BlockExtremes& out = params.out;
      const int64_t at = static_cast<int64_t>(h) * out.head_stride + block * out.block_stride;
      const auto bytes = static_cast<size_t>(at) * dtype_bytes(out.type);
      rowwise.convert_row(max.data(), static_cast<std::byte*>(out.max_keys) + bytes, out.type, kv.head_dim);
      rowwise.convert_row(min.data(), static_cast<std::byte*>(out.min_keys) + bytes, out.type, kv.head_dim);
    }
  }
}

void query_midrange(const QueryMidrangeParams& params, Worker worker) {
  const int64_t width = int64_t{params.num_heads} * params.head_dim;
  const Range share = even_share(width / 8, worker);
  const int64_t columns = (share.end - share.begin) * 8;
  std::vector<float> min(static_cast<size_t>(columns));
  float* out = params.out + share.begin * 8;
  int64_t rows = params.first_rows > 0 ? params.first_rows : params.segment;
  for (int64_t begin = 0; begin < params.tokens; begin += rows, rows = params.segment, out += width) {
    const int64_t end = std::min(begin + rows, params.tokens);
    const float* q = params.q + begin * params.q_stride + share.begin * 8;
    find_extremes(q, params.q_stride, end - begin, columns, out, min.data());
    for (int64_t i = 0; i < columns; ++i) out[i] = (out[i] + min[static_cast<size_t>(i)]) / 2;
  }
}

void block_scores(const BlockScoreParams& params, WorkQueue& queue) {
  const BlockRows& rows = params.rows;
  const int64_t most = rows.num_segments > 0 ? rows.visible(rows.num_segments - 1) : 0;
  const int64_t spans = (most + kBlocksPerPiece - 1) / kBlocksPerPiece;
  for (int64_t piece = queue.take(); piece < spans * rows.kv_heads; piece = queue.take()) {
    const int64_t first = piece / rows.kv_heads * kBlocksPerPiece;
    const Range blocks = {first, std::min(first + kBlocksPerPiece, most)};
    switch (params.keys.type) {
      case DType::kF32: score_span<float>(params, piece % rows.kv_heads, blocks); break;
      case DType::kBF16: score_span<uint16_t>(params, piece % rows.kv_heads, blocks); break;
      case DType::kF16: score_halves(params, piece % rows.kv_heads, blocks); break;
      case DType::kQ8_0:
      case DType::kF8: EI_CHECK(params.keys.type == DType::kF32);  // extremes_type()
    }
  }
}

void block_entropy(const BlockEntropyParams& params, WorkQueue& queue) {
  const BlockRows& rows = params.rows;
  std::vector<float> row;
  for (int64_t piece = queue.take(); piece < int64_t{rows.kv_heads} * rows.num_segments; piece = queue.take()) {
    const auto h = static_cast<int32_t>(piece / rows.num_segments);
    const auto i = static_cast<int32_t>(piece % rows.num_segments);
    const int64_t begin = rows.offset(h, i);
    row.assign(params.scores + begin, params.scores + begin + rows.visible(i));
    params.entropy[piece] = entropy_of(params, begin, row);
    if (params.probabilities != nullptr) std::copy(row.begin(), row.end(), params.probabilities + begin);
    if (params.covering != nullptr) params.covering[piece] = count_covering(row, params.cover);
  }
}

void select_blocks(const SelectBlocksParams& params, WorkQueue& queue) {
  const BlockRows& rows = params.rows;
  BlockPlan& plan = *params.plan;
  std::vector<uint64_t> scratch;
  std::vector<int32_t> chosen;
  for (int64_t list = queue.take(); list < int64_t{rows.kv_heads} * rows.num_segments; list = queue.take()) {
    const auto h = static_cast<int32_t>(list / rows.num_segments);
    const auto i = static_cast<int32_t>(list % rows.num_segments);
    const int64_t begin = plan.offsets[static_cast<size_t>(list)];
    chosen.clear();
    append_top_indices({params.values + rows.offset(h, i), static_cast<size_t>(rows.visible(i))},
                       plan.offsets[static_cast<size_t>(list) + 1] - begin, scratch, chosen);
    std::copy(chosen.begin(), chosen.end(), plan.blocks.begin() + begin);
  }
}

}  // namespace ei::kernels
