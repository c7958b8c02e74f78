// Keys with values: num, hex, line, pass, multi, mq, and the number half of none.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/result.h"
#include "eval/facts.h"
#include "eval/facts_draw.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

constexpr std::string_view kStatements[] = {"The special magic {w} for {k} is: {v}.",
                                            "Remember: the {w} of {k} is {v}.",
                                            "One of the special magic {w}s for {k} is: {v}."};
constexpr std::string_view kQuestions[] = {"What is the special magic {w} for {k}?", "What is the {w} of {k}?",
                                           "Tell me the {w} for {k}."};

std::string word_fill(std::string_view form, std::string_view noun, std::string_view key, std::string_view value = "") {
  return fill_form(form, {{"{w}", noun}, {"{k}", key}, {"{v}", value}});
}

int line_count(Random& random, const FactsRequest& request) {
  if (request.single) return 1;
  constexpr int kCounts[] = {4, 8, 16};
  const int count = pick<int>(random, kCounts);
  return std::min(request.few ? count / 4 : count, request.max_lines);
}

Facts make_keyed(Random& random, const FactsRequest& request, std::string_view noun) {
  const bool hex = noun == "code";
  const int count = line_count(random, request);
  const auto keys =
      distinct(random, count + 1, [&](Random& r) { return hex && r.below(2) == 0 ? random_hex(r) : random_key(r); });
  const auto values = distinct(random, count, hex ? random_hex : random_number);
  const std::string_view statement = pick<std::string_view>(random, kStatements);
  const std::string_view question = pick<std::string_view>(random, kQuestions);
  const size_t gold = gold_rank(request.depth, count);
  Facts facts;
  for (size_t i = 0; i < values.size(); ++i) facts.lines.push_back(word_fill(statement, noun, keys[i], values[i]));
  facts.gold = {gold};
  facts.question = word_fill(question, noun, keys[gold]);
  facts.answer = values[gold];
  facts.gold_strings = {values[gold]};
  return facts;
}

}  // namespace

Facts make_numbers(Random& random, const FactsRequest& request) { return make_keyed(random, request, "number"); }

Facts make_codes(Random& random, const FactsRequest& request) { return make_keyed(random, request, "code"); }

Facts make_register_lines(Random& random, const FactsRequest& request) {
  int count = request.single ? 1 : std::min(static_cast<int>(random.between(3, 12)), request.max_lines);
  if (request.few) count = random.below(2) == 0 ? 1 : 3;
  const auto first = static_cast<int>(random.between(1, 4999));
  const auto values = distinct(random, count, [](Random& r) { return random_digits(r, 5); });
  const size_t gold = gold_rank(request.depth, count);
  Facts facts;
  for (size_t i = 0; i < values.size(); ++i)
    facts.lines.push_back(
        str_format("line %d: REGISTER_CONTENT is <%s>", first + static_cast<int>(i), values[i].c_str()));
  facts.gold = {gold};
  facts.question = str_format("What is the REGISTER_CONTENT in line %d?", first + static_cast<int>(gold));
  facts.answer = values[gold];
  facts.gold_strings = {values[gold]};
  return facts;
}

Facts make_pass_key(Random& random, const FactsRequest&) {
  const std::string value = random_digits(random, 5);
  return {.lines = {"The pass key is " + value + ". Remember it. " + value + " is the pass key."},
          .gold = {0},
          .question = "What is the pass key?",
          .answer = value,
          .gold_strings = {value}};
}

Facts make_multi_values(Random& random, const FactsRequest& request) {
  // Few others: in half of the texts one or two keys with one value each.
  int num_keys = request.single ? 1 : std::clamp(request.max_lines / 4, 1, 4);
  if (request.few) num_keys = random.below(2) == 0 ? 1 : static_cast<int>(random.between(2, 3));
  const auto keys = distinct(random, num_keys, random_key);
  const auto values = distinct(random, 4 * num_keys, random_number);
  std::vector<std::pair<size_t, std::string>> entries;  // key index, value
  for (size_t key = 0; key < keys.size(); ++key) {
    auto count = static_cast<size_t>(random.between(2, 4));
    if (request.few) count = key == 0 ? static_cast<size_t>(std::min<int64_t>(random.between(2, 5), 4)) : 1;
    for (size_t i = 0; i < count; ++i) entries.emplace_back(key, values[4 * key + i]);
  }
  shuffle(random, entries);
  constexpr std::string_view kForms[] = {
      "What are all the special magic numbers for {k}?",
      "What are all the special magic numbers for {k} mentioned in the provided text?"};
  Facts facts;
  for (size_t i = 0; i < entries.size(); ++i) {
    facts.lines.push_back(word_fill(kStatements[2], "number", keys[entries[i].first], entries[i].second));
    if (entries[i].first != 0) continue;
    facts.gold.push_back(i);
    facts.gold_strings.push_back(entries[i].second);
  }
  facts.question = word_fill(pick<std::string_view>(random, kForms), "", keys[0]);
  facts.answer = join(facts.gold_strings, ", ");
  return facts;
}

Facts make_multi_queries(Random& random, const FactsRequest& request) {
  const bool only = request.single || request.few;
  const int count = std::clamp(only ? 4 : static_cast<int>(random.between(6, 12)), 2, request.max_lines);
  const auto keys = distinct(random, count, random_key);
  const auto values = distinct(random, count, random_number);
  const std::string_view statement = kStatements[random.below(2) == 0 ? 0 : 2];
  Facts facts;
  std::vector<size_t> asked(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    facts.lines.push_back(word_fill(statement, "number", keys[i], values[i]));
    asked[i] = i;
  }
  shuffle(random, asked);
  asked.resize(std::min(asked.size(), static_cast<size_t>(random.between(2, 4))));
  std::vector<std::string> names;
  for (size_t i : asked) {
    names.push_back(keys[i]);
    facts.gold_strings.push_back(values[i]);
  }
  facts.gold = asked;
  std::sort(facts.gold.begin(), facts.gold.end());
  const std::string last = names.back();
  names.pop_back();
  facts.question = "What are the special magic numbers for " + join(names, ", ") + " and " + last + "?";
  facts.answer = join(facts.gold_strings, ", ");
  return facts;
}

}  // namespace ei::eval
