// The shape of a GBNF grammar: what grammar_check.cpp reads and grammar_rules.cpp judges. Internal to the room.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace ei::text {

inline constexpr int kTerminal = -1;

// One element of a sequence: characters or a rule, perhaps repeated.
struct GrammarItem {
  int rule = kTerminal;
  uint64_t count = 1;      // how often at most, for bounded repetitions
  bool optional = false;   // may occur zero times
  bool unbounded = false;  // * + {m,}
  uint64_t weight = 1;     // elements in libllama's expansion
};

using GrammarSequence = std::vector<GrammarItem>;
struct GrammarRule {
  std::vector<GrammarSequence> alternatives;
  bool defined = false;
};

struct GrammarRules {
  std::vector<GrammarRule> rules;
  std::map<std::string, int, std::less<>> names;

  std::string name_of(int rule) const;
};

// Undefined rules, left recursion and the number of alternatives open at one point.
Status judge_rules(const GrammarRules& grammar);

}  // namespace ei::text
