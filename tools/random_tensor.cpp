#include "tools/random_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "ggml.h"

namespace ei {
namespace {

constexpr int64_t kAllRandomElements = 1 << 21;  // tensors up to this size hold no repeated slice
constexpr int64_t kPoolElements = 1 << 19;
constexpr int64_t kChunkBytes = 1 << 20;

// Weights of one to three bits are indices into codebooks: every pattern of bits is valid, while quantising them would
// first search through tables that take ggml ten seconds to build.
bool is_coded(ggml_type type) {
  switch (type) {
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S: return true;
    default: return false;
  }
}

// The half-precision scale of a coded block comes first; IQ1_M's four nibbles lie on top of its last four words.
void set_scale(ggml_type type, float scale, char* block, int64_t block_bytes) {
  const uint16_t half = ggml_fp32_to_fp16(scale);
  if (type != GGML_TYPE_IQ1_M) {
    std::memcpy(block, &half, sizeof half);
    return;
  }
  std::array<uint16_t, 4> words{};
  char* last = block + block_bytes - sizeof words;
  std::memcpy(words.data(), last, sizeof words);
  for (size_t i = 0; i < words.size(); ++i) {
    const unsigned nibble = static_cast<unsigned>(half >> (4 * i)) & 0xFu;
    words[i] = static_cast<uint16_t>((words[i] & 0x0FFFu) | (nibble << 12));
  }
  std::memcpy(last, words.data(), sizeof words);
}

// `rows` rows of random codes, every block scaled to the wanted spread; the mean is 0.
std::vector<char> coded_rows(const RandomTensor& tensor, int64_t rows, Random& random) {
  const auto type = static_cast<ggml_type>(tensor.type->id);
  const int64_t block_bytes = tensor.type->block_bytes;
  const int64_t blocks = rows * (tensor.cols / tensor.type->block_elements);
  std::vector<char> out(static_cast<size_t>(blocks * block_bytes));
  for (char& byte : out) byte = static_cast<char>(random.next() >> 56);
  std::vector<float> values(static_cast<size_t>(tensor.type->block_elements));
  for (int64_t i = 0; i < blocks; ++i) {
    char* block = out.data() + i * block_bytes;
    set_scale(type, 1, block, block_bytes);
    ggml_get_type_traits(type)->to_float(block, values.data(), tensor.type->block_elements);
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    const double spread = std::sqrt(squares / static_cast<double>(values.size()));
    set_scale(type, static_cast<float>(tensor.spread / spread), block, block_bytes);
  }
  return out;
}

// `rows` quantised rows of `cols` values each.
std::vector<char> quantised_rows(const RandomTensor& tensor, int64_t rows, Random& random) {
  if (is_coded(static_cast<ggml_type>(tensor.type->id))) return coded_rows(tensor, rows, random);
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
