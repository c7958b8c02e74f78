// Which rows of a chunk need logits. The logits of all of a chunk's rows at once would be tokens x vocabulary floats,
// so they are computed in pieces of bounded size, and only those that somebody wants.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/scratch_slot.h"

namespace ei {

extern const ScratchSlot kLogitsSlot;

struct WantedRows {
  int64_t tail = 0;           // rows of the chunk from the first wanted one on: these are computed to their end
  std::vector<int64_t> rows;  // the wanted ones among them, counted from the first, ascending
};
// Of `count` rows those that `wanted` names.
WantedRows wanted_rows(int64_t count, const std::function<bool(int64_t row)>& wanted);

// How many of `rows` (ascending, from 0) follow each other without a gap, at most `most`.
int64_t leading_run(std::span<const int64_t> rows, int64_t most);

// Rows of logits that are computed together.
int64_t logits_together(int64_t vocab);

}  // namespace ei
