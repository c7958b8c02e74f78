// Shared draws of the fact generators: distinct names, shuffles, filled forms.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"

namespace ei::eval {

// `count` different strings from `draw`.
template <typename Draw>
std::vector<std::string> distinct(Random& random, int count, Draw draw) {
  std::vector<std::string> items;
  while (static_cast<int>(items.size()) < count) {
    std::string item = draw(random);
    if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(std::move(item));
  }
  return items;
}

template <typename T>
void shuffle(Random& random, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
}

// Of `count` facts spread evenly, the one that stands at `depth`.
inline size_t gold_rank(double depth, int count) {
  return static_cast<size_t>(std::clamp(static_cast<int>(depth * count), 0, count - 1));
}

// Replaces every name such as "{k}" by its text.
std::string fill_form(std::string_view form,
                      std::initializer_list<std::pair<std::string_view, std::string_view>> values);

// Merges sequences in random turns; each keeps its own order.
std::vector<std::pair<size_t, size_t>> interleave(Random& random, const std::vector<size_t>& lengths);

}  // namespace ei::eval
