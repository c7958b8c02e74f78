// The kernel of a generated token's products, thread by thread on the host.
#include "kernels/products/cuda/matvec.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/random.h"

namespace ei::kernels::cuda {
namespace {

constexpr int64_t kRows = 37;

// The largest difference from `want` over the rows, by two blocks.
template <typename Form, typename X>
double worst_error(const Form& form, const std::vector<X>& x, const std::vector<double>& want, const float* bias) {
  const auto cols = static_cast<int64_t>(x.size());
  constexpr int64_t kStep = 32 * Form::kEach;
  const auto room = static_cast<size_t>((cols + kStep - 1) / kStep * kStep) * sizeof(X);
  const std::unique_ptr<void, void (*)(void*)> shared(std::aligned_alloc(64, room), std::free);
  std::vector<float> y(static_cast<size_t>(kRows), NAN);
  gridDim.x = 2;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    std::fill_n(static_cast<unsigned char*>(shared.get()), room, static_cast<unsigned char>(0xff));
    emulated::Block::run(kMatvecWarps * 32, [&] {
      matvec_rows(form, kRows, cols, x.data(), y.data(), bias, static_cast<X*>(shared.get()));
    });
  }
  double worst = 0;
  for (size_t row = 0; row < y.size(); ++row) {
    const double expected = want[row] + (bias != nullptr ? static_cast<double>(bias[row]) : 0.0);
    const double error = std::abs(static_cast<double>(y[row]) - expected);
    worst = error <= worst ? worst : error;  // keeps a NaN
  }
  return worst;
}

struct Input {
  explicit Input(int64_t cols) : random(static_cast<uint64_t>(cols)), bias(static_cast<size_t>(kRows)) {
    for (int64_t i = 0; i < cols; ++i) {
      narrow.push_back(__float2bfloat16(random.normal()));
      wide.push_back(__bfloat162float(narrow.back()));
    }
    for (float& value : bias) value = random.normal();
  }
  // x times the matrix of weight(i), counted over all rows.
  template <typename Weight>
  std::vector<double> product(Weight weight) const {
    std::vector<double> sums(static_cast<size_t>(kRows), 0);
    for (size_t i = 0; i < sums.size() * wide.size(); ++i)
      sums[i / wide.size()] += static_cast<double>(weight(i)) * static_cast<double>(wide[i % wide.size()]);
    return sums;
  }
  template <typename Form>
  void expect(const Form& form, const std::vector<double>& want) const {
    EXPECT_LE(worst_error(form, narrow, want, bias.data()), 1e-4);
    EXPECT_LE(worst_error(form, wide, want, nullptr), 1e-4);
  }

  Random random;
  std::vector<__nv_bfloat16> narrow;
  std::vector<float> wide;
  std::vector<float> bias;
};

constexpr int64_t kCols[] = {32, 96, 512, 1024, 2144, 4096, 14336};

TEST(EmulatedMatvec, ReadsBf16) {
  for (const int64_t cols : {int64_t{8}, int64_t{40}, int64_t{256}, int64_t{4104}}) {
    Input input(cols);
    std::vector<__nv_bfloat16> weights;
    for (int64_t i = 0; i < kRows * cols; ++i) weights.push_back(__float2bfloat16(0.05f * input.random.normal()));
    SCOPED_TRACE(cols);
    input.expect(NarrowWeights{reinterpret_cast<const uint4*>(weights.data()), cols / 8},
                 input.product([&](size_t i) { return __bfloat162float(weights[i]); }));
  }
}

TEST(EmulatedMatvec, ReadsBytes) {
  for (const int64_t cols : kCols) {
    Input input(cols);
    std::vector<signed char> codes;
    std::vector<__half> scales;
    for (int64_t i = 0; i < kRows * cols; ++i)
      codes.push_back(static_cast<signed char>(input.random.between(-127, 127)));
    for (int64_t i = 0; i < kRows * cols / 16; ++i) scales.push_back(__float2half(0.0002f * input.random.normal()));
    const auto* words = reinterpret_cast<const uint4*>(codes.data());
    const auto weight = [&](size_t i, size_t block) {
      return static_cast<float>(codes[i]) * __half2float(scales[i / block]);
    };
    SCOPED_TRACE(cols);
    input.expect(ByteWeights<16>{words, scales.data(), cols / 16},
                 input.product([&](size_t i) { return weight(i, 16); }));
    input.expect(ByteWeights<32>{words, scales.data(), cols / 16},
                 input.product([&](size_t i) { return weight(i, 32); }));
  }
}

TEST(EmulatedMatvec, ReadsNibbles) {
  for (const int64_t cols : kCols) {
    Input input(cols);
    std::vector<unsigned char> codes;
    std::vector<__half2> scales;
    for (int64_t i = 0; i < kRows * cols / 2; ++i)
      codes.push_back(static_cast<unsigned char>(input.random.between(0, 255)));
    for (int64_t i = 0; i < kRows * cols / 32; ++i)
      scales.push_back(__floats2half2_rn(0.002f * input.random.normal(), 0.01f * input.random.normal()));
    SCOPED_TRACE(cols);
    input.expect(NibbleWeights{reinterpret_cast<const uint4*>(codes.data()), scales.data(), cols / 32},
                 input.product([&](size_t i) {
                   const unsigned byte = codes[i / 32 * 16 + i % 16];
                   const float2 scale = __half22float2(scales[i / 32]);
                   return scale.x * static_cast<float>(i % 32 < 16 ? byte & 15 : byte >> 4) + scale.y;
                 }));
  }
}

TEST(EmulatedMatvec, ReadsNibblesInBlocksOf16AndFiveBits) {
  for (const int64_t cols : kCols) {
    Input input(cols);
    std::vector<unsigned char> codes;
    std::vector<__half2> scales;   // of 16 weights
    std::vector<uint32_t> behind;  // scale and fifth bits of 32, in turn
    for (int64_t i = 0; i < kRows * cols / 2; ++i)
      codes.push_back(static_cast<unsigned char>(input.random.between(0, 255)));
    for (int64_t i = 0; i < kRows * cols / 16; ++i)
      scales.push_back(__floats2half2_rn(0.002f * input.random.normal(), 0.01f * input.random.normal()));
    for (size_t i = 0; i < scales.size(); i += 2) {
      behind.push_back(reinterpret_cast<const uint32_t*>(scales.data())[i]);
      behind.push_back(static_cast<uint32_t>(input.random.next()));
    }
    const auto nibble = [&](size_t i) {
      const unsigned byte = codes[i / 32 * 16 + i % 16];
      return i % 32 < 16 ? byte & 15 : byte >> 4;
    };
    const auto scaled = [&](unsigned code, size_t scale) {
      const float2 by = __half22float2(scales[scale]);
      return by.x * static_cast<float>(code) + by.y;
    };
    const auto* words = reinterpret_cast<const uint4*>(codes.data());
    SCOPED_TRACE(cols);
    input.expect(FineWeights<false>{words, reinterpret_cast<const uint2*>(scales.data()), cols / 32},
                 input.product([&](size_t i) { return scaled(nibble(i), i / 16); }));
    input.expect(FineWeights<true>{words, reinterpret_cast<const uint2*>(behind.data()), cols / 32},
                 input.product([&](size_t i) {
                   const unsigned fifth = behind[i / 32 * 2 + 1] >> fifth_bit_place(static_cast<int>(i % 32)) & 1;
                   return scaled(nibble(i) | fifth << 4, i / 32 * 2);
                 }));
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
