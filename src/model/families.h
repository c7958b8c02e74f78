// The families: what an architecture name implies beyond what its file says. A new family is one row here.
#pragma once

#include <span>
#include <string_view>

#include "backend/backend.h"

namespace ei::model {

struct Family {
  std::string_view arch;           // general.architecture, also the prefix of its metadata keys
  bool rope_interleaved = false;   // pairs (2i, 2i+1) instead of (i, i + dims/2)
  bool frequency_factors = false;  // rope_freqs.weight divides the angles
  bool ignores_factors = false;    // or may be there and does not, in libllama either
  bool whole_rotation = false;     // libllama takes no file that rotates a part of each head
  bool scales = false;             // libllama multiplies by what stands beside a matrix in a tensor of its own
  bool qk_norm = false;
  bool post_norms = false;
  bool scaled_embedding = false;  // embeddings times sqrt(width)
  bool scaled_queries = false;    // the scale of attention belongs to the queries, not to the products
  Activation activation = Activation::kSilu;
  int window_pattern = 0;  // with a sliding window: every n-th layer is global
};

std::span<const Family> families();

}  // namespace ei::model
