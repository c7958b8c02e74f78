// The data of one random tensor, quantised by ggml and streamed to a sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gguf/tensor_type.h"

namespace ei {

struct RandomTensor {
  const gguf::TensorType* type = nullptr;
  int64_t cols = 0;  // a multiple of the type's block
  int64_t rows = 0;
  double mean = 0.0;
  double spread = 1.0;       // standard deviation
  std::vector<float> fixed;  // F32 values to write instead of random ones
};

// Returns false when the bytes could not be taken.
using ByteSink = std::function<bool(const void* data, size_t size)>;

// Writes the tensor and the padding to `alignment`. A big tensor is made of slices of a smaller random pool, so that
// billions of weights take seconds.
bool write_random_tensor(const RandomTensor& tensor, uint64_t seed, int64_t alignment, const ByteSink& sink);

}  // namespace ei
