// Random products, and every kernel that multiplies them here: for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/products/cpu/gemm_lanes.h"
#include "kernels/products/cpu/gemm_tiles.h"
#include "kernels/products/gemm.h"
#include "kernels/simd/vec_emulated.h"
#include "support/tiles_emulated.h"

namespace ei::kernels {

inline constexpr float kUntouched = -77.0f;

inline bool emulated(const GemmKernel& kernel) { return kernel.name.starts_with("emulated"); }

// This CPU's kernels, and those of x86 in plain loops.
inline std::vector<GemmKernel> tested_gemm_kernels() {
  std::vector<GemmKernel> all = {
      make_pair_gemm<TilesGemm<VecEmulated<16>, TilesEmulated>>("emulated_tiles", emulated_always),
      make_pair_gemm<LanesGemm<VecEmulated<16>>>("emulated_lanes", emulated_always)};
  for (const GemmKernel* kernel : gemm_kernels()) {
    if (kernel->usable()) all.push_back(*kernel);
  }
  return all;
}

struct Problem {
  int64_t m, n, k;
  std::vector<float> x, w;  // [m, k + 3], [n, k]

  Problem(int64_t rows, int64_t outputs, int64_t inputs, uint32_t seed) : m(rows), n(outputs), k(inputs) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    x.resize(static_cast<size_t>(m * (k + 3)));
    w.resize(static_cast<size_t>(n * k));
    for (float& value : x) value = normal(random);
    for (float& value : w) value = normal(random);
  }
  Matrix input() { return {x.data(), m, k, k + 3}; }
};

struct Output {
  std::vector<float> data;
  Matrix y;

  Output(int64_t m, int64_t n) : data(static_cast<size_t>(m * (n + 2)), kUntouched), y{data.data(), m, n, n + 2} {}
  float at(int64_t row, int64_t column) const { return y.data[row * y.stride + column]; }
};

inline std::vector<uint16_t> packed_weight(const GemmKernel& kernel, const Problem& problem) {
  const int64_t depth = kernel.depth(problem.k);
  std::vector<uint16_t> packed(static_cast<size_t>(kernel.packed_columns(problem.n, problem.k)), 0x7fff);
  for (int64_t row = 0; row < problem.n; row += kernel.column_panel) {
    kernel.pack_columns(problem.w.data() + row * problem.k, problem.k, std::min(kernel.column_panel, problem.n - row),
                        problem.k, packed.data() + row * depth);
  }
  return packed;
}

inline void multiply(const GemmKernel& kernel, const std::vector<uint16_t>& weight, Matrix x, Matrix y, int workers) {
  // Not-a-number everywhere that packing leaves alone.
  std::vector<uint16_t> packed(static_cast<size_t>(kernel.packed_rows(x.rows, x.cols)), 0x7fff);
  WorkQueue packing;
  WorkQueue multiplying;
  ThreadPool pool(workers);
  pool.run([&](Worker) { gemm_pack(kernel, x, packed.data(), packing); });
  pool.run([&](Worker) { gemm(kernel, {.x = packed.data(), .w = weight.data(), .k = x.cols, .y = y}, multiplying); });
}

}  // namespace ei::kernels
