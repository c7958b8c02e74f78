// Kinds of everyday facts, each in several wordings, for the `para` and `none` tasks.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace ei::eval {

enum class KeyKind { kPlace, kPerson, kWordPair };
enum class ValueKind { kNumber, kWord, kClock };

inline constexpr int kKnownWordings = 4;  // the embedded model has seen these
inline constexpr int kWordings = 5;       // the last one was held out of its training, in statement and in question

struct ParaFact {
  ValueKind value = ValueKind::kNumber;
  KeyKind key = KeyKind::kPlace;
  std::array<std::string_view, kWordings> statements;  // with {k} and {v}
  std::array<std::string_view, kWordings> questions;   // with {k}
};

std::span<const ParaFact> para_facts();

}  // namespace ei::eval
