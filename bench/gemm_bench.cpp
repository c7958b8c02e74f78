// Speed of our packed products alone, by every dense provider that is fast here and each of our kernels that this
// CPU can run, against the measured peak of this machine in 16 bits, where it has one:
//   gemm_bench [--threads 1,2] [--rows 512] [--shapes 384x2048,1024x384] [--dense bf16,onednn]      (k x n)
// Packing x is part of the time, packing W is not; the providers take turns. One thread is timed by its processor
// seconds, several by the wall clock: run those on a quiet machine. Every line has first compared rows of its output
// with the reference.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "backend/dense_provider.h"
#include "backend/host_memory.h"
#include "base/thread_pool.h"
#include "kernels/meter/roofline.h"
#include "kernels/products/gemm.h"
#include "kernels/products/reference/gemm_reference.h"
#include "timing.h"

namespace ei {
namespace {

struct Settings {
  std::vector<int> threads = {1, 2};
  std::vector<int64_t> rows = {512};
  // The embedded model's products, then gemma-3-270m's and those of a model of a few billion parameters.
  std::vector<std::string> shapes = {"384x640",  "384x384",  "384x2048", "1024x384",  "640x1536",
                                     "1024x640", "640x4096", "2048x640", "2048x4096", "8192x2048"};
  std::vector<std::string> dense;  // none: all that are fast
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

struct Provider {
  std::string name;
  std::unique_ptr<DenseProvider> dense;
};

// One provider's share of a comparison.
struct Contender {
  const Provider& provider;
  std::unique_ptr<DenseProvider::Packed> weight;
  Buffer scratch;
  std::vector<float> y;
  double best = 1e30;
  double best_pack = 1e30;
};

Result<Contender> make_contender(const Provider& provider, const std::vector<float>& w, int64_t m, int64_t k, int64_t n,
                                 int workers) {
  EI_ASSIGN_OR_RETURN(auto weight, provider.dense->pack(n, k, [&](int64_t begin, int64_t end, float* rows) {
    std::copy(w.begin() + begin * k, w.begin() + end * k, rows);
  }));
  EI_ASSIGN_OR_RETURN(Buffer scratch, allocate_host(provider.dense->scratch_bytes(*weight, m, workers)));
  return Contender{provider, std::move(weight), std::move(scratch), std::vector<float>(static_cast<size_t>(m * n))};
}

void multiply_once(Contender& contender, Matrix x, Matrix y, ThreadPool& pool) {
  const auto clock = pool.size() == 1 ? processor_s : now_s;
  const DenseProvider::Product product{*contender.weight, x, y, contender.scratch.data()};
  WorkQueue packing;
  WorkQueue multiplying;
  Meeting started{pool.size()};
  Meeting packed{pool.size()};
  Meeting done{pool.size()};
  double times[3] = {};
  pool.run([&](Worker worker) {
    started.arrive();
    if (worker.index == 0) times[0] = clock();
    contender.provider.dense->prepare(product, packing);
    packed.arrive();
    if (worker.index == 0) times[1] = clock();
    contender.provider.dense->multiply(product, worker, multiplying);
    done.arrive();
    if (worker.index == 0) times[2] = clock();
  });
  contender.best = std::min(contender.best, times[2] - times[0]);
  contender.best_pack = std::min(contender.best_pack, times[1] - times[0]);
}

// Largest difference to the reference over the first and the last row.
double sample_error(Matrix x, const std::vector<float>& w, Matrix y, std::string_view numbers) {
  double error = 0;
  std::vector<float> want(static_cast<size_t>(y.cols));
  for (const int64_t row : {int64_t{0}, x.rows - 1}) {
    kernels::reference_gemm(x.row_range(row, 1), w.data(), {want.data(), 1, y.cols, y.cols}, numbers);
    for (int64_t i = 0; i < y.cols; ++i) {
      const float got = y.data[row * y.stride + i];
      const double difference = std::fabs(static_cast<double>(got) - static_cast<double>(want[static_cast<size_t>(i)]));
      error = difference <= error ? error : difference;
    }
  }
  return error;
}

// The providers take turns, call by call, so that all of them see the same weather.
Result<bool> bench(const std::vector<Provider>& providers, int64_t m, int64_t k, int64_t n, ThreadPool& pool,
                   const Settings& settings, double bf16_flops) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(m * k));
  std::vector<float> w(static_cast<size_t>(n * k));
  for (float& value : x) value = normal(random);
  for (float& value : w) value = normal(random);
  const Matrix input{x.data(), m, k, k};
  std::vector<Contender> contenders;
  for (const Provider& provider : providers) {
    EI_ASSIGN_OR_RETURN(Contender made, make_contender(provider, w, m, k, n, pool.size()));
    contenders.push_back(std::move(made));
  }
  for (const double until = now_s() + settings.min_seconds; now_s() < until;) {
    for (Contender& one : contenders) multiply_once(one, input, {one.y.data(), m, n, n}, pool);
  }
  bool all_right = true;
  for (Contender& one : contenders) {
    const std::string_view numbers = one.provider.dense->numbers();
    const double error = sample_error(input, w, {one.y.data(), m, n, n}, numbers);
    const bool right = error <= (numbers == "fp16" ? 6e-3 : 4e-5) * std::sqrt(static_cast<double>(k));
    all_right = all_right && right;
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / one.best;
    const std::string share = bf16_flops > 0 ? str_format("%.2f", flops / bf16_flops) : "-";
    std::printf(
        "gemm dense=%-15s threads=%d rows=%-5lld k=%-5lld n=%-5lld gflops=%-6.1f roofline_share=%s pack_share=%.2f "
        "max_error=%.1e%s\n",
        one.provider.name.c_str(), pool.size(), static_cast<long long>(m), static_cast<long long>(k),
        static_cast<long long>(n), flops * 1e-9, share.c_str(), one.best_pack / one.best, error, right ? "" : " WRONG");
    std::fflush(stdout);
  }
  return all_right;
}

// The names for EI_CPU_ISA that give a provider different kernels; "" alone for one that has no choice.
std::vector<std::string_view> isas_of(const DenseEntry& entry) {
  std::vector<std::string_view> isas;
  for (const kernels::GemmKernel* kernel : kernels::gemm_kernels()) {
    if (entry.name == "bf16" && kernel->usable()) isas.push_back(kernel->name);
  }
  return isas.empty() ? std::vector<std::string_view>{""} : isas;
}

Result<std::vector<Provider>> make_providers(const Settings& settings) {
  std::vector<Provider> providers;
  for (const DenseEntry& entry : dense_providers()) {
    const bool named = std::find(settings.dense.begin(), settings.dense.end(), entry.name) != settings.dense.end();
    if (settings.dense.empty() ? !entry.fast("") : !named) continue;
    for (const std::string_view isa : isas_of(entry)) {
      EI_ASSIGN_OR_RETURN(auto made, entry.create(isa));
      const std::string detail = isa.empty() ? "" : ":" + std::string(isa);
      providers.push_back({std::string(entry.name) + detail, std::move(made)});
    }
  }
  return providers;
}

int run(const Settings& settings) {
  const Result<std::vector<Provider>> made = make_providers(settings);
  if (!made.ok()) {
    std::fprintf(stderr, "gemm_bench: %s\n", made.error().message.c_str());
    return 2;
  }
  const std::vector<Provider>& providers = made.value();
  if (providers.empty()) {
    std::fprintf(stderr, "gemm_bench: no dense provider is fast on this CPU\n");
    return 77;
  }
  bool right = true;
  for (const int threads : settings.threads) {
    ThreadPool pool(threads);
    const double bf16_flops = kernels::measure_roofline(threads).value().bf16_flops;
    std::printf("roofline threads=%d bf16_gflops=%.1f\n", threads, bf16_flops * 1e-9);
    for (const int64_t rows : settings.rows) {
      for (const std::string& shape : settings.shapes) {
        long long k = 0;
        long long n = 0;
        if (std::sscanf(shape.c_str(), "%lldx%lld", &k, &n) != 2 || k <= 0 || n <= 0) {
          std::fprintf(stderr, "gemm_bench: a shape is KxN, not '%s'\n", shape.c_str());
          return 2;
        }
        const Result<bool> done = bench(providers, rows, k, n, pool, settings, bf16_flops);
        if (!done.ok()) {
          std::fprintf(stderr, "gemm_bench: %s\n", done.error().message.c_str());
          return 1;
        }
        right = done.value() && right;
      }
    }
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace ei

int main(int argc, char** argv) {
  ei::Settings settings;
  CLI::App app("Speed of the packed products");
  app.add_option("--threads", settings.threads)->delimiter(',');
  app.add_option("--rows", settings.rows)->delimiter(',');
  app.add_option("--shapes", settings.shapes)->delimiter(',');
  app.add_option("--dense", settings.dense)->delimiter(',');
  app.add_option("--seconds", settings.min_seconds);
  CLI11_PARSE(app, argc, argv);
  return ei::run(settings);
}
