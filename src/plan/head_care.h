// How carefully the blocks of one kv_head are rated: written by a policy, read by the kernels that rate them.
#pragma once

#include <cstdint>

namespace ei {

struct HeadCare {
  bool latest = false;  // no products: the first block, then the latest ones
  int32_t rows = 0;     // only that many rows are asked, those with the largest wanting; 0: all
  int32_t blocks =
      0;  // and about that many blocks rated, those of the super-blocks that promise these rows most; 0: all
  bool homeless = false;  // ask with the heads of the group weighted by softmax over heads of -(own log-sum-exp)
  bool probe = false;     // measure the shares of attention on a sample of rows
};

}  // namespace ei
