// Expected attention: how much of their attention the queries of the next positions will give to every slot, if they
// are distributed as the observed ones. Made like key_measure.h's.
//
// A query before its rotation is taken as normal, q ~ N(mu, S). At position p it is R_p q; over the next positions R is
// replaced by its mean M. Then the expectation of exp(scale q . k) has a closed form, and
//   expected[slot] = softmax over slots of (scale M mu . k + scale^2 / 2 k^T M S M^T k), times |v|.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "tensor/rope.h"

namespace ei::kv {

// How a layer rotates its queries and keys.
struct LayerRope {
  const Rope* rope = nullptr;
  int32_t dims = 0;
  bool interleaved = false;
};

struct ExpectedParams {
  std::span<const float> queries;      // [rows, heads, head_dim], rotated
  std::span<const int32_t> positions;  // [rows], where they stood
  int32_t heads = 0;
  float scale = 0;
  LayerRope rope;
  int32_t next_position = 0;
  KvView kv;
  int64_t stride = 0;  // of the result
};

inline constexpr int32_t kExpectedPositions = 512;  // as published: over so many of the next ones

// [heads, stride]
Result<std::vector<float>> expected_attention(const Backend& backend, const ExpectedParams& params);
Result<std::vector<float>> expected_attention(Stream& stream, const ExpectedParams& params);
// Enqueued on a stream that measures slots, into its memory.
void expect_attention(Stream& stream, const ExpectedParams& params, float* out);

}  // namespace ei::kv
