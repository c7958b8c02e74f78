// What a KV compression measures: the contract shared by the reference and its fast twins.
#pragma once

#include <cstdint>

#include "plan/kv_view.h"

namespace ei::kernels {

// Mean attention of the recorded queries to every slot of the cache: softmax over the slots whose position is not
// behind the query's, then the mean over the window. A slot that no query sees has 0. And, where asked for, how spread
// it is: the entropy of each query's attention, in nats, then the mean over the window; of a query that sees nothing 0.
struct WindowScoreParams {
  const float* q = nullptr;            // [window, num_heads, head_dim], already rotated
  int64_t q_stride = 0;                // floats between two queries
  const int32_t* positions = nullptr;  // [window], where the queries stand in the text
  int64_t window = 0;
  int32_t num_heads = 0;  // a multiple of kv.heads.size()
  float scale = 0;
  KvView kv;
  float* scores = nullptr;   // [num_heads, score_stride]: the first kv.heads[h / group].length of each row are written
  int64_t score_stride = 0;  // at least the longest kv_head
  float* entropy = nullptr;  // [num_heads]; null: not wanted
};

}  // namespace ei::kernels
