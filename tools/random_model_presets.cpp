// Shapes of well-known models for benchmarks: the numbers of their published configurations.
#include <array>
#include <iterator>

#include "tools/random_model.h"

namespace ei {
namespace {

struct Preset {
  const char* name;
  const char* family;
  int64_t layers, width, heads, kv_heads, head_dim, ffn, vocab, context;
  bool tied;
  double rope_base;
  double llama3_factor;  // 0: plain RoPE; the original context of all Llama 3 models is 8192
};

constexpr std::array kPresets = {
    Preset{"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, true, 5e5, 32.0},
    Preset{"llama-3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, false, 5e5, 8.0},
    Preset{"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, false, 1e6, 0.0},
    Preset{"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 40960, true, 1e6, 0.0},
    Preset{"mistral-7b", "llama", 32, 4096, 32, 8, 128, 14336, 32768, 32768, false, 1e6, 0.0},
    Preset{"pangu-1b", "pangu-embedded", 26, 1536, 12, 6, 128, 6144, 153376, 32768, true, 4e6, 0.0},
    Preset{"pangu-7b", "pangu-embedded", 34, 4096, 32, 8, 128, 12800, 153376, 32768, false, 1.6e7, 0.0},
    Preset{"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, true, 1e5, 0.0},
    Preset{"gemma3-270m", "gemma3", 18, 640, 4, 1, 256, 2048, 262144, 32768, true, 1e6, 0.0},
};

}  // namespace

std::vector<std::string_view> random_model_presets() {
  std::vector<std::string_view> names;
  names.reserve(std::size(kPresets));
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::optional<RandomModelSpec> random_model_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    RandomModelSpec spec;
    spec.family = preset.family;
    spec.layers = preset.layers;
    spec.width = preset.width;
    spec.heads = preset.heads;
    spec.kv_heads = preset.kv_heads;
    spec.head_dim = preset.head_dim;
    spec.ffn = preset.ffn;
    spec.vocab = preset.vocab;
    spec.context = preset.context;
    spec.tied = preset.tied;
    spec.rope_base = preset.rope_base;
    if (preset.llama3_factor > 0.0) {
      spec.rope_scaling = RandomRopeScaling::kLlama3;
      spec.rope_factor = preset.llama3_factor;
      spec.rope_original_context = 8192;
    }
    return spec;
  }
  return std::nullopt;
}

}  // namespace ei
