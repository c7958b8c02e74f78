// Facts that need their neighbours: chains of assignments (var, rev) and lists.
#include <algorithm>
#include <utility>

#include "base/result.h"
#include "eval/facts.h"
#include "eval/facts_draw.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

struct Chains {
  std::vector<std::string> values;              // [chains]
  std::vector<std::vector<std::string>> names;  // [chains][links]
};

Chains draw_chains(Random& random, const std::vector<size_t>& links) {
  size_t total = 0;
  for (size_t count : links) total += count;
  auto names = distinct(random, static_cast<int>(total), random_variable);
  Chains chains;
  chains.values = distinct(random, static_cast<int>(links.size()), [](Random& r) { return random_digits(r, 5); });
  auto next = names.begin();
  for (size_t count : links) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    chains.names.emplace_back(next, end);
    next = end;
  }
  return chains;
}

// What stands to the right of the name: a value, or the name before it.
std::string source_of(const Chains& chains, size_t chain, size_t link) {
  return link == 0 ? chains.values[chain] : "VAR " + chains.names[chain][link - 1];
}

std::string assignment(const Chains& chains, size_t chain, size_t link) {
  return "VAR " + chains.names[chain][link] + " = " + source_of(chains, chain, link) + ".";
}

Facts reverse_key(Random& random, const FactsRequest& request) {
  const int count = request.single ? 1 : std::min(4, request.max_lines);
  const auto keys = distinct(random, count, random_key);
  const auto values = distinct(random, count, random_number);
  const size_t gold = gold_rank(request.depth, count);
  Facts facts;
  for (size_t i = 0; i < keys.size(); ++i)
    facts.lines.push_back("The special magic number for " + keys[i] + " is: " + values[i] + ".");
  facts.gold = {gold};
  facts.question = "Which key has the special magic number " + values[gold] + "?";
  facts.answer = " " + keys[gold];
  facts.gold_strings = {keys[gold]};
  return facts;
}

}  // namespace

Facts make_chains(Random& random, const FactsRequest& request) {
  constexpr size_t kNames = 5;
  int num_chains = request.single ? 1 : std::clamp(static_cast<int>(request.max_lines / kNames), 1, 3);
  if (request.few) num_chains = static_cast<int>(std::max<int64_t>(1, random.between(0, 3)));
  const std::vector<size_t> links(static_cast<size_t>(num_chains), kNames);
  const Chains chains = draw_chains(random, links);
  Facts facts;
  for (const auto& [chain, link] : interleave(random, links)) {
    if (chain == 0) facts.gold.push_back(facts.lines.size());
    facts.lines.push_back(assignment(chains, chain, link));
  }
  constexpr std::string_view kForms[] = {"Find all variables that are assigned the value {v}.",
                                         "Find all variables that are assigned the value {v} in the text above."};
  facts.question = fill_form(pick<std::string_view>(random, kForms), {{"{v}", chains.values[0]}});
  facts.gold_strings = chains.names[0];
  facts.answer = str_format(" %s", join(facts.gold_strings, ", ").c_str());
  return facts;
}

Facts make_reverse(Random& random, const FactsRequest& request) {
  if (random.below(4) == 0) return reverse_key(random, request);
  std::vector<size_t> links = {static_cast<size_t>(random.between(1, 4))};
  if (!request.single && request.max_lines >= 8) links.push_back(static_cast<size_t>(random.between(1, 4)));
  const Chains chains = draw_chains(random, links);
  const auto order = interleave(random, links);
  const size_t gold = gold_rank(request.depth, static_cast<int>(order.size()));
  Facts facts;
  for (const auto& [chain, link] : order) facts.lines.push_back(assignment(chains, chain, link));
  const auto [chain, link] = order[gold];
  facts.gold = {gold};
  facts.question =
      "Which variable is assigned " + std::string(link == 0 ? "the value " : "") + source_of(chains, chain, link) + "?";
  facts.answer = " " + chains.names[chain][link];
  facts.gold_strings = {chains.names[chain][link]};
  return facts;
}

Facts make_list(Random& random, const FactsRequest& request) {
  using Nouns = std::pair<std::string_view, std::string_view>;
  std::vector<Nouns> nouns = {{"station", "code"},      {"ship", "tonnage"}, {"room", "key"},    {"garden", "plot"},
                              {"bell", "weight"},       {"lamp", "number"},  {"bridge", "toll"}, {"mill", "output"},
                              {"regiment", "strength"}, {"inn", "licence"}};
  constexpr std::string_view kStatements[] = {"The {b} of {a} {k} is {v}.", "{A} {k} has the {b} {v}.",
                                              "For {a} {k} the {b} is {v}."};
  constexpr std::string_view kQuestions[] = {"List every {a} and its {b}.", "Name all {a}s with their {b}s.",
                                             "Give the {b} of every {a}, in order."};
  shuffle(random, nouns);
  // Long texts hold 4 to 10 items: with three the embedded model, trained on four at least, says the last one twice.
  const int fewest = request.max_lines >= 8 ? 4 : 3;
  const int most = std::clamp(request.max_lines / 2, fewest, 10);
  std::vector<size_t> lengths = {static_cast<size_t>(random.between(fewest, most))};
  if (!request.single && !request.few && request.max_lines >= 16)
    lengths.push_back(static_cast<size_t>(random.between(fewest, most)));
  std::vector<std::vector<std::string>> places;
  places.reserve(lengths.size());
  for (size_t length : lengths) places.push_back(distinct(random, static_cast<int>(length), random_place));
  const std::string_view statement = pick<std::string_view>(random, kStatements);
  const auto order = interleave(random, lengths);
  const auto values = distinct(random, static_cast<int>(order.size()),
                               [](Random& r) { return random_digits(r, static_cast<int>(r.between(3, 5))); });
  Facts facts;
  for (const auto& [list, item] : order) {
    const auto [a, b] = nouns[list];
    std::string capital(a);
    capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
    const std::string& place = places[list][item];
    const std::string& value = values[facts.lines.size()];
    if (list == 0) {
      facts.gold.push_back(facts.lines.size());
      facts.gold_strings.push_back(place + ": " + value);
    }
    facts.lines.push_back(
        fill_form(statement, {{"{a}", a}, {"{A}", capital}, {"{b}", b}, {"{k}", place}, {"{v}", value}}));
  }
  facts.question =
      fill_form(pick<std::string_view>(random, kQuestions), {{"{a}", nouns[0].first}, {"{b}", nouns[0].second}});
  facts.answer = str_format(" %s.", join(facts.gold_strings, "; ").c_str());
  return facts;
}

}  // namespace ei::eval
