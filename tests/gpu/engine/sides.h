// The same operations on two backends: the reference and the GPU.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/random.h"

namespace ei::testing {

inline const std::array<ScratchSlot, 16> kSlots;

// Empty where the cuda backend runs, otherwise why not.
inline std::string why_no_gpu() {
  for (const BackendEntry& entry : backends()) {
    if (entry.name != "cuda") continue;
    const Status usable = entry.usable();
    return usable.ok() ? "" : usable.error().message;
  }
  return "built without CUDA";
}

#define EI_NEEDS_GPU() \
  if (const std::string why = ei::testing::why_no_gpu(); !why.empty()) GTEST_SKIP() << why

inline std::vector<float> normals(int64_t count, uint64_t seed, float scale = 1) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = scale * random.normal();
  return values;
}

// |a - b| / |b|
inline double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  const double error = std::sqrt(difference / std::max(size, 1e-30));
  return std::isfinite(error) && a.size() == b.size() ? error : 1e30;
}

// A backend and one stream on it.
struct Side {
  // `wide`: a matrix in f32 is loaded first, so that activations stay in f32.
  explicit Side(const std::string& name, bool wide = true, const std::string& kernels = "") {
    BackendOptions options;
    options.isa = kernels;
    auto made = create_backend(name, options);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    backend = std::move(made).value();
    if (wide) held.push_back(matrix(normals(4, 1), 2, 2));
    auto opened = backend->new_stream(nullptr);
    EXPECT_TRUE(opened.ok());
    stream = std::move(opened).value();
  }

  std::unique_ptr<Weight> matrix(const std::vector<float>& values, int64_t rows, int64_t cols, DType type = DType::kF32,
                                 float scale = 1, MatrixUse use = MatrixUse::kEveryToken) const {
    std::vector<uint16_t> narrow;
    for (const float value : values) narrow.push_back(f32_to_bf16(value));
    const HostTensor tensor{.name = "matrix",
                            .type = type == DType::kF32 ? 0u : 30u,
                            .rows = rows,
                            .cols = cols,
                            .data = type == DType::kF32 ? static_cast<const void*>(values.data()) : narrow.data(),
                            .scale = scale};
    auto weight = backend->load_matrix({&tensor, 1}, use);
    EXPECT_TRUE(weight.ok()) << (weight.ok() ? "" : weight.error().message);
    return std::move(weight).value();
  }
  std::unique_ptr<Weight> vector(const std::vector<float>& values) const {
    const HostTensor tensor{
        .name = "vector", .type = 0, .rows = 1, .cols = static_cast<int64_t>(values.size()), .data = values.data()};
    auto weight = backend->load_vector({&tensor, 1});
    EXPECT_TRUE(weight.ok());
    return std::move(weight).value();
  }
  Matrix put(int slot, const std::vector<float>& values, int64_t rows, int64_t cols) const {
    const Matrix to = stream->scratch(kSlots[static_cast<size_t>(slot)], rows, cols).value();
    EXPECT_TRUE(backend->copy_in(to.data, values.data(), values.size() * sizeof(float)).ok());
    return to;
  }
  std::vector<float> get(Matrix from) const {
    const Status ran = stream->synchronize();
    EXPECT_TRUE(ran.ok()) << (ran.ok() ? "" : ran.error().message);
    std::vector<float> values(static_cast<size_t>(from.rows * from.cols), NAN);
    EXPECT_TRUE(stream->read(from, values.data()).ok());
    return values;
  }

  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<Weight>> held;
  std::unique_ptr<Stream> stream;
};

}  // namespace ei::testing
