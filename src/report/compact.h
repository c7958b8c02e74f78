// Compact forms of what a page shows: levels in runs, positions in runs, both as base64 text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/kv_view.h"

namespace ei::report {

std::string base64(std::span<const uint8_t> bytes);

// Levels 0 to 15: one byte for up to 16 equal ones in a row, (level << 4) + (count - 1).
std::vector<uint8_t> level_runs(std::span<const uint8_t> levels);

// The positions a kv_head still holds: pairs (positions skipped, positions held), each number in groups of 7 bits, the
// lowest first, with the high bit set on all but the last.
std::vector<uint8_t> position_runs(const KvHeadView& head);

}  // namespace ei::report
