// Weights of every type a file may hold, decoded, split into codes and multiplied by the code of the kernels, thread by
// thread on the host, against what ggml reads.
#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cuda/cuda_grids.h"
#include "gguf/tensor_type.h"
#include "gpu/random_blocks.h"
#include "kernels/products/cuda/weight_blocks.cuh"
#include "kernels/products/cuda/weight_codes.cuh"

namespace ei::kernels::cuda {
namespace {

using testing::random_blocks;
using testing::RandomBlocks;

constexpr int64_t kMatrixRows = 11;
constexpr int64_t kMatrixCols = 1536;  // three steps of a warp, or one and a half
constexpr int64_t kAll = kMatrixRows * kMatrixCols;

// 16-byte aligned, as on the GPU.
template <typename T>
struct Aligned {
  explicit Aligned(int64_t count) : bytes(static_cast<size_t>(count) * sizeof(T)) {
    memory.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    std::memset(memory.get(), 0xff, bytes);
  }
  T* data() const { return static_cast<T*>(memory.get()); }
  T operator[](int64_t i) const { return data()[i]; }
  size_t bytes;
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, std::free};
};

// Calls use(type, blocks, random) with the struct of each loadable type, or of those that are kept as codes, and random
// blocks of it.
template <bool kCoded, typename Use>
void with_types(Use use) {
  for (const gguf::TensorType& type : gguf::tensor_types()) {
    if (!type.loadable) continue;
    SCOPED_TRACE(type.name);
    Random random(100 + type.id);
    const std::vector<int8_t> grid = weight_grid(type.id);
    const FileType file_type{type.id, grid.empty() ? nullptr : grid.data()};
    const auto check = [&](auto file) {
      EXPECT_EQ(file.kWeights, type.block_elements);
      EXPECT_EQ(file.kBytes, type.block_bytes);
      use(file, random_blocks(type.id, kAll, random), random);
    };
    if constexpr (kCoded) {
      const bool not_kept = type.block_elements == 1 || type.name == "MXFP4";
      EXPECT_NE(with_coded_type(file_type, check), not_kept);
    } else {
      EXPECT_TRUE(with_weight_type(file_type, check)) << "decoded on the host";
    }
  }
}

TEST(EmulatedWeights, OfEveryTypeAreGgmlsBitForBit) {
  with_types<false>([](const auto& type, const RandomBlocks& blocks, Random&) {
    int64_t differ = 0;
    for (int64_t i = 0; i < kAll; ++i) {
      const uint8_t* block = blocks.bytes.data() + i / type.kWeights * type.kBytes;
      const float weight = type.weight(block, static_cast<int>(i % type.kWeights));
      if (weight == blocks.weights[static_cast<size_t>(i)]) continue;
      if (++differ == 1) ADD_FAILURE() << i << ": " << weight << ", not " << blocks.weights[static_cast<size_t>(i)];
    }
    EXPECT_EQ(differ, 0);
  });
}

// Codes of random blocks, split in two parts as a loader's slices are.
template <typename Type>
struct Split {
  Split(const Type& type, const RandomBlocks& blocks) : codes(form.code_bytes(kAll)), scales(form.scale_bytes(kAll)) {
    constexpr int64_t kFirst = 3 * kMatrixCols;
    for (const int64_t first : {int64_t{0}, kFirst}) {
      const int64_t count = first == 0 ? kFirst : kAll - kFirst;
      const uint8_t* from = blocks.bytes.data() + first / type.kWeights * type.kBytes;
      gridDim.x = 3;
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        emulated::Block::run(64, [&] {
          split_weights(type, from, count, codes.data() + form.code_bytes(first),
                        scales.data() + form.scale_bytes(first));
        });
      }
    }
  }
  DeviceCodes device() const { return {form, codes.data(), scales.data(), kMatrixRows, kMatrixCols}; }
  static constexpr CodeForm form = Type::kForm;
  Aligned<uint8_t> codes;
  Aligned<uint8_t> scales;
};

TEST(EmulatedWeights, AreCloseWhenTheyAreDecodedFromCodes) {
  with_types<true>([](const auto& type, const RandomBlocks& blocks, Random&) {
    using Type = std::decay_t<decltype(type)>;
    const Split<Type> split(type, blocks);
    const int64_t pieces = split.form.code_bytes(kAll) / static_cast<int64_t>(sizeof(uint4));
    const Aligned<__nv_bfloat16> decoded(kAll);
    with_codes(split.form.codes, [&](auto kind) {
      for (int64_t piece = 0; piece < pieces; ++piece) {
        decode_piece<decltype(kind)::value>(reinterpret_cast<const uint4*>(split.codes.data()), split.scales.data(),
                                            split.form.block, piece, decoded.data());
      }
    });
    double worst = 0;  // of a weight's bound
    for (int64_t i = 0; i < kAll; ++i) {
      const uint8_t* block = blocks.bytes.data() + i / type.kWeights * type.kBytes;
      const auto at = static_cast<int>(i % type.kWeights);
      const float2 scale = type.scale(block, at);
      const double size = std::abs(static_cast<double>(scale.x) * type.code(block, at)) + std::abs(scale.y);
      const double exact = blocks.weights[static_cast<size_t>(i)];
      // Scale and offset are rounded to a half, where that is small to a multiple of 2^-24; the weight to bf16.
      const double bound = size * 0x1p-11 + 0x1p-25 * (std::abs(type.code(block, at)) + 1) + std::abs(exact) * 0x1p-8;
      const double error = std::abs(static_cast<double>(__bfloat162float(decoded[i])) - exact) / bound;
      worst = error <= worst ? worst : error;  // keeps a NaN
    }
    EXPECT_LE(worst, 1);
  });
}

template <typename Form>
std::vector<float> product(const Form& form, const std::vector<float>& x, const float* bias) {
  constexpr int64_t kStep = 32 * Form::kEach;
  const Aligned<float> shared((kMatrixCols + kStep - 1) / kStep * kStep);
  std::vector<float> y(static_cast<size_t>(kMatrixRows), NAN);
  gridDim.x = 1;
  blockIdx.x = 0;
  emulated::Block::run(kMatvecWarps * 32,
                       [&] { matvec_rows(form, kMatrixRows, kMatrixCols, x.data(), y.data(), bias, shared.data()); });
  return y;
}

TEST(EmulatedWeights, AreMultipliedFromCodes) {
  with_types<true>([](const auto& type, const RandomBlocks& blocks, Random& random) {
    using Type = std::decay_t<decltype(type)>;
    const Split<Type> split(type, blocks);
    std::vector<float> x;
    std::vector<float> bias;
    for (int64_t i = 0; i < kMatrixCols; ++i) x.push_back(random.normal());
    for (int64_t i = 0; i < kMatrixRows; ++i) bias.push_back(random.normal());
    std::vector<float> y;
    with_form(split.device(), [&](const auto& form) { y = product(form, x, bias.data()); });
    for (int64_t row = 0; row < kMatrixRows; ++row) {
      double sum = bias[static_cast<size_t>(row)];
      double size = 0;  // of scale times code and of offset, both of which are rounded
      for (int64_t col = 0; col < kMatrixCols; ++col) {
        const int64_t i = row * kMatrixCols + col;
        const uint8_t* block = blocks.bytes.data() + i / type.kWeights * type.kBytes;
        const auto at = static_cast<int>(i % type.kWeights);
        const float2 scale = type.scale(block, at);
        const double factor = x[static_cast<size_t>(col)];
        sum += factor * static_cast<double>(blocks.weights[static_cast<size_t>(i)]);
        size += std::abs(factor) * (std::abs(static_cast<double>(scale.x) * type.code(block, at)) + std::abs(scale.y));
      }
      EXPECT_NEAR(static_cast<double>(y[static_cast<size_t>(row)]), sum, 0x1p-11 * size + 1e-5) << "row " << row;
    }
  });
}

}  // namespace
}  // namespace ei::kernels::cuda
