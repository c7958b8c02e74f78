// The grammar behind Prose: named rules whose options hold text and {slots} that other rules fill.
#pragma once

#include <span>
#include <string_view>

namespace ei::eval {

struct ProseRule {
  std::string_view name;
  std::string_view options;  // separated by '|'
};

// Words and short phrases: goods, rooms, roads, manners, seasons.
std::span<const ProseRule> prose_lexicon();
// Clauses built from them: what people do, think and say, what the weather does.
std::span<const ProseRule> prose_clauses();
// One rule per kind of scene; an option is a whole sentence.
std::span<const ProseRule> prose_scenes();

}  // namespace ei::eval
