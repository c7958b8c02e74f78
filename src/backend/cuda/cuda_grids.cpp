#include "backend/cuda/cuda_grids.h"

#include <ggml.h>

#include <array>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace ei {
namespace {

constexpr int kBlockWeights = 256;
constexpr size_t kMostBytes = 128;  // of a block

// A block in which everything else is zero and the scale is 1: its first weights are entry `index` times `unit`, plus
// `offset`.
struct Probe {
  uint32_t type;
  int entries;
  int neighbours;
  size_t low;   // byte with the index's low eight bits
  size_t high;  // and the one whose lowest bits are its high ones; 0: there are none
  float unit;
  float offset;
};
constexpr std::array kProbes = {
    Probe{GGML_TYPE_IQ2_XXS, 256, 8, 2, 0, 0.125f, 0}, Probe{GGML_TYPE_IQ2_XS, 512, 8, 2, 3, 0.125f, 0},
    Probe{GGML_TYPE_IQ2_S, 1024, 8, 2, 66, 0.125f, 0}, Probe{GGML_TYPE_IQ3_XXS, 256, 4, 2, 0, 0.25f, 0},
    Probe{GGML_TYPE_IQ3_S, 512, 4, 2, 66, 1, 0},       Probe{GGML_TYPE_IQ1_S, 2048, 8, 2, 34, 1, 0.125f},
    Probe{GGML_TYPE_IQ1_M, 2048, 8, 0, 32, 1, 0.125f},
};

using Block = std::array<uint8_t, kMostBytes>;

void set_scale_to_one(uint32_t type, Block& block) {
  constexpr int kOne = 0x3c00;  // in f16
  if (type != GGML_TYPE_IQ1_M) {
    block[1] = kOne >> 8;
    return;
  }
  for (size_t word = 0; word < 4; ++word)  // four bits in front of each of four words
    block[49 + 2 * word] = static_cast<uint8_t>((kOne >> 4 * word & 15) << 4);
}

}  // namespace

std::vector<int8_t> weight_grid(uint32_t ggml_type) {
  std::vector<int8_t> grid;
  for (const Probe& probe : kProbes) {
    if (probe.type != ggml_type) continue;
    const auto* traits = ggml_get_type_traits(static_cast<enum ggml_type>(ggml_type));
    EI_CHECK(traits->to_float != nullptr && traits->type_size <= kMostBytes && traits->blck_size == kBlockWeights);
    for (int index = 0; index < probe.entries; ++index) {
      alignas(16) Block block{};
      set_scale_to_one(ggml_type, block);
      block[probe.low] = static_cast<uint8_t>(index & 255);
      if (probe.high != 0) block[probe.high] = static_cast<uint8_t>(index >> 8);
      std::array<float, kBlockWeights> weights{};
      traits->to_float(block.data(), weights.data(), kBlockWeights);
      for (int i = 0; i < probe.neighbours; ++i)
        grid.push_back(static_cast<int8_t>(std::lround((weights[static_cast<size_t>(i)] - probe.offset) / probe.unit)));
    }
  }
  return grid;
}

}  // namespace ei
