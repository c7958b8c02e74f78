// Speed of the attention kernels alone, against the measured peak of this machine:
//   attention_bench [--threads 1,2] [--variant NAME] [--dims 64,128] [--prefill 8192,32768] [--decode 16384,131072]
// One thread is timed by its processor seconds, which other load hardly disturbs; several by the wall clock, so that
// idle workers count: run those on a quiet machine.
// Every line has first compared a sample of its output with the reference, and says the largest difference.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/reference/attention_scalar.h"
#include "kernels/meter/roofline.h"
#include "support/random_kv.h"
#include "timing.h"

namespace ei::kernels {
namespace {

struct Settings {
  std::vector<int> threads = {1, 2};
  std::vector<int32_t> dims = {64, 128};
  std::vector<int64_t> prefill = {8192, 32768};
  std::vector<int64_t> decode = {16384, 131072};
  std::string variant;
  double min_seconds = 1.0;
};

// The shape of a small grouped-query model: 3 query heads to one of 2 kv_heads, cache of bf16, or f16 for kernels that
// multiply that.
constexpr int32_t kKvHeads = 2;
constexpr int32_t kGroup = 3;
// A long prompt is timed by its last chunk: the work per row is that of a row near the end of the prompt.
constexpr int64_t kChunk = 2048;

double call_seconds(const AttentionVariant& variant, const AttentionParams& params, ThreadPool& pool, double min_s) {
  AttentionScratch scratch(variant.scratch_bytes(params, pool.size()));
  return best_seconds(pool, min_s, [&] {
    WorkQueue queue;
    scratch.clear_header();
    pool.run([&](Worker worker) { variant.run(params, scratch.data(), queue, worker); });
  });
}

// Largest difference to the reference over the first and the last row of the call.
double sample_error(const AttentionParams& params, int64_t width) {
  double worst = 0;
  for (const int64_t token : {int64_t{0}, params.tokens - 1}) {
    std::vector<float> want(static_cast<size_t>(width));
    AttentionParams one = params;
    one.q += token * params.q_stride;
    one.out = want.data();
    one.tokens = 1;
    one.first_position += static_cast<int32_t>(token);
    run_attention(scalar_attention(), one, 1);
    for (int64_t i = 0; i < width; ++i) {
      const float got = params.out[token * params.out_stride + i];
      const double difference = std::abs(static_cast<double>(got - want[static_cast<size_t>(i)]));
      worst = difference <= worst ? worst : difference;
    }
  }
  return worst;
}

struct Case {
  AttentionShape shape;
  const AttentionVariant* variant;
};

bool wrong(const AttentionVariant& variant, double error) {
  const bool bf16 = variant.name.find("bf16") != std::string_view::npos || variant.name == "amx";
  return !(error <= (bf16 ? 3e-2 : variant.name == "neonfp16" ? 5e-3 : 1e-5));
}

bool bench(const Case& item, const Settings& settings, int threads, const Roofline& roofline) {
  const AttentionShape& shape = item.shape;
  RandomAttention input(shape, 1);
  ThreadPool pool(threads);
  std::vector<float> out(static_cast<size_t>(shape.tokens * input.width()));
  const AttentionParams params = input.params(out.data());
  const double seconds = call_seconds(*item.variant, params, pool, settings.min_seconds);
  const double error = sample_error(params, input.width());
  const double first = static_cast<double>(shape.context - shape.tokens + 1);
  const double pairs = static_cast<double>(shape.tokens) * (first + static_cast<double>(shape.context)) / 2;
  const double flops = 4.0 * pairs * static_cast<double>(input.width()) / seconds;
  const double bytes = 2.0 * static_cast<double>(shape.context) * shape.kv_heads * shape.head_dim *
                       static_cast<double>(dtype_bytes(shape.key_type)) / seconds;
  const bool bf16 = item.variant->name.find("bf16") != std::string_view::npos || item.variant->name == "amx";
  std::printf("%-8s variant=%-10s threads=%d head_dim=%-3d kv_heads=%d group=%d tokens=%-5lld context=%-6lld",
              shape.tokens > 4 ? "prefill" : "decode", std::string(item.variant->name).c_str(), threads, shape.head_dim,
              shape.kv_heads, shape.group, static_cast<long long>(shape.tokens), static_cast<long long>(shape.context));
  if (shape.tokens > 4) {
    const double fp16 = item.variant->name == "neonfp16" ? 2 : 1;  // twice the lanes
    const double ceiling = bf16 ? roofline.bf16_flops : fp16 * roofline.fp32_flops;
    std::printf(" gflops=%-6.1f roofline_share=%.2f", flops * 1e-9, flops / ceiling);
  } else {
    std::printf(" gbytes_s=%-5.1f read_share=%.2f", bytes * 1e-9, bytes / roofline.read_bytes_per_s);
  }
  std::printf(" max_error=%.1e%s\n", error, wrong(*item.variant, error) ? " WRONG" : "");
  std::fflush(stdout);
  return !wrong(*item.variant, error);
}

int run(const Settings& settings) {
  bool right = true;
  for (const int threads : settings.threads) {
    const Roofline roofline = measure_roofline(threads).value();
    std::printf("roofline threads=%d fp32_gflops=%.1f bf16_gflops=%.1f read_gbytes_s=%.1f\n", threads,
                roofline.fp32_flops * 1e-9, roofline.bf16_flops * 1e-9, roofline.read_bytes_per_s * 1e-9);
    for (const AttentionVariant* variant : attention_variants()) {
      const bool wanted = settings.variant.empty() ? variant->name != "scalar" : settings.variant == variant->name;
      if (!wanted || !variant->usable()) continue;
      for (const int32_t dim : settings.dims) {
        AttentionShape shape{.head_dim = dim, .kv_heads = kKvHeads, .group = kGroup};
        const bool bf16 = variant->accepts(DType::kBF16, DType::kBF16);
        shape.key_type = shape.value_type = bf16 ? DType::kBF16 : DType::kF16;
        for (const int64_t context : settings.prefill) {
          shape.context = context;
          shape.tokens = std::min(context, kChunk);
          right = bench({shape, variant}, settings, threads, roofline) && right;
        }
        for (const int64_t context : settings.decode) {
          shape.context = context;
          shape.tokens = 1;
          right = bench({shape, variant}, settings, threads, roofline) && right;
        }
      }
    }
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace ei::kernels

int main(int argc, char** argv) {
  ei::kernels::Settings settings;
  CLI::App app("attention kernels against the peak of this machine");
  app.add_option("--threads", settings.threads)->delimiter(',');
  app.add_option("--dims", settings.dims)->delimiter(',');
  app.add_option("--prefill", settings.prefill)->delimiter(',');
  app.add_option("--decode", settings.decode)->delimiter(',');
  app.add_option("--variant", settings.variant);
  app.add_option("--min-seconds", settings.min_seconds);
  CLI11_PARSE(app, argc, argv);
  return ei::kernels::run(settings);
}
