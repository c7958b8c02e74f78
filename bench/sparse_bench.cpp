// What a sparse prefill costs, kernel by kernel, for one layer of the embedded model's shape:
//   sparse_bench [--threads 1] [--dims 64] [--contexts 32768,131072] [--blocks 8,16,32,64] [--budget 2048]
// Sparse attention against dense attention by the rate of query-key pairs, and the profiler's operations by their time.
// One thread is timed by its processor seconds; several need a quiet machine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/attention/attention.h"
#include "kernels/block_scores/cpu/block_scores.h"
#include "support/random_kv.h"
#include "timing.h"

namespace ei::kernels {
namespace {

struct Settings {
  std::vector<int> threads = {1};
  std::vector<int32_t> dims = {64};
  std::vector<int64_t> contexts = {32768, 131072};
  std::vector<int32_t> blocks = {8, 16, 32, 64};
  int32_t budget = 2048;
  double min_seconds = 0.5;
};

constexpr int32_t kKvHeads = 2;
constexpr int32_t kGroup = 3;
constexpr int32_t kSegment = 512;

// Every kv_head reads `budget` tokens in random blocks before the last segment.
BlockPlan random_plan(int64_t context, int32_t block, int32_t budget) {
  BlockPlan plan;
  plan.grid = {kSegment, block};
  plan.kv_heads = kKvHeads;
  plan.first_segment = static_cast<int32_t>(context / kSegment) - 1;
  plan.num_segments = 1;
  plan.dense = {0};
  plan.offsets = {0};
  Random random(3);
  const int64_t visible = int64_t{plan.first_segment} * plan.grid.blocks_per_segment();
  for (int32_t h = 0; h < kKvHeads; ++h) {
    int64_t wanted = budget / block;
    for (int64_t j = 0; j < visible && wanted > 0; ++j) {
      if (static_cast<int64_t>(random.below(static_cast<uint32_t>(visible - j))) >= wanted) continue;
      plan.blocks.push_back(static_cast<int32_t>(j));
      --wanted;
    }
    plan.offsets.push_back(static_cast<int64_t>(plan.blocks.size()));
  }
  return plan;
}

struct Bench {
  const Settings& settings;
  ThreadPool& pool;
  RandomAttention& input;
  const AttentionShape& shape;

  double attention(const BlockPlan* plan) const {
    std::vector<float> out(static_cast<size_t>(shape.tokens * input.width()));
    AttentionParams params = input.params(out.data());
    params.plan = plan;
    const AttentionVariant& variant = *choose_attention(shape.key_type, shape.value_type, "");
    AttentionScratch scratch(variant.scratch_bytes(params, pool.size()));
    return best_seconds(pool, settings.min_seconds, [&] {
      WorkQueue queue;
      scratch.clear_header();
      pool.run([&](Worker worker) { variant.run(params, scratch.data(), queue, worker); });
    });
  }

  // One row of the table per number of rows asked.
  void peaks(int32_t block) const {
    AttentionParams attention = input.params(nullptr);
    const int64_t panels = shape.context / 8;
    const int64_t dim = shape.head_dim;
    std::vector<int8_t> keys(static_cast<size_t>(kKvHeads * panels * 8 * dim));
    std::vector<int8_t> bounds(static_cast<size_t>(kKvHeads * panels * 2 * dim));
    std::vector<float> scales(static_cast<size_t>(2 * kKvHeads * panels));
    PeakScoreParams params;
    params.rows = {
        {kSegment, block}, kKvHeads, attention.first_position / kSegment, 1, attention.first_position / block};
    params.q = attention.q;
    params.q_stride = attention.q_stride;
    params.tokens = shape.tokens;
    params.first_position = attention.first_position;
    params.num_heads = attention.num_heads;
    params.scale = attention.scale;
    params.kv = attention.kv;
    params.keys = {keys.data(), scales.data(),          panels, bounds.data(), scales.data() + kKvHeads * panels,
                   panels / 8,  std::max(1, 64 / block)};
    std::vector<float> scores(static_cast<size_t>(kKvHeads * params.rows.stride));
    std::vector<AttentionSample> samples(kKvHeads);
    params.scores = scores.data();
    params.samples = samples.data();
    const PackKeysParams pack{.kv = attention.kv,
                              .length = shape.context,
                              .block = block,
                              .supers = shape.context / block / params.keys.super_blocks,
                              .out = params.keys};
    for (const PeakVariant* variant : peak_variants()) {
      if (!variant->usable() || (variant->name == "portable" && peak_variants().front()->usable())) continue;
      const double packing = best_seconds(pool, settings.min_seconds,
                                          [&] { pool.run([&](Worker worker) { variant->pack_keys(pack, worker); }); });
      for (const int rows : {0, kSegment / 2, kSegment / 4}) {
        const std::vector<BlockRanking> ranking(
            kKvHeads,
            BlockRanking{.rows = rows, .queries = rows == kSegment / 2 ? GroupQuery::kLeastLocal : GroupQuery::kMean});
        params.ranking = ranking.data();
        AttentionScratch scratch(variant->scratch_bytes(params, pool.size()) + kScratchHeader);
        const double scoring = best_seconds(pool, settings.min_seconds, [&] {
          for (const auto step : variant->steps) {
            WorkQueue queue;
            pool.run([&](Worker worker) { step(params, scratch.data(), queue, worker); });
          }
          pool.run([&](Worker worker) { variant->merge(params, scratch.data(), worker); });
        });
        std::printf("peaks     variant=%-8s block=%-3d rows=%-3d ms=%.2f pack_all_keys_ms=%.2f\n",
                    std::string(variant->name).c_str(), block, rows == 0 ? kSegment : rows, scoring * 1e3,
                    packing * 1e3);
      }
    }
  }
};

// Mid-ranges, their scores and the entropy: what the budgets need.
void profile(const Bench& bench, int32_t block) {
  const AttentionShape& shape = bench.shape;
  const AttentionParams attention = bench.input.params(nullptr);
  const int64_t blocks = shape.context / block;
  std::vector<uint16_t> extremes(static_cast<size_t>(2 * blocks * kKvHeads * shape.head_dim));
  const BlockExtremes keys{extremes.data(), extremes.data() + extremes.size() / 2, DType::kBF16, shape.head_dim,
                           int64_t{kKvHeads} * shape.head_dim};
  const double index = best_seconds(bench.pool, bench.settings.min_seconds, [&] {
    bench.pool.run([&](Worker worker) {
      block_extremes({.kv = attention.kv, .block = block, .first_block = 0, .num_blocks = blocks, .out = keys}, worker);
    });
  });
  std::vector<float> middle(static_cast<size_t>(bench.input.width()));
  const double midrange = best_seconds(bench.pool, bench.settings.min_seconds, [&] {
    bench.pool.run([&](Worker worker) {
      query_midrange({.q = attention.q,
                      .q_stride = attention.q_stride,
                      .tokens = shape.tokens,
                      .segment = kSegment,
                      .num_heads = attention.num_heads,
                      .head_dim = shape.head_dim,
                      .out = middle.data()},
                     worker);
    });
  });
  const BlockRows rows{{kSegment, block}, kKvHeads, attention.first_position / kSegment, 1, blocks};
  std::vector<float> scores(static_cast<size_t>(kKvHeads * blocks));
  const double score = best_seconds(bench.pool, bench.settings.min_seconds, [&] {
    WorkQueue queue;
    bench.pool.run([&](Worker) {
      block_scores({.rows = rows,
                    .queries = middle.data(),
                    .num_heads = attention.num_heads,
                    .head_dim = shape.head_dim,
                    .keys = keys,
                    .scores = scores.data()},
                   queue);
    });
  });
  float entropies[kKvHeads];
  const double entropy = best_seconds(bench.pool, bench.settings.min_seconds, [&] {
    WorkQueue queue;
    bench.pool.run(
        [&](Worker) { block_entropy({.rows = rows, .scores = scores.data(), .entropy = entropies}, queue); });
  });
  std::printf("profile   block=%-3d extremes_of_all_keys_ms=%.2f midrange_ms=%.2f scores_ms=%.2f entropy_ms=%.2f\n",
              block, index * 1e3, midrange * 1e3, score * 1e3, entropy * 1e3);
}

int run(const Settings& settings) {
  for (const int threads : settings.threads) {
    for (const int32_t dim : settings.dims) {
      for (const int64_t context : settings.contexts) {
        AttentionShape shape{.head_dim = dim, .kv_heads = kKvHeads, .group = kGroup, .tokens = kSegment};
        shape.context = context;
        shape.key_type = shape.value_type = DType::kBF16;
        RandomAttention input(shape, 1);
        ThreadPool pool(threads);
        const Bench bench{settings, pool, input, shape};
        const auto own = static_cast<double>(kSegment) * (kSegment + 1) / 2;
        const auto far = static_cast<double>(kSegment) * static_cast<double>(context - kSegment);
        const double dense = bench.attention(nullptr);
        std::printf("dense     threads=%d head_dim=%d context=%lld rows=%d ms=%.2f gpairs_s=%.2f\n", threads, dim,
                    static_cast<long long>(context), kSegment, dense * 1e3, (own + far) * kKvHeads / dense * 1e-9);
        for (const int32_t block : settings.blocks) {
          const BlockPlan plan = random_plan(context, block, settings.budget);
          const double seconds = bench.attention(&plan);
          const double pairs = own + static_cast<double>(kSegment) * settings.budget;
          std::printf("sparse    block=%-3d budget=%d ms=%.2f rate_of_dense=%.2f\n", block, settings.budget,
                      seconds * 1e3, pairs / seconds / ((own + far) / dense));
          profile(bench, block);
          bench.peaks(block);
        }
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace ei::kernels

int main(int argc, char** argv) {
  ei::kernels::Settings settings;
  CLI::App app("sparse prefill, kernel by kernel");
  app.add_option("--threads", settings.threads)->delimiter(',');
  app.add_option("--dims", settings.dims)->delimiter(',');
  app.add_option("--contexts", settings.contexts)->delimiter(',');
  app.add_option("--blocks", settings.blocks)->delimiter(',');
  app.add_option("--budget", settings.budget);
  app.add_option("--min-seconds", settings.min_seconds);
  CLI11_PARSE(app, argc, argv);
  return ei::kernels::run(settings);
}
