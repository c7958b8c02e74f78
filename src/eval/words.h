// Seeded names, keys and values for planted facts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/random.h"

namespace ei::eval {

std::string random_digits(Random& random, int digits);  // no leading zero
std::string random_number(Random& random);              // 5 to 7 digits
std::string random_hex(Random& random);                 // 8 hexadecimal digits
std::string random_clock(Random& random);               // 0:00 to 23:59
std::string random_word(Random& random);
std::string random_key(Random& random);       // "pale-river"
std::string random_place(Random& random);     // "Tarano"
std::string random_person(Random& random);    // "Ada Tarano"
std::string random_variable(Random& random);  // five capital letters

template <typename T>
const T& pick(Random& random, std::span<const T> options) {
  return options[static_cast<size_t>(random.below(static_cast<int64_t>(options.size())))];
}

}  // namespace ei::eval
