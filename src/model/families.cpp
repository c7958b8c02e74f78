#include "model/families.h"

#include <array>

namespace ei::model {

std::span<const Family> families() {
  static constexpr std::array<Family, 5> kFamilies{{
      {.arch = "llama", .rope_interleaved = true, .frequency_factors = true, .whole_rotation = true, .scales = true},
      {.arch = "qwen2"},
      {.arch = "qwen3", .scales = true, .qk_norm = true},
      {.arch = "pangu-embedded", .ignores_factors = true},
      {.arch = "gemma3",
       .qk_norm = true,
       .post_norms = true,
       .scaled_embedding = true,
       .scaled_queries = true,
       .activation = Activation::kGeluTanh,
       .window_pattern = 6},
  }};
  return kFamilies;
}

}  // namespace ei::model
