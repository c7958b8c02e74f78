// Tensor cores and asynchronous copies on the host: what kernels are given as `Tools` behind block.h.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "kernels/cuda/elements.cuh"

namespace emulated {

struct TensorTools {
  // Copies are made when they are waited for, and no earlier.
  static void copy(void* to, const void* from, bool take) { open()[threadIdx.x].push_back({to, from, take}); }
  static void commit() { groups()[threadIdx.x].push_back(std::exchange(open()[threadIdx.x], {})); }
  template <int kPending>
  static void wait() {
    auto& own = groups()[threadIdx.x];
    for (; own.size() > kPending; own.pop_front()) {
      for (const Copy& one : own.front()) {
        if (one.take) std::memcpy(one.to, one.from, 16);
        if (!one.take) std::memset(one.to, 0, 16);
      }
    }
  }
  // Were all copies waited for?
  static bool all_waited_for() {
    for (size_t i = 0; i < groups().size(); ++i)
      if (!groups()[i].empty() || !open()[i].empty()) return false;
    return true;
  }

  // mma.sync.m16n8k32 with 8 bits: a fragment's word r + 2 h has row lane / 4 + 8 r, columns 16 h + 4 (lane % 4).
  static void multiply(int32_t* sums, const uint32_t* a, uint32_t b0, uint32_t b1) {
    exchange(a, b0, b1);
    for_sums([&](int i, unsigned row, unsigned column) {
      for (unsigned k = 0; k < 32; ++k) {
        const uint32_t left = words()[first_lane() + row % 8 * 4 + k % 16 / 4][k / 16 * 2 + row / 8];
        const uint32_t right = words()[first_lane() + column * 4 + k % 16 / 4][4 + k / 16];
        sums[i] += int32_t{static_cast<int8_t>(left >> (k % 4 * 8))} * static_cast<int8_t>(right >> (k % 4 * 8));
      }
    });
    Block::wait_for_warp();
  }
  // mma.sync.m16n8k16 with 16 bits.
  template <typename T>
  static void multiply(float* sums, const uint32_t* a, uint32_t b0, uint32_t b1) {
    exchange(a, b0, b1);
    const auto element = [](uint32_t word, unsigned k) {
      return ei::kernels::cuda::to_float(std::bit_cast<T>(static_cast<uint16_t>(word >> (k % 2 * 16))));
    };
    for_sums([&](int i, unsigned row, unsigned column) {
      for (unsigned k = 0; k < 16; ++k)
        sums[i] += element(words()[first_lane() + row % 8 * 4 + k % 8 / 2][k / 8 * 2 + row / 8], k) *
                   element(words()[first_lane() + column * 4 + k % 8 / 2][4 + k / 8], k);
    });
    Block::wait_for_warp();
  }
  static float exp2(float x) { return std::exp2(x); }

 private:
  struct Copy {
    void* to;
    const void* from;
    bool take;
  };
  static constexpr size_t kMostThreads = 1024;
  static std::array<std::vector<Copy>, kMostThreads>& open() {
    static std::array<std::vector<Copy>, kMostThreads> copies;
    return copies;
  }
  static std::array<std::deque<std::vector<Copy>>, kMostThreads>& groups() {
    static std::array<std::deque<std::vector<Copy>>, kMostThreads> copies;
    return copies;
  }
  static std::array<std::array<uint32_t, 6>, kMostThreads>& words() {
    static std::array<std::array<uint32_t, 6>, kMostThreads> of_threads;
    return of_threads;
  }
  static unsigned first_lane() { return threadIdx.x / 32 * 32; }
  static void exchange(const uint32_t* a, uint32_t b0, uint32_t b1) {
    words()[threadIdx.x] = {a[0], a[1], a[2], a[3], b0, b1};
    Block::wait_for_warp();
  }
  template <typename Use>
  static void for_sums(Use use) {
    const unsigned lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i)
      use(i, lane / 4 + static_cast<unsigned>(i) / 2 * 8, lane % 4 * 2 + static_cast<unsigned>(i) % 2);
  }
};

}  // namespace emulated
