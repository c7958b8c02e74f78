// The vector of bytes of row_peaks_lanes.h as plain loops, for tests on machines without VNNI.
#pragma once

#include <cstdint>
#include <cstring>

namespace ei::kernels {

struct BytesEmulated {
  int32_t lane[16];

  static BytesEmulated load(const void* from) {
    BytesEmulated loaded;
    std::memcpy(loaded.lane, from, sizeof loaded.lane);
    return loaded;
  }
  static BytesEmulated set1(int32_t value) {
    BytesEmulated all;
    for (int32_t& one : all.lane) one = value;
    return all;
  }
  static BytesEmulated flip(BytesEmulated bytes) {
    for (int32_t& one : bytes.lane) one ^= static_cast<int32_t>(0x80808080u);
    return bytes;
  }
  static BytesEmulated dot(BytesEmulated sums, const BytesEmulated& a, const BytesEmulated& b) {
    uint8_t left[64];
    int8_t right[64];
    std::memcpy(left, a.lane, sizeof left);
    std::memcpy(right, b.lane, sizeof right);
    for (int i = 0; i < 64; ++i) sums.lane[i / 4] += left[i] * right[i];
    return sums;
  }
  static BytesEmulated max(BytesEmulated a, const BytesEmulated& b) {
    for (int i = 0; i < 16; ++i) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
  }
  void store(int32_t* to) const { std::memcpy(to, lane, sizeof lane); }
  void store_floats(float* to) const {
    for (int i = 0; i < 16; ++i) to[i] = static_cast<float>(lane[i]);
  }
};

}  // namespace ei::kernels
