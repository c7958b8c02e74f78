// A block of GPU threads on the host: each thread a fiber, barriers and shuffles as the hardware has them. So code of a
// kernel that is included behind this header runs where there is no GPU.
#pragma once

#include <ucontext.h>

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace emulated {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Barrier {
  int64_t turn = 0;
  unsigned arrived = 0;
};

class Block {
 public:
  // Calls `kernel` in `threads` threads, all of one block, until each has returned.
  static void run(unsigned threads, std::function<void()> kernel);
  static void wait_for_all() { wait(all_, size_); }
  static void wait_for_warp();
  static float exchange(float value, int mask);
  // The values of a warp's 32 threads.
  static std::array<uint32_t, 32> gather(uint32_t value);

 private:
  static void wait(Barrier& barrier, unsigned count);
  static void enter();

  static inline std::function<void()> kernel_;
  static inline unsigned size_ = 0;
  static inline unsigned current_ = 0;
  static inline ucontext_t scheduler_;
  static inline std::vector<ucontext_t> fibers_;
  static inline std::vector<char> returned_;
  static inline Barrier all_;
  static inline std::array<Barrier, 32> warps_;
  static inline std::array<float, 1024> values_;
  static inline std::array<uint32_t, 1024> words_;
};

}  // namespace emulated

// Names of the hardware's.
inline emulated::Index threadIdx, blockIdx, blockDim, gridDim;
inline void __syncthreads() { emulated::Block::wait_for_all(); }
inline float __shfl_xor_sync(unsigned, float value, int mask) { return emulated::Block::exchange(value, mask); }
inline uint32_t __shfl_up_sync(unsigned, uint32_t value, int step) {
  const unsigned lane = threadIdx.x % 32;
  const auto all = emulated::Block::gather(value);
  return lane >= static_cast<unsigned>(step) ? all[lane - static_cast<unsigned>(step)] : value;
}
inline int32_t __shfl_down_sync(unsigned, int32_t value, int step) {
  const unsigned lane = threadIdx.x % 32;
  const auto all = emulated::Block::gather(static_cast<uint32_t>(value));
  const unsigned from = lane + static_cast<unsigned>(step);
  return from < 32 ? static_cast<int32_t>(all[from]) : value;
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const auto all = emulated::Block::gather(vote ? 1 : 0);
  unsigned mask = 0;
  for (unsigned i = 0; i < 32; ++i) mask |= all[i] << i;
  return mask;
}
inline unsigned __match_any_sync(unsigned, int value) {
  const auto all = emulated::Block::gather(static_cast<uint32_t>(value));
  unsigned mask = 0;
  for (unsigned i = 0; i < 32; ++i) mask |= (all[i] == static_cast<uint32_t>(value) ? 1u : 0u) << i;
  return mask;
}
inline int32_t __reduce_add_sync(unsigned, int32_t value) {
  uint32_t sum = 0;
  for (const uint32_t one : emulated::Block::gather(static_cast<uint32_t>(value))) sum += one;
  return static_cast<int32_t>(sum);
}
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __uint_as_float(uint32_t value) { return std::bit_cast<float>(value); }
inline int32_t atomicAdd(int32_t* at, int32_t value) { return std::exchange(*at, *at + value); }
inline uint32_t atomicMax(uint32_t* at, uint32_t value) { return std::exchange(*at, *at > value ? *at : value); }
template <typename T>
T __ldcs(const T* from) {
  return *from;
}

namespace emulated {

inline void Block::run(unsigned threads, std::function<void()> kernel) {
  constexpr size_t kStack = size_t{64} << 10;
  kernel_ = std::move(kernel);
  size_ = blockDim.x = threads;
  all_ = {};
  warps_ = {};
  fibers_.assign(threads, {});
  returned_.assign(threads, 0);
  std::vector<std::vector<char>> stacks(threads, std::vector<char>(kStack));
  for (unsigned i = 0; i < threads; ++i) {
    getcontext(&fibers_[i]);
    fibers_[i].uc_stack.ss_sp = stacks[i].data();
    fibers_[i].uc_stack.ss_size = kStack;
    fibers_[i].uc_link = &scheduler_;
    makecontext(&fibers_[i], enter, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (unsigned i = 0; i < threads; ++i) {
      if (returned_[i] != 0) continue;
      any = true;
      current_ = threadIdx.x = i;
      swapcontext(&scheduler_, &fibers_[i]);
    }
  }
}

inline void Block::enter() {
  kernel_();
  returned_[current_] = 1;
}

inline void Block::wait(Barrier& barrier, unsigned count) {
  const int64_t turn = barrier.turn;
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    ++barrier.turn;
  }
  while (barrier.turn == turn) swapcontext(&fibers_[current_], &scheduler_);
}

inline void Block::wait_for_warp() { wait(warps_[threadIdx.x / 32], 32); }

inline float Block::exchange(float value, int mask) {
  Barrier& warp = warps_[threadIdx.x / 32];
  values_[threadIdx.x] = value;
  wait(warp, 32);
  const float other = values_[threadIdx.x ^ static_cast<unsigned>(mask)];
  wait(warp, 32);
  return other;
}

inline std::array<uint32_t, 32> Block::gather(uint32_t value) {
  Barrier& warp = warps_[threadIdx.x / 32];
  words_[threadIdx.x] = value;
  wait(warp, 32);
  std::array<uint32_t, 32> all{};
  for (unsigned i = 0; i < 32; ++i) all[i] = words_[threadIdx.x / 32 * 32 + i];
  wait(warp, 32);
  return all;
}

}  // namespace emulated
