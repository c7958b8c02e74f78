#include "kernels/cpu/profile.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"
#include "kernels/cpu/wide.h"
#include "kernels/rowwise.h"

namespace ei::kernels {
namespace {

constexpr int64_t kBlocksPerPiece = 512;
constexpr int64_t kTogether = 4;  // blocks whose extremes meet a query at once

const void* key_row(const KvView& kv, const KvHeadView& head, int64_t slot) {
  const auto row_bytes = static_cast<size_t>(kv.head_dim) * dtype_bytes(kv.key_type);
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
    // Below this a term is smaller than the rounding of the sum, and most blocks lie there.
    if (p > 1e-12f) entropy -= static_cast<double>(p) * static_cast<double>(std::log(p + 1e-9f));
  }
  return static_cast<float>(std::max(entropy, 0.0));
}

}  // namespace

void block_extremes(const BlockExtremesParams& params, Worker worker) {
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
      convert_row(max.data(), static_cast<std::byte*>(out.max_keys) + bytes, out.type, kv.head_dim);
      convert_row(min.data(), static_cast<std::byte*>(out.min_keys) + bytes, out.type, kv.head_dim);
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
    for (int64_t token = begin; token < end; ++token) {
      const float* q = params.q + token * params.q_stride + share.begin * 8;
      keep_extremes(q, columns, token == begin, out, min.data());
    }
    for (int64_t i = 0; i < columns; ++i) out[i] = (out[i] + min[static_cast<size_t>(i)]) / 2;
  }
}

void block_scores(const BlockScoreParams& params, WorkQueue& queue) {
  const BlockRows& rows = params.rows;
  const BlockExtremes& keys = params.keys;
  const int64_t group = params.num_heads / rows.kv_heads;
  const int64_t most = rows.num_segments > 0 ? rows.visible(rows.num_segments - 1) : 0;
  const int64_t spans = (most + kBlocksPerPiece - 1) / kBlocksPerPiece;
  std::vector<float> high(static_cast<size_t>(kTogether * params.head_dim));
  std::vector<float> low(high.size());
  const auto at = [&](int64_t b) { return static_cast<size_t>(b * params.head_dim); };
  for (int64_t piece = queue.take(); piece < spans * rows.kv_heads; piece = queue.take()) {
    const int64_t h = piece % rows.kv_heads;
    const int64_t first = piece / rows.kv_heads * kBlocksPerPiece;
    const int64_t last = std::min(first + kBlocksPerPiece, most);
    for (int64_t block = first; block < last; block += kTogether) {
      const int64_t count = std::min<int64_t>(kTogether, last - block);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t begin = h * keys.head_stride + (block + b) * keys.block_stride;
        load_row(element_at(keys.max_keys, keys.type, begin), keys.type, params.head_dim, &high[at(b)]);
        load_row(element_at(keys.min_keys, keys.type, begin), keys.type, params.head_dim, &low[at(b)]);
      }
      for (int32_t i = 0; i < rows.num_segments; ++i) {
        const int64_t seen = std::min(count, rows.visible(i) - block);
        if (seen <= 0) continue;
        const float* q = params.queries + (int64_t{i} * params.num_heads + h * group) * params.head_dim;
        Lanes sum = {};
        for (int64_t g = 0; g < group; ++g, q += params.head_dim) {
          const Lanes by_max = four_dots(q, high.data(), params.head_dim);
          const Lanes by_min = four_dots(q, low.data(), params.head_dim);
          sum += by_max > by_min ? by_max : by_min;
        }
        float* out = params.scores + rows.offset(static_cast<int32_t>(h), i) + block;
        for (int64_t b = 0; b < seen; ++b) out[b] = params.scale * (sum[b] / static_cast<float>(group));
      }
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
