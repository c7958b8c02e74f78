// Random-weight model files of any supported family, shape and type: for parity tests, and for benchmarks of big shapes
// without big downloads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ei {

enum class RandomRopeScaling { kNone, kLinear, kYarn, kLlama3 };

struct RandomModelSpec {
  std::string family = "llama";  // llama, qwen2, qwen3, pangu-embedded or gemma3
  int64_t layers = 2;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 64;
  int64_t ffn = 512;
  int64_t vocab = 512;
  int64_t context = 4096;
  bool tied = true;       // the token embedding is also the output matrix
  bool qkv_bias = false;  // always on for qwen2 and pangu-embedded
  bool scales = false;    // llama and qwen3: a number beside each matrix of a layer that its products are multiplied by
  double rope_base = 10000.0;
  RandomRopeScaling rope_scaling = RandomRopeScaling::kNone;
  double rope_factor = 4.0;
  int64_t rope_original_context = 2048;
  int64_t window = 512;        // gemma3: sliding window in tokens
  int64_t window_pattern = 6;  // gemma3: every n-th layer is global
  // The matrices take these types in turn (each where its rows are whole blocks); norms and biases are F32.
  std::vector<std::string> types = {"F32"};
  uint64_t seed = 1;
};

// Shapes of well-known models, by name; nullopt when unknown.
std::optional<RandomModelSpec> random_model_preset(std::string_view name);
std::vector<std::string_view> random_model_presets();

// Checks the spec (kUsage) and writes the file; it appears under `path` only when it is complete.
Status make_random_model(const RandomModelSpec& spec, const std::string& path);

}  // namespace ei
