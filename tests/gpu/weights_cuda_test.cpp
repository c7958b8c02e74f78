// Weights of every type a file may hold, on the GPU: decoded, split into codes and multiplied, against what ggml reads.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cuda/cuda_grids.h"
#include "gguf/tensor_type.h"
#include "gpu/device_array.h"
#include "gpu/random_blocks.h"
#include "kernels/products/cuda/dequantise_cuda.h"
#include "kernels/products/cuda/matvec_cuda.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {
namespace {

using testing::random_blocks;
using testing::RandomBlocks;

constexpr int64_t kRows = 37;
constexpr int64_t kCols = 1536;
constexpr int64_t kWeights = kRows * kCols;

double relative_error(const std::vector<float>& values, const std::vector<float>& exact) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += std::pow(static_cast<double>(values[i]) - static_cast<double>(exact[i]), 2);
    size += std::pow(static_cast<double>(exact[i]), 2);
  }
  const double error = std::sqrt(difference / size);
  return std::isfinite(error) ? error : 1e30;
}

std::vector<float> widened(const std::vector<uint16_t>& values) {
  std::vector<float> wide;
  for (const uint16_t value : values) wide.push_back(bf16_to_f32(value));
  return wide;
}

// A type's random blocks, and its table, on the GPU.
struct Weights {
  explicit Weights(const gguf::TensorType& type)
      : random(type.id),
        blocks(random_blocks(type.id, kWeights, random)),
        grid(weight_grid(type.id)),
        bytes(blocks.bytes),
        file_type{type.id, grid.data()} {}
  Random random;
  RandomBlocks blocks;
  DeviceArray<int8_t> grid;
  DeviceArray<uint8_t> bytes;
  FileType file_type;
};

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message); }

TEST(CudaWeights, OfEveryTypeAreGgmlsBitForBit) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const gguf::TensorType& type : gguf::tensor_types()) {
    if (!type.loadable) continue;
    SCOPED_TRACE(type.name);
    ASSERT_TRUE(dequantises(type.id)) << "decoded on the host";
    const Weights weights(type);
    const DeviceArray<float> wide(kWeights);
    const DeviceArray<uint16_t> narrow(kWeights);
    expect_ok(
        launch_dequantise(weights.file_type, weights.bytes.data(), kWeights, 1, DType::kF32, wide.data(), nullptr));
    expect_ok(launch_dequantise(weights.file_type, weights.bytes.data(), kWeights, 1.5f, DType::kBF16, narrow.data(),
                                nullptr));
    const std::vector<float> exact = wide.read();
    const std::vector<float> rounded = widened(narrow.read());
    int64_t differ = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      const float weight = weights.blocks.weights[i];
      if (exact[i] == weight && rounded[i] == bf16_to_f32(f32_to_bf16(1.5f * weight))) continue;
      if (++differ == 1) ADD_FAILURE() << i << ": " << exact[i] << ", " << rounded[i] << ", not " << weight;
    }
    EXPECT_EQ(differ, 0);
  }
}

TEST(CudaWeights, AreCloseFromCodes) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const gguf::TensorType& type : gguf::tensor_types()) {
    const CodeForm form = code_form(type.id);
    if (!type.loadable || form.codes == Codes::kNone) continue;
    SCOPED_TRACE(type.name);
    Weights weights(type);
    const DeviceArray<uint8_t> code_bytes(static_cast<size_t>(form.code_bytes(kWeights)));
    const DeviceArray<uint8_t> scale_bytes(static_cast<size_t>(form.scale_bytes(kWeights)));
    const DeviceCodes codes{form, code_bytes.data(), scale_bytes.data(), kRows, kCols};
    constexpr int64_t kFirst = 3 * kCols;  // in two slices
    expect_ok(launch_split_codes(weights.file_type, weights.bytes.data(), 0, kFirst, codes, nullptr));
    expect_ok(launch_split_codes(weights.file_type,
                                 weights.bytes.data() + kFirst / type.block_elements * type.block_bytes, kFirst,
                                 kWeights - kFirst, codes, nullptr));
    const DeviceArray<uint16_t> decoded(kWeights);
    expect_ok(launch_decode_codes(codes, 0, 5, decoded.data(), nullptr));
    expect_ok(launch_decode_codes(codes, 5, kRows - 5, decoded.data() + 5 * kCols, nullptr));
    EXPECT_LE(relative_error(widened(decoded.read()), weights.blocks.weights), 3e-3);

    std::vector<float> x;
    for (int64_t i = 0; i < kCols; ++i) x.push_back(bf16_to_f32(f32_to_bf16(weights.random.normal())));
    std::vector<float> bias;
    std::vector<float> exact;
    for (int64_t row = 0; row < kRows; ++row) {
      bias.push_back(weights.random.normal());
      double sum = bias.back();
      for (int64_t col = 0; col < kCols; ++col)
        sum += static_cast<double>(x[static_cast<size_t>(col)]) *
               static_cast<double>(weights.blocks.weights[static_cast<size_t>(row * kCols + col)]);
      exact.push_back(static_cast<float>(sum));
    }
    std::vector<uint16_t> x_bits;
    for (const float value : x) x_bits.push_back(f32_to_bf16(value));
    const DeviceArray<float> wide_x(x);
    const DeviceArray<uint16_t> narrow_x(x_bits);
    const DeviceArray<float> added(bias);
    const DeviceRows inputs[] = {{wide_x.data(), DType::kF32, 1, kCols, kCols},
                                 {narrow_x.data(), DType::kBF16, 1, kCols, kCols}};
    ASSERT_TRUE(matvec_takes(form, kCols));
    for (const DeviceRows& input : inputs) {
      const DeviceArray<float> y(static_cast<size_t>(kRows));
      expect_ok(launch_matvec(codes, input, y.data(), added.data(), nullptr));
      EXPECT_LE(relative_error(y.read(), exact), 2e-3);
    }
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
