// TFLOP/s of prefill attention on the pairs computed, and GB/s of decoding: 32 heads on 8 kv_heads of 128, bf16, pages
// of 128 slots in random places. Dense at three lengths, lists of scattered blocks at 128k, drawn and, with --lists
// FILE, as a model made them (lists.py); with `versions` every version of the kernel that README.md speaks of. Results
// are compared with the portable kernel's. Times are medians of five.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "attend_lists.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/launches.h"
#include "kernels/attention/cuda/prefill_launch_sm90a.cuh"

using namespace ei;
using namespace ei::kernels::cuda;

namespace {

using namespace bench;

constexpr int kDim = 128;
constexpr int kPage = 128;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check((call), #call)

template <typename T>
T* device(size_t count) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(T)));
  return static_cast<T*>(data);
}
template <typename T>
T* device(const std::vector<T>& values) {
  T* data = device<T>(values.size() + 1);
  CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}

__global__ void fill(__nv_bfloat16* to, size_t count, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i * 2654435761u) ^ seed;
    x ^= x >> 16;
    x *= 0x7feb352d;
    x ^= x >> 15;
    x *= 0x846ca68b;
    x ^= x >> 16;
    to[i] = __float2bfloat16(static_cast<float>(x & 0xffff) / 32768.0f - 1.0f);
  }
}

template <typename Run>
double median_ms(Run run, int repeats = 5) {
  cudaEvent_t begin;
  cudaEvent_t end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < repeats + 1; ++i) {
    CHECK(cudaEventRecord(begin));
    run();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) times.push_back(ms);
  }
  CHECK(cudaGetLastError());
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]);
}

struct Cache {
  explicit Cache(int max_tokens) : tokens(max_tokens) {
    const KvLayout layout{kDim, 2};
    const size_t page_bytes = static_cast<size_t>(layout.page_bytes(kPage));
    const int pages = tokens / kPage * kKvHeads;
    uint8_t* const data = device<uint8_t>(page_bytes * static_cast<size_t>(pages));
    memory = data;
    fill<<<1024, 256>>>(reinterpret_cast<__nv_bfloat16*>(data), page_bytes * static_cast<size_t>(pages) / 2, 1);
    std::vector<const void*> table;
    for (int i = 0; i < pages; ++i) table.push_back(data + page_bytes * static_cast<size_t>(i));
    std::shuffle(table.begin(), table.end(), std::mt19937(7));
    const void** const tables = device(table);
    for (int i = 0; i < kKvHeads; ++i) heads.push_back({tables + i * (tokens / kPage), nullptr, tokens, 0, 0, 0});
    device_heads = device(heads);
  }
  void set_length(int length) {
    for (DeviceKvHead& head : heads) head.length = length;
    CHECK(cudaMemcpy(device_heads, heads.data(), heads.size() * sizeof(DeviceKvHead), cudaMemcpyHostToDevice));
  }
  DeviceKv view() const { return {DType::kBF16, kDim, kPage, kKvHeads, device_heads}; }

  int tokens;
  uint8_t* memory = nullptr;
  std::vector<DeviceKvHead> heads;
  DeviceKvHead* device_heads = nullptr;
};

// The versions, by what sets them apart from the one that is used.
struct Used : PrefillConfig<kDim, __nv_bfloat16> {};
struct Keys112 : Used {
  static constexpr int kTileKeys = 112;
  static constexpr int kStages = 4;
};
struct NoTurns : Used {
  static constexpr bool kTurns = false;
};
struct AlwaysRescaled : Used {
  static constexpr bool kLazy = false;
};
struct QueriesShared : Used {
  static constexpr bool kQueryRegisters = false;
};
struct Plain : Used {
  static constexpr bool kOverlap = false;
};

struct Version {
  const char* name;
  cudaError_t (*launch)(const PrefillArgs&, int, cudaStream_t);
};
constexpr Version kVersions[] = {
    {"used", launch_config<Used>},
    {"no turns", launch_config<NoTurns>},
    {"tiles of 112 keys, 4 stages", launch_config<Keys112>},
    {"always rescaled", launch_config<AlwaysRescaled>},
    {"queries in shared memory", launch_config<QueriesShared>},
    {"no overlap", launch_config<Plain>},
};

struct Bench {
  DeviceTraits traits;
  Cache cache{131072};
  __nv_bfloat16* q = device<__nv_bfloat16>(size_t{131072} * kHeads * kDim);
  __nv_bfloat16* out = device<__nv_bfloat16>(size_t{131072} * kHeads * kDim);
  __nv_bfloat16* other = device<__nv_bfloat16>(size_t{131072} * kHeads * kDim);
  void* workspace = device<uint8_t>(prefill_workspace_bytes());

  PrefillParams params(int tokens, const DevicePlan* plan) {
    cache.set_length(tokens);
    PrefillParams p;
    p.q = q;
    p.out = out;
    p.q_stride = p.out_stride = kHeads * kDim;
    p.tokens = tokens;
    p.num_heads = kHeads;
    p.scale = 1.0f / std::sqrt(static_cast<float>(kDim));
    p.plan = plan;
    p.kv = cache.view();
    p.workspace = workspace;
    return p;
  }

  void run(const Version& version, const PrefillParams& p) {
    const PrefillArgs args = prefill_args(p, hopper_item_rows(kDim));
    CHECK(cudaMemsetAsync(args.next_item, 0, 4, nullptr));
    CHECK(version.launch(args, traits.num_sms, nullptr));
  }

  // Relative difference of some rows of `out` and `other`.
  double difference(int tokens) const {
    double sum = 0;
    double norm = 0;
    std::vector<uint16_t> a(kHeads * kDim);
    std::vector<uint16_t> b(kHeads * kDim);
    for (int i = 0; i < 64; ++i) {
      const size_t row = static_cast<size_t>(i == 63 ? tokens - 1 : tokens / 64 * i + i * 7 % 64) * kHeads * kDim;
      CHECK(cudaMemcpy(a.data(), out + row, a.size() * 2, cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy(b.data(), other + row, b.size() * 2, cudaMemcpyDeviceToHost));
      for (size_t j = 0; j < a.size(); ++j) {
        const double x = static_cast<double>(bf16_to_f32(a[j]));
        const double y = static_cast<double>(bf16_to_f32(b[j]));
        sum += (x - y) * (x - y);
        norm += y * y;
      }
    }
    return std::sqrt(sum / norm);
  }

  void compare(const char* what, int tokens, double flops, const DevicePlan* plan, bool all) {
    PrefillParams p = params(tokens, plan);
    p.out = other;
    DeviceTraits portable = traits;
    portable.set = KernelSet::kPortable;
    const bool known = plan != nullptr || tokens <= 32768;  // dense at 128k would take the portable kernel seconds
    double portable_ms = 0;
    if (known) portable_ms = median_ms([&] { (void)launch_prefill(portable, p, nullptr); }, 1);
    p.out = out;
    for (const Version& version : kVersions) {
      if (!all && &version != &kVersions[0]) continue;
      CHECK(cudaMemset(out, 0xff, size_t(tokens) * kHeads * kDim * 2));
      const double ms = median_ms([&] { run(version, p); });
      std::printf("%-34s %-38s %8.2f ms %5.0f TFLOP/s", what, version.name, ms, flops / ms / 1e9);
      if (known) std::printf(", difference %.4f, portable %.0f TFLOP/s", difference(tokens), flops / portable_ms / 1e9);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
};

DevicePlan plan_of(const Lists& lists, int block) {
  DevicePlan plan;
  plan.segment = kSegment;
  plan.block = block;
  plan.first_segment = 0;
  plan.num_segments = static_cast<int>(lists.offsets.size() - 1) / kKvHeads;
  plan.dense = nullptr;
  plan.offsets = device(lists.offsets);
  plan.blocks = device(lists.blocks);
  auto* order = device<int32_t>(static_cast<size_t>(kKvHeads * plan.num_segments));
  (void)order_lists(plan, kKvHeads, order, nullptr);
  plan.order = order;
  return plan;
}

void time_lists(Bench& bench, const std::string& what, const Lists& lists, int block, bool versions, bool unordered) {
  DevicePlan plan = plan_of(lists, block);
  const int tokens = plan.num_segments * kSegment;
  const double flops = 4.0 * kDim * lists.pairs();
  char name[96];
  std::snprintf(name, sizeof name, "%s of %d, %d, %.3f", what.c_str(), block, tokens, lists.density());
  bench.compare(name, tokens, flops, &plan, versions);
  plan.order = nullptr;
  if (unordered) bench.compare("the same, kv_head by kv_head", tokens, flops, &plan, false);
}

// The other head_dims, dense at 32k; the same memory, other pages.
void other_dims(Bench& bench, int dim) {
  constexpr int kTokens = 32768;
  const size_t page_bytes = static_cast<size_t>(KvLayout{dim, 2}.page_bytes(kPage));
  std::vector<const void*> table;
  for (int i = 0; i < kTokens / kPage * kKvHeads; ++i)
    table.push_back(bench.cache.memory + page_bytes * static_cast<size_t>(i));
  const void** const tables = device(table);
  std::vector<DeviceKvHead> heads;
  for (int i = 0; i < kKvHeads; ++i) heads.push_back({tables + i * (kTokens / kPage), nullptr, kTokens, 0, 0, 0});
  PrefillParams p = bench.params(kTokens, nullptr);
  p.q_stride = p.out_stride = kHeads * dim;
  p.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  p.kv = {DType::kBF16, dim, kPage, kKvHeads, device(heads)};
  const double flops = 4.0 * dim * kHeads * (static_cast<double>(kTokens) * (kTokens + 1) / 2);
  const double ms = median_ms([&] { (void)launch_prefill(bench.traits, p, nullptr); });
  std::printf("dense %d, head_dim %3d %50s %8.2f ms %5.0f TFLOP/s\n", kTokens, dim, "", ms, flops / ms / 1e9);
}

void decode(Bench& bench, int keys) {
  bench.cache.set_length(keys);
  DecodeParams p;
  p.q = bench.q;
  p.out = bench.out;
  p.q_stride = p.out_stride = kHeads * kDim;
  p.num_heads = kHeads;
  p.scale = 1.0f / std::sqrt(static_cast<float>(kDim));
  p.kv = bench.cache.view();
  const DeviceTraits& traits = bench.traits;
  const size_t bytes = decode_workspace_bytes(traits, p);
  p.workspace = device<uint8_t>(bytes);
  CHECK(cudaMemset(p.workspace, 0, bytes));
  constexpr int kCalls = 10;
  const double ms = median_ms([&] {
                      for (int i = 0; i < kCalls; ++i) (void)launch_decode(traits, p, nullptr);
                    }) /
                    kCalls;
  const double read = 2.0 * keys * kKvHeads * kDim * 2;
  std::printf("decode %6d keys %53s %8.4f ms %5.2f TB/s\n", keys, "", ms, read / ms / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  bool all = false;
  std::string recorded;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "versions") {
      all = true;
    } else if (std::string(argv[i]) == "--lists" && i + 1 < argc) {
      recorded = argv[++i];
    } else {
      std::printf("usage: attend_bench [versions] [--lists FILE]\n");
      return 2;
    }
  }
  Bench bench{*device_traits(0)};
  fill<<<1024, 256>>>(bench.q, size_t{131072} * kHeads * kDim, 77);
  CHECK(cudaDeviceSynchronize());
  for (const int tokens : {32768, 65536, 131072}) {
    const double flops = 4.0 * kDim * kHeads * (static_cast<double>(tokens) * (tokens + 1) / 2);
    bench.compare(("dense " + std::to_string(tokens)).c_str(), tokens, flops, nullptr, all);
  }
  for (const int block : {8, 16, 64})
    time_lists(bench, "drawn blocks", drawn_lists(131072, block, 0.1), block, all && block != 16, block == 8);
  if (!recorded.empty()) {
    const RecordedLists lists = RecordedLists::read(recorded);
    for (const int block : {8, 16, 32, 64})
      time_lists(bench, "recorded blocks", lists.in_blocks_of(block), block, false, false);
  }
  for (const int dim : {64, 96, 256}) other_dims(bench, dim);
  for (const int keys : {4096, 32768, 131072}) decode(bench, keys);
  const size_t bytes = size_t{1} << 30;
  const double ms = median_ms([&] { CHECK(cudaMemcpyAsync(bench.other, bench.out, bytes, cudaMemcpyDeviceToDevice)); });
  std::printf("copy of 1 GiB: %.2f TB/s, read and written\n", 2.0 * static_cast<double>(bytes) / ms / 1e9);
  return 0;
}
