// A model file whose kv_heads stand in another order: the same function of a text, so whatever a method decides must
// come out in that order as well.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ei::testing {

struct HeadShape {
  int64_t kv_heads = 0;
  int64_t group = 0;  // query heads of each
  int64_t head_dim = 0;
};

// Rewrites the file so that each output of attention's last matrix is made from one kv_head alone. Sums over columns
// then do not depend on the order of the kv_heads, to the last bit. For types whose zero is zero bytes.
void separate_kv_heads(const std::string& path, const HeadShape& shape);
// Writes the file at `from` to `to` with kv_head order[h] at place h: rows and biases of Q, K and V, columns of the
// output matrix.
void permute_kv_heads(const std::string& from, const std::string& to, const HeadShape& shape,
                      std::span<const int64_t> order);
// Writes the file at `from` to `to` with every query head of the first layer asking what head `member` of its group
// does. Keys and what precedes them stay as they were, so its attention in that layer is that head's.
void repeat_query_head(const std::string& from, const std::string& to, const HeadShape& shape, int64_t member);

}  // namespace ei::testing
