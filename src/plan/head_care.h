// How carefully the blocks of one kv_head are rated: written by a policy, read by the kernels that rate them.
#pragma once

#include <cstdint>

namespace ei {

// Who asks for a token of a kv_head.
enum class Voices : uint8_t {
  kMean,      // the mean of the group's queries
  kHomeless,  // the heads of the group weighted by softmax over heads of -(own log-sum-exp): who finds least at home
  kEach,      // every head of the group for itself
};
constexpr int64_t num_voices(Voices voices, int64_t group) { return voices == Voices::kEach ? group : 1; }

struct HeadCare {
  bool latest = false;  // no products: the first block, then the latest ones
  int32_t rows = 0;     // of each voice only that many rows are asked, those with the largest wanting; 0: all
  int32_t blocks =
      0;  // and about that many blocks rated, those of the super-blocks that promise these rows most; 0: all
  Voices voices = Voices::kMean;
  bool probe = false;  // measure the shares of attention on a sample of rows
};

}  // namespace ei
