#include "tools/random_tensor.h"

#include <algorithm>

#include "base/random.h"
#include "ggml.h"

namespace ei {
namespace {

constexpr int64_t kAllRandomElements = 1 << 21;  // tensors up to this size hold no repeated slice
constexpr int64_t kPoolElements = 1 << 19;
constexpr int64_t kChunkBytes = 1 << 20;

// `rows` quantised rows of `cols` values each.
std::vector<char> quantised_rows(const RandomTensor& tensor, int64_t rows, Random& random) {
  const int64_t row_bytes = tensor.cols / tensor.type->block_elements * tensor.type->block_bytes;
  std::vector<char> out(static_cast<size_t>(rows * row_bytes));
  std::vector<float> values(static_cast<size_t>(tensor.cols));
  const std::vector<float> importance(values.size(), 1.0f);  // some types demand it
  for (int64_t row = 0; row < rows; ++row) {
    for (float& value : values) value = static_cast<float>(tensor.mean + tensor.spread * random.normal());
    ggml_quantize_chunk(static_cast<ggml_type>(tensor.type->id), values.data(), out.data() + row * row_bytes, 0, 1,
                        tensor.cols, importance.data());
  }
  return out;
}

// Rows that begin at random blocks of the pool, gathered into pieces worth a write.
bool write_slices(const RandomTensor& tensor, const std::vector<char>& pool, Random& random, const ByteSink& sink) {
  const int64_t row_bytes = tensor.cols / tensor.type->block_elements * tensor.type->block_bytes;
  const int64_t starts = (static_cast<int64_t>(pool.size()) - row_bytes) / tensor.type->block_bytes + 1;
  std::vector<char> chunk;
  for (int64_t row = 0; row < tensor.rows; ++row) {
    const char* slice = pool.data() + random.below(starts) * tensor.type->block_bytes;
    chunk.insert(chunk.end(), slice, slice + row_bytes);
    if (static_cast<int64_t>(chunk.size()) < kChunkBytes && row + 1 < tensor.rows) continue;
    if (!sink(chunk.data(), chunk.size())) return false;
    chunk.clear();
  }
  return true;
}

}  // namespace

bool write_random_tensor(const RandomTensor& tensor, uint64_t seed, int64_t alignment, const ByteSink& sink) {
  Random random(seed);
  const int64_t bytes = tensor.rows * (tensor.cols / tensor.type->block_elements * tensor.type->block_bytes);
  bool written = false;
  if (!tensor.fixed.empty()) {
    written = sink(tensor.fixed.data(), tensor.fixed.size() * sizeof(float));
  } else if (tensor.rows <= kAllRandomElements / tensor.cols) {
    const std::vector<char> all = quantised_rows(tensor, tensor.rows, random);
    written = sink(all.data(), all.size());
  } else {
    const int64_t pool_rows = std::min(tensor.rows, kPoolElements / tensor.cols + 1);
    written = write_slices(tensor, quantised_rows(tensor, pool_rows, random), random, sink);
  }
  const std::vector<char> padding(static_cast<size_t>((alignment - bytes % alignment) % alignment), 0);
  return written && (padding.empty() || sink(padding.data(), padding.size()));
}

}  // namespace ei
