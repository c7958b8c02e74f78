// The texts that generators hide things in.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "eval/items/item.h"

namespace ei::eval {

// What stands around the facts of an item, beside its context.
struct ItemFrame {
  std::string head;  // in front of the text
  std::string tail;  // question and lead, only to be counted
  int64_t max_new = 0;
  size_t turns = 1;
};

struct PlacedLine {
  std::string line;
  double depth = 0;  // share of the text in front of it
};

// The same few sentences again and again, with the lines in between, as long as the room allows.
Result<std::string> fill_with_noise(const ItemRequest& request, const ItemFrame& frame, std::vector<PlacedLine> lines);
// Prose, ours or the request's, likewise.
Result<std::string> fill_with_prose(const ItemRequest& request, const ItemFrame& frame, uint64_t seed,
                                    std::vector<PlacedLine> lines);
// As many lines as fit, made one by one; one of them, at the depth of the request, is `gold`.
Result<std::string> fill_with_lines(const ItemRequest& request, const ItemFrame& frame, const std::string& gold,
                                    const std::function<std::string(size_t index)>& line);

std::string random_uuid(Random& random);      // version 4
std::string random_compound(Random& random);  // "moonstone"

}  // namespace ei::eval
