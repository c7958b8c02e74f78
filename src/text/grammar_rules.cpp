#include "text/grammar_rules.h"

#include <algorithm>

namespace ei::text {
namespace {

constexpr uint64_t kMaxOpen = 10000;

// Which rules can match nothing: the least fixed point.
std::vector<bool> find_nullable(const GrammarRules& grammar) {
  std::vector<bool> nullable(grammar.rules.size(), false);
  const auto empty = [&](const GrammarItem& item) {
    return item.optional || (item.rule != kTerminal && nullable[static_cast<size_t>(item.rule)]);
  };
  for (bool changed = true; changed;) {
    changed = false;
    // Groups come after the rule that holds them, so going backwards settles most grammars in two passes.
    for (size_t rule = grammar.rules.size(); rule-- > 0;) {
      if (nullable[rule]) continue;
      const auto& alternatives = grammar.rules[rule].alternatives;
      nullable[rule] = std::any_of(alternatives.begin(), alternatives.end(), [&](const GrammarSequence& sequence) {
        return std::all_of(sequence.begin(), sequence.end(), empty);
      });
      changed |= nullable[rule];
    }
  }
  return nullable;
}

// Calls visit(item) for the items a sequence can begin with; returns whether the whole sequence can be empty.
template <typename Visit>
bool for_each_leftmost(const GrammarSequence& sequence, const std::vector<bool>& nullable, Visit visit) {
  for (const GrammarItem& item : sequence) {
    visit(item);
    const bool empty = item.optional || (item.rule != kTerminal && nullable[static_cast<size_t>(item.rule)]);
    if (!empty) return false;
  }
  return true;
}

}  // namespace

std::string GrammarRules::name_of(int rule) const {
  for (const auto& [name, id] : names) {
    if (id == rule) return name;
  }
  return "(a group)";
}

Status judge_rules(const GrammarRules& grammar) {
  const auto name_of = [&](size_t rule) { return grammar.name_of(static_cast<int>(rule)); };
  for (size_t rule = 0; rule < grammar.rules.size(); ++rule) {
    if (!grammar.rules[rule].defined) {
      return make_error(ErrorKind::kUsage, "grammar: rule '%s' is used but not defined", name_of(rule).c_str());
    }
  }
  const std::vector<bool> nullable = find_nullable(grammar);

  // Leftmost edges, then rules in the order in which everything they can begin with comes first (Kahn).
  const size_t count = grammar.rules.size();
  std::vector<std::vector<size_t>> begun_by(count);
  std::vector<size_t> waiting(count, 0);
  for (size_t rule = 0; rule < count; ++rule) {
    for (const GrammarSequence& sequence : grammar.rules[rule].alternatives) {
      bool empty_repeat = false;
      for_each_leftmost(sequence, nullable, [&](const GrammarItem& item) {
        if (item.rule == kTerminal) return;
        begun_by[static_cast<size_t>(item.rule)].push_back(rule);
        ++waiting[rule];
      });
      for (const GrammarItem& item : sequence) {
        empty_repeat |= item.unbounded && item.rule != kTerminal && nullable[static_cast<size_t>(item.rule)];
      }
      if (empty_repeat) {
        return make_error(ErrorKind::kUsage, "grammar: rule '%s' repeats without end what may be empty",
                          name_of(rule).c_str());
      }
    }
  }
  std::vector<size_t> order;
  for (size_t rule = 0; rule < count; ++rule) {
    if (waiting[rule] == 0) order.push_back(rule);
  }
  std::vector<uint64_t> open(count, 0);  // ways a rule can begin
  for (size_t next = 0; next < order.size(); ++next) {
    const size_t rule = order[next];
    for (const GrammarSequence& sequence : grammar.rules[rule].alternatives) {
      const bool empty = for_each_leftmost(sequence, nullable, [&](const GrammarItem& item) {
        if (item.rule == kTerminal) {
          ++open[rule];
          return;
        }
        const auto target = static_cast<size_t>(item.rule);
        open[rule] += open[target] * (nullable[target] ? item.count : 1);
      });
      open[rule] += empty ? 1 : 0;
      if (open[rule] > kMaxOpen) {
        return make_error(ErrorKind::kUsage, "grammar: rule '%s' can begin in more than %llu ways",
                          name_of(rule).c_str(), static_cast<unsigned long long>(kMaxOpen));
      }
    }
    for (const size_t user : begun_by[rule]) {
      if (--waiting[user] == 0) order.push_back(user);
    }
  }
  if (order.size() == count) return {};
  const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](size_t left) { return left > 0; });
  return make_error(ErrorKind::kUsage, "grammar: rule '%s' is left-recursive",
                    name_of(static_cast<size_t>(stuck - waiting.begin())).c_str());
}

}  // namespace ei::text
