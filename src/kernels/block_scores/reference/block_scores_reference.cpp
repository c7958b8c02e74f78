#include "kernels/block_scores/reference/block_scores_reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/check.h"

namespace ei::kernels {
namespace {

float key_element(const KvView& kv, const KvHeadView& head, int64_t slot, int64_t d) {
  return load_element(head.key_pages[slot / kv.page_slots], kv.key_type, (slot % kv.page_slots) * kv.head_dim + d);
}

double dot(const float* q, const void* data, DType type, int64_t begin, int64_t head_dim) {
  double sum = 0;
  for (int64_t d = 0; d < head_dim; ++d)
    sum += static_cast<double>(q[d]) * static_cast<double>(load_element(data, type, begin + d));
  return sum;
}

double upper_bound(const float* q, const BlockExtremes& keys, int64_t begin, int64_t head_dim) {
  double sum = 0;
  for (int64_t d = 0; d < head_dim; ++d) {
    const auto one = static_cast<double>(q[d]);
    sum += std::max(one * static_cast<double>(load_element(keys.max_keys, keys.type, begin + d)),
                    one * static_cast<double>(load_element(keys.min_keys, keys.type, begin + d)));
  }
  return sum;
}

// How many of the largest values make up `share`.
float count_most_probable(std::vector<float> row, float share) {
  std::sort(row.begin(), row.end(), std::greater<>());
  double sum = 0;
  size_t count = 0;
  while (count < row.size() && sum < static_cast<double>(share)) sum += static_cast<double>(row[count++]);
  return static_cast<float>(count);
}

}  // namespace

void reference_block_extremes(const BlockExtremesParams& params) {
  const KvView& kv = params.kv;
  for (size_t h = 0; h < kv.heads.size(); ++h) {
    const KvHeadView& head = kv.heads[h];
    EI_CHECK_LE((params.first_block + params.num_blocks) * params.block, head.length);
    for (int64_t block = params.first_block; block < params.first_block + params.num_blocks; ++block) {
      for (int64_t d = 0; d < kv.head_dim; ++d) {
        float max = -std::numeric_limits<float>::infinity();
        float min = std::numeric_limits<float>::infinity();
        for (int64_t slot = block * params.block; slot < (block + 1) * params.block; ++slot) {
          max = std::max(max, key_element(kv, head, slot, d));
          min = std::min(min, key_element(kv, head, slot, d));
        }
        const BlockExtremes& out = params.out;
        const int64_t at = static_cast<int64_t>(h) * out.head_stride + block * out.block_stride + d;
        store_element(out.max_keys, out.type, at, max);
        store_element(out.min_keys, out.type, at, min);
      }
    }
  }
}

void reference_query_midrange(const QueryMidrangeParams& params) {
  const int64_t width = int64_t{params.num_heads} * params.head_dim;
  float* out = params.out;
  int64_t rows = params.first_rows > 0 ? params.first_rows : params.segment;
  for (int64_t begin = 0; begin < params.tokens; begin += rows, rows = params.segment, out += width) {
    const int64_t end = std::min(begin + rows, params.tokens);
    for (int64_t i = 0; i < width; ++i) {
      float max = params.q[begin * params.q_stride + i];
      float min = max;
      for (int64_t token = begin + 1; token < end; ++token) {
        max = std::max(max, params.q[token * params.q_stride + i]);
        min = std::min(min, params.q[token * params.q_stride + i]);
      }
      out[i] = (max + min) / 2;
    }
  }
}

void reference_block_scores(const BlockScoreParams& params) {
  const BlockRows& rows = params.rows;
  const BlockExtremes& keys = params.keys;
  const int64_t group = params.num_heads / rows.kv_heads;
  for (int32_t h = 0; h < rows.kv_heads; ++h) {
    for (int32_t i = 0; i < rows.num_segments; ++i) {
      const float* q = params.queries + (int64_t{i} * params.num_heads + h * group) * params.head_dim;
      for (int64_t block = 0; block < rows.visible(i); ++block) {
        const int64_t begin = h * keys.head_stride + block * keys.block_stride;
        double sum = 0;
        for (int64_t g = 0; g < group; ++g) {
          const float* one = q + g * params.head_dim;
          sum += params.kind == BlockScore::kUpperBound
                     ? upper_bound(one, keys, begin, params.head_dim)
                     : std::max(dot(one, keys.max_keys, keys.type, begin, params.head_dim),
                                dot(one, keys.min_keys, keys.type, begin, params.head_dim));
        }
        const double mean = sum / static_cast<double>(group);
        params.scores[rows.offset(h, i) + block] = static_cast<float>(static_cast<double>(params.scale) * mean);
      }
    }
  }
}

void reference_block_entropy(const BlockEntropyParams& params) {
  const BlockRows& rows = params.rows;
  const float share = params.previous_share;
  for (int32_t h = 0; h < rows.kv_heads; ++h) {
    for (int32_t i = 0; i < rows.num_segments; ++i) {
      const int64_t begin = rows.offset(h, i);
      // Probabilities are float32 from the exponential on: where the ranking is by probability, they underflow and tie.
      std::vector<float> row(params.scores + begin, params.scores + begin + rows.visible(i));
      const float max = row.empty() ? 0 : *std::max_element(row.begin(), row.end());
      double total = 0;
      for (float& value : row) total += static_cast<double>(value = std::exp(value - max));
      double entropy = 0;
      for (size_t block = 0; block < row.size(); ++block) {
        const int64_t at = begin + static_cast<int64_t>(block);
        float p = row[block] / static_cast<float>(total);
        if (params.previous != nullptr) p = share * params.previous[at] + (1 - share) * p;
        if (params.probabilities != nullptr) params.probabilities[at] = p;
        row[block] = p;
        // In float32 the logarithm of 1 + 1e-9 is exactly 0.
        entropy -= static_cast<double>(p) * static_cast<double>(std::log(p + 1e-9f));
      }
      const int64_t at = int64_t{h} * rows.num_segments + i;
      params.entropy[at] = static_cast<float>(std::max(entropy, 0.0));
      if (params.covering != nullptr) params.covering[at] = count_most_probable(row, params.cover);
    }
  }
}

}  // namespace ei::kernels
