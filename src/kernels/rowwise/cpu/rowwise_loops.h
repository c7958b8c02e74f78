// The loops of rowwise.h, for the compiler to vectorise: included by one file for each instruction set, none of which
// may share a symbol with the others. All of them give the same bits: sums have a fixed number of lanes, and products
// and sums are rounded one by one.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernels/rowwise/rowwise.h"

namespace ei::kernels {
namespace {

// Sum of squares in eight independent lanes, so that it vectorises and is the same at every vector width.
inline float mean_square(const float* x, int64_t count) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const double value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (const double lane : lanes) sum += lane;
  return static_cast<float>(sum / static_cast<double>(count));
}

inline void normalise(const float* x, const float* gain, float eps, float* y, int64_t count) {
  const float scale = 1.0f / std::sqrt(mean_square(x, count) + eps);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * scale * gain[i];
}

// To where 2^n stays a normal number, [-87, 88]. Not by comparing floats: GCC then divides by 1 + exp(88) in a copy of
// the loop body for lanes that do not need it, and every quotient that is not a normal number costs x86 some 150
// cycles.
inline float clamp_exponent(float x) {
#if defined(__aarch64__)
  return __builtin_fmaxf(__builtin_fminf(x, 88.0f), -87.0f);
#else
  // As integers positive floats are in order, and negative ones, seen as unsigned, behind them in reverse order.
  const int32_t below = std::min(std::bit_cast<int32_t>(x), std::bit_cast<int32_t>(88.0f));
  return std::bit_cast<float>(std::min(static_cast<uint32_t>(below), std::bit_cast<uint32_t>(-87.0f)));
#endif
}

// exp(x) to about 2 ulp without branches: 2^n * p(r), n = round(x / ln 2), r in [-ln2/2, ln2/2].
inline float fast_exp(float x) {
  x = clamp_exponent(x);
  const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the integer lands in the low mantissa bits
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t bits = std::bit_cast<uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + bits);
}

// Rounds to the 11 mantissa bits of a half float (Veltkamp's splitting; exact ties and subnormals aside).
inline float round_to_half(float x) {
  const float spread = x * 8193.0f;
  return spread - (spread - x);
}

inline void rms_norm_rows(Matrix x, const float* gain, float eps, Matrix y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    normalise(x.data + row * x.stride, gain, eps, y.data + row * y.stride, x.cols);
  }
}

inline void add_rms_norm_rows(Matrix x, Matrix sum, const float* gain, float eps, Matrix y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* from = x.data + row * x.stride;
    float* to = sum.data + row * sum.stride;
    for (int64_t i = 0; i < x.cols; ++i) to[i] += from[i];
    if (gain != nullptr) normalise(to, gain, eps, y.data + row * y.stride, x.cols);
  }
}

inline void silu_multiply_rows(Matrix gate, Matrix up, Matrix out, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* __restrict g = gate.data + row * gate.stride;
    const float* __restrict u = up.data + row * up.stride;
    float* __restrict to = out.data + row * out.stride;
    for (int64_t i = 0; i < gate.cols; ++i) to[i] = g[i] / (1.0f + fast_exp(-g[i])) * u[i];
  }
}

inline void gelu_multiply_rows(Matrix gate, Matrix up, Matrix out, Range rows) {
  constexpr float kSqrt2OverPi = 0.79788456080286535587989211986876f;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* __restrict g = gate.data + row * gate.stride;
    const float* __restrict u = up.data + row * up.stride;
    float* __restrict to = out.data + row * out.stride;
    for (int64_t i = 0; i < gate.cols; ++i) {
      const float x = round_to_half(g[i]);
      const float inner = kSqrt2OverPi * x * (1.0f + 0.044715f * x * x);
      // 0.5 * (1 + tanh(z)) = 1 / (1 + exp(-2z))
      to[i] = round_to_half(x / (1.0f + fast_exp(-2.0f * inner))) * u[i];
    }
  }
}

inline void add_bias_rows(const float* bias, Matrix y, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    float* to = y.data + row * y.stride;
    for (int64_t i = 0; i < y.cols; ++i) to[i] += bias[i];
  }
}

inline void softcap_rows(Matrix x, float cap, Range rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    float* to = x.data + row * x.stride;
    for (int64_t i = 0; i < x.cols; ++i) to[i] = cap * std::tanh(to[i] / cap);
  }
}

inline void rotate_one_head(const RotateHead& params, float* head) {
  if (params.gain != nullptr) normalise(head, params.gain, params.eps, head, params.head_dim);
  const int32_t half = params.dims / 2;
  const float* __restrict cos = params.cos;
  const float* __restrict sin = params.sin;
  if (params.interleaved) {
    for (int32_t i = 0; i < half; ++i) {
      const float a = head[2 * i];
      const float b = head[2 * i + 1];
      head[2 * i] = a * cos[i] - b * sin[i];
      head[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  } else {
    for (int32_t i = 0; i < half; ++i) {
      const float a = head[i];
      const float b = head[i + half];
      head[i] = a * cos[i] - b * sin[i];
      head[i + half] = a * sin[i] + b * cos[i];
    }
  }
}

inline void convert_one_row(const float* from, void* to, DType type, int64_t count) {
  if (type == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (type == DType::kQ8_0) return store_row(from, to, type, count);
  auto* out = static_cast<uint16_t*>(to);
  if (type == DType::kBF16) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
      const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
      const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
      out[i] = static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
    }
    return;
  }
#if defined(__ARM_FP16_FORMAT_IEEE)
  for (int64_t i = 0; i < count; ++i) {
    const auto half = static_cast<__fp16>(from[i]);
    std::memcpy(out + i, &half, sizeof half);
  }
#elif defined(__F16C__)
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint16_t>(_cvtss_sh(from[i], 0));
#else
  for (int64_t i = 0; i < count; ++i) out[i] = f32_to_f16(from[i]);
#endif
}

constexpr RowwiseVariant make_rowwise_variant(std::string_view name, bool (*usable)()) {
  return {.name = name,
          .usable = usable,
          .rms_norm = rms_norm_rows,
          .add_rms_norm = add_rms_norm_rows,
          .silu_multiply = silu_multiply_rows,
          .gelu_multiply = gelu_multiply_rows,
          .add_bias = add_bias_rows,
          .softcap = softcap_rows,
          .rotate_head = rotate_one_head,
          .convert_row = convert_one_row};
}

}  // namespace
}  // namespace ei::kernels
