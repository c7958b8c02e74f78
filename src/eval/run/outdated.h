// Which results on disk are not of the items and methods that a run asks for, though they have their names.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "eval/items/source.h"
#include "eval/run/generation.h"
#include "eval/run/result_file.h"

namespace ei::eval {

struct Outdated {
  int64_t of_other_items = 0;
  int64_t of_other_options = 0;

  int64_t all() const { return of_other_items + of_other_options; }
};

// Drops them from the file. A task and length of which one item is another one came from elsewhere, so what is there of
// it beyond the items of `source` goes too.
Result<Outdated> drop_outdated(ResultFile& file, const ItemSource& source, std::span<const MethodSpec> methods);

}  // namespace ei::eval
