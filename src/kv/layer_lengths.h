// How many slots the kv_heads of a layer hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/kv_view.h"

namespace ei::kv {

inline std::vector<int64_t> lengths_of(const KvView& view) {
  std::vector<int64_t> lengths;
  for (const KvHeadView& head : view.heads) lengths.push_back(head.length);
  return lengths;
}

inline int64_t longest_head(const KvView& view) {
  int64_t length = 0;
  for (const KvHeadView& head : view.heads) length = std::max(length, head.length);
  return length;
}

// Do all kv_heads hold the same positions?
inline bool aligned(const KvView& view) {
  const KvHeadView& first = view.heads.front();
  return std::all_of(view.heads.begin(), view.heads.end(), [&](const KvHeadView& head) {
    return head.length == first.length && head.listed == first.listed && head.tail_position == first.tail_position &&
           std::equal(head.listed_positions, head.listed_positions + head.listed, first.listed_positions);
  });
}

}  // namespace ei::kv
