// What a prompt costs besides arithmetic: opening a model, tokens, the ragged cache, choosing slots. Google Benchmark's
// flags: parts_bench --benchmark_filter=Store
#include <benchmark/benchmark.h>

#include "backend/backend.h"
#include "base/check.h"
#include "base/random.h"
#include "base/top_indices.h"
#include "eval/prose.h"
#include "gguf/file.h"
#include "kv/store.h"
#include "text/tokenizer.h"

namespace ei {
namespace {

constexpr const char* kModel = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
constexpr int64_t kChunk = 1024;

void open_model(benchmark::State& state) {
  for (auto _ : state) {
    const Result<gguf::File> file = gguf::File::open(kModel);
    EI_CHECK(file.ok());
  }
}
BENCHMARK(open_model)->Name("OpenModel")->Unit(benchmark::kMillisecond);

void load_tokenizer(benchmark::State& state) {
  for (auto _ : state) EI_CHECK(text::Tokenizer::load(kModel).ok());
}
BENCHMARK(load_tokenizer)->Name("LoadTokenizer")->Unit(benchmark::kMillisecond);

void tokenize(benchmark::State& state) {
  const auto tokenizer = text::Tokenizer::load(kModel);
  EI_CHECK(tokenizer.ok());
  eval::Prose prose(1);
  std::string text;
  while (static_cast<int64_t>(text.size()) < state.range(0)) text += prose.piece();
  for (auto _ : state) EI_CHECK((*tokenizer)->tokenize(text, {}).ok());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(tokenize)->Name("Tokenize")->Arg(1 << 12)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

const Backend& cpu() {
  static const auto backend = [] {
    BackendOptions options;
    options.threads = 1;
    return create_backend("cpu", options);
  }();
  EI_CHECK(backend.ok());
  return **backend;
}

// A cache of the embedded model's shape, `tokens` long.
kv::Store filled_store(int64_t tokens) {
  kv::Store store(cpu(),
                  {.layers = 8, .kv_heads = 2, .head_dim = 64, .key_type = DType::kF16, .value_type = DType::kF16});
  for (int64_t done = 0; done < tokens; done += kChunk) {
    EI_CHECK(store.reserve(kChunk).ok());
    for (int layer = 0; layer < store.config().layers; ++layer) store.append(layer, kChunk);
  }
  return store;
}

void store_append(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(filled_store(state.range(0)).bytes());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_append)->Name("StoreAppend")->Arg(1 << 10)->Arg(1 << 14)->Arg(1 << 17)->Unit(benchmark::kMicrosecond);

// Every eighth slot of every kv_head stays.
void store_compact(benchmark::State& state) {
  KeepList keep(static_cast<size_t>(state.range(0) / 8));
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = static_cast<int32_t>(8 * i);
  for (auto _ : state) {
    state.PauseTiming();
    kv::Store store = filled_store(state.range(0));
    state.ResumeTiming();
    for (int layer = 0; layer < store.config().layers; ++layer) {
      for (int head = 0; head < store.config().kv_heads; ++head) EI_CHECK(store.compact(layer, head, keep).ok());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_compact)->Name("StoreCompact")->Arg(1 << 14)->Arg(1 << 17)->Unit(benchmark::kMillisecond);

void store_fork(benchmark::State& state) {
  const kv::Store store = filled_store(state.range(0));
  for (auto _ : state) EI_CHECK(store.fork().ok());
}
BENCHMARK(store_fork)->Name("StoreFork")->Arg(1 << 14)->Arg(1 << 17)->Unit(benchmark::kMicrosecond);

void top_indices(benchmark::State& state) {
  Random random(1);
  std::vector<float> scores(static_cast<size_t>(state.range(0)));
  for (float& score : scores) score = static_cast<float>(random.below(1 << 20));
  std::vector<uint64_t> scratch;
  std::vector<int32_t> kept;
  for (auto _ : state) {
    kept.clear();
    append_top_indices(scores, 2048, scratch, kept);
    benchmark::DoNotOptimize(kept.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(top_indices)->Name("TopIndices")->Arg(1 << 14)->Arg(1 << 17)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ei

BENCHMARK_MAIN();
