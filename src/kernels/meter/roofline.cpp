#include "kernels/meter/roofline.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kernels/meter/cpu/roofline_loops.h"

namespace ei::kernels {
namespace {

std::vector<ThroughputLoop> loops() {
  return {
#if defined(__aarch64__)
    neonbf16_throughput_loop(), neonfp16_throughput_loop(), neon_throughput_loop(),
#elif defined(__x86_64__)
    amx_throughput_loop(), avx512bf16_throughput_loop(), avx512_throughput_loop(), avx2_throughput_loop(),
#endif
  };
}

// Seconds that `work` takes when all threads start it together. Throws std::system_error, with nothing left running,
// when one cannot be started.
double timed(int threads, const std::function<void(int)>& work) {
  std::atomic<int> waiting{threads};
  std::atomic<bool> given_up{false};
  std::vector<double> elapsed(static_cast<size_t>(threads));
  const auto body = [&](int index) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    if (given_up.load()) return;
    const double start = now_s();
    work(index);
    elapsed[static_cast<size_t>(index)] = now_s() - start;
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<size_t>(threads));
  try {
    for (int index = 1; index < threads; ++index) others.emplace_back(body, index);
  } catch (const std::system_error&) {
    given_up.store(true);
    waiting.store(0);
    for (std::thread& thread : others) thread.join();
    throw;
  }
  body(0);
  for (std::thread& thread : others) thread.join();
  return *std::max_element(elapsed.begin(), elapsed.end());
}

double flops_of(const ThroughputLoop& loop, int threads) {
  // Many runs well below a scheduler's time slice: the best is undisturbed even on a busy machine.
  constexpr int64_t kRounds = 50'000;
  constexpr int kRepeats = 200;
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double seconds = timed(threads, [&](int) { loop.run(kRounds); });
    best = std::max(best, loop.run(1) * static_cast<double>(kRounds) * threads / seconds);
  }
  return best;
}

double read_bandwidth(int threads) {
  // Together larger than any last-level cache in use, walked in windows that take about a millisecond each.
  const size_t words = (size_t{512} << 20) / sizeof(uint64_t) / static_cast<size_t>(threads);
  const size_t window = std::min(words, (size_t{16} << 20) / sizeof(uint64_t));
  std::vector<std::vector<uint64_t>> memory(static_cast<size_t>(threads));
  for (std::vector<uint64_t>& own : memory) own.reserve(words);  // where a failure can be caught
  timed(threads, [&](int index) { memory[static_cast<size_t>(index)].assign(words, 1); });
  std::atomic<uint64_t> sink{0};
  double best = 0;
  for (size_t begin = 0; begin + window <= words; begin += window) {
    const double seconds = timed(threads, [&](int index) {
      const uint64_t* own = memory[static_cast<size_t>(index)].data() + begin;
      uint64_t sums[8] = {};
      for (size_t i = 0; i + 8 <= window; i += 8) {
        for (size_t j = 0; j < 8; ++j) sums[j] += own[i + j];
      }
      for (const uint64_t sum : sums) sink.fetch_add(sum, std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(window * sizeof(uint64_t)) * threads / seconds);
  }
  return best;
}

}  // namespace

Result<Roofline> measure_roofline(int threads) try {
  Roofline roofline;
  for (const ThroughputLoop& loop : loops()) {
    if (!loop.usable()) continue;
    double& best = loop.bf16 ? roofline.bf16_flops : roofline.fp32_flops;
    best = std::max(best, flops_of(loop, threads));
  }
  roofline.read_bytes_per_s = read_bandwidth(threads);
  return roofline;
} catch (const std::system_error& error) {
  return make_error(ErrorKind::kMemory, "could not start %d threads (%s); lower --threads", threads,
                    error.code().message().c_str());
} catch (const std::bad_alloc&) {
  return Error{ErrorKind::kMemory, "out of memory: measuring the memory's speed takes 512 MiB"};
}

}  // namespace ei::kernels
