// Speed of the packed bf16 products alone, against the measured peak of this machine:
//   gemm_bench [--threads 1,2] [--rows 512] [--shapes 384x2048,1024x384]      (k x n)
// Packing x is part of the time, packing W is not. One thread is timed by its processor seconds, several by the wall
// clock: run those on a quiet machine. Every line has first compared rows of its output with the reference.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"
#include "kernels/reference/gemm_reference.h"
#include "timing.h"

namespace ei::kernels {
namespace {

struct Settings {
  std::vector<int> threads = {1, 2};
  std::vector<int64_t> rows = {512};
  // The embedded model's products, then gemma-3-270m's and those of a model of a few billion parameters.
  std::vector<std::string> shapes = {"384x640",  "384x384",  "384x2048", "1024x384",  "640x1536",
                                     "1024x640", "640x4096", "2048x640", "2048x4096", "8192x2048"};
  double min_seconds = 0.3;
};

// All workers must have packed before one multiplies; the pool's own wake-up would cost more than a small product.
struct Meeting {
  std::atomic<int> waiting{0};
  void arrive() {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) {
    }
  }
};

bool bench(const GemmKernel& kernel, int64_t m, int64_t k, int64_t n, ThreadPool& pool, const Settings& settings,
           double peak_flops) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(m * k));
  std::vector<float> w(static_cast<size_t>(n * k));
  for (float& value : x) value = normal(random);
  for (float& value : w) value = normal(random);
  std::vector<float> y(static_cast<size_t>(m * n));
  std::vector<uint16_t> packed_x(static_cast<size_t>(kernel.packed_rows(m, k)));
  std::vector<uint16_t> packed_w(static_cast<size_t>(kernel.packed_columns(n, k)));
  for (int64_t row = 0; row < n; row += kernel.column_panel) {
    kernel.pack_columns(w.data() + row * k, k, std::min(kernel.column_panel, n - row), k,
                        packed_w.data() + row * kernel.depth(k));
  }
  const Matrix input{x.data(), m, k, k};
  const Matrix output{y.data(), m, n, n};
  double best = 1e30;
  double best_pack = 1e30;
  const auto clock = pool.size() == 1 ? processor_s : now_s;
  const double until = now_s() + settings.min_seconds;
  while (now_s() < until) {
    WorkQueue packing;
    WorkQueue multiplying;
    Meeting started{pool.size()};
    Meeting packed{pool.size()};
    Meeting done{pool.size()};
    double times[3] = {};
    pool.run([&](Worker worker) {
      started.arrive();
      if (worker.index == 0) times[0] = clock();
      gemm_pack(kernel, input, packed_x.data(), packing);
      packed.arrive();
      if (worker.index == 0) times[1] = clock();
      gemm(kernel, {.x = packed_x.data(), .w = packed_w.data(), .k = k, .y = output}, multiplying);
      done.arrive();
      if (worker.index == 0) times[2] = clock();
    });
    best = std::min(best, times[2] - times[0]);
    best_pack = std::min(best_pack, times[1] - times[0]);
  }
  double error = 0;
  std::vector<float> want(static_cast<size_t>(n));
  for (const int64_t row : {int64_t{0}, m - 1}) {
    reference_gemm(input.row_range(row, 1), w.data(), {want.data(), 1, n, n});
    for (int64_t i = 0; i < n; ++i) {
      const double difference = std::fabs(static_cast<double>(y[static_cast<size_t>(row * n + i)]) -
                                          static_cast<double>(want[static_cast<size_t>(i)]));
      error = difference <= error ? error : difference;
    }
  }
  const bool right = error <= 4e-5 * std::sqrt(static_cast<double>(k));
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / best;
  std::printf(
      "gemm kernel=%s threads=%d rows=%-5lld k=%-5lld n=%-5lld gflops=%-6.1f peak_share=%.2f pack_share=%.2f "
      "max_error=%.1e%s\n",
      std::string(kernel.name).c_str(), pool.size(), static_cast<long long>(m), static_cast<long long>(k),
      static_cast<long long>(n), flops * 1e-9, flops / peak_flops, best_pack / best, error, right ? "" : " WRONG");
  std::fflush(stdout);
  return right;
}

int run(const Settings& settings) {
  const GemmKernel* kernel = choose_gemm("");
  if (kernel == nullptr) {
    std::fprintf(stderr, "gemm_bench: this CPU has no bf16 matrix instructions of ours\n");
    return 77;
  }
  bool right = true;
  for (const int threads : settings.threads) {
    ThreadPool pool(threads);
    const double peak = measure_peak(threads).bf16_flops;
    std::printf("peak threads=%d bf16_gflops=%.1f\n", threads, peak * 1e-9);
    for (const int64_t rows : settings.rows) {
      for (const std::string& shape : settings.shapes) {
        long long k = 0;
        long long n = 0;
        if (std::sscanf(shape.c_str(), "%lldx%lld", &k, &n) != 2 || k <= 0 || n <= 0) {
          std::fprintf(stderr, "gemm_bench: a shape is KxN, not '%s'\n", shape.c_str());
          return 2;
        }
        right = bench(*kernel, rows, k, n, pool, settings, peak) && right;
      }
    }
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace ei::kernels

int main(int argc, char** argv) {
  ei::kernels::Settings settings;
  CLI::App app("Speed of the packed bf16 products");
  app.add_option("--threads", settings.threads)->delimiter(',');
  app.add_option("--rows", settings.rows)->delimiter(',');
  app.add_option("--shapes", settings.shapes)->delimiter(',');
  app.add_option("--seconds", settings.min_seconds);
  CLI11_PARSE(app, argc, argv);
  return ei::kernels::run(settings);
}
