// Everyday facts in several wordings (para), and questions whose fact is not in the text (none).
#include <algorithm>

#include "eval/facts.h"
#include "eval/facts_draw.h"
#include "eval/para_facts.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

std::string draw_key(Random& random, KeyKind kind) {
  switch (kind) {
    case KeyKind::kPlace: return random_place(random);
    case KeyKind::kPerson: return random_person(random);
    case KeyKind::kWordPair: break;
  }
  return random_key(random);
}

std::string draw_value(Random& random, ValueKind kind) {
  switch (kind) {
    case ValueKind::kNumber: return random_digits(random, static_cast<int>(random.between(3, 6)));
    case ValueKind::kWord: return random_word(random);
    case ValueKind::kClock: break;
  }
  return random_clock(random);
}

struct Everyday {
  const ParaFact* form = nullptr;
  std::string key;
  std::string value;
};

bool same_subject(const Everyday& a, const Everyday& b) { return a.form == b.form && a.key == b.key; }

// Facts of random kinds; about a third speak of the same person or place as the one before.
std::vector<Everyday> draw_everyday(Random& random, int count) {
  std::vector<Everyday> drawn;
  while (static_cast<int>(drawn.size()) < count) {
    Everyday fact;
    fact.form = &pick(random, para_facts());
    const bool reuse = !drawn.empty() && drawn.back().form->key == fact.form->key && random.below(3) == 0;
    fact.key = reuse ? drawn.back().key : draw_key(random, fact.form->key);
    fact.value = draw_value(random, fact.form->value);
    const bool known =
        std::any_of(drawn.begin(), drawn.end(), [&](const Everyday& d) { return same_subject(d, fact); });
    if (!known) drawn.push_back(fact);
  }
  return drawn;
}

size_t draw_wording(Random& random, const FactsRequest& request) {
  return static_cast<size_t>(request.new_wording ? kKnownWordings : random.below(kKnownWordings));
}

std::string state(Random& random, const FactsRequest& request, const Everyday& fact) {
  return fill_form(fact.form->statements[draw_wording(random, request)], {{"{k}", fact.key}, {"{v}", fact.value}});
}

std::string ask(Random& random, const FactsRequest& request, const Everyday& fact) {
  return fill_form(fact.form->questions[draw_wording(random, request)], {{"{k}", fact.key}});
}

int everyday_count(Random& random, const FactsRequest& request) {
  if (request.few) return static_cast<int>(random.between(1, 2));
  return request.single ? 1 : std::clamp(static_cast<int>(random.between(6, 12)), 1, request.max_lines);
}

}  // namespace

Facts make_para(Random& random, const FactsRequest& request) {
  const auto drawn = draw_everyday(random, everyday_count(random, request));
  const size_t gold = gold_rank(request.depth, static_cast<int>(drawn.size()));
  Facts facts;
  for (const Everyday& fact : drawn) facts.lines.push_back(state(random, request, fact));
  facts.gold = {gold};
  facts.question = ask(random, request, drawn[gold]);
  facts.answer = (drawn[gold].form->value == ValueKind::kWord ? " " : "") + drawn[gold].value;
  facts.gold_strings = {drawn[gold].value};
  return facts;
}

Facts make_absent(Random& random, const FactsRequest& request) {
  Facts facts;
  if (random.below(2) == 0) {
    facts = make_numbers(random, request);
    std::string key = random_key(random);
    while (join(facts.lines, " ").find(key) != std::string::npos) key = random_key(random);
    facts.question = "What is the special magic number for " + key + "?";
  } else {
    auto drawn = draw_everyday(random, everyday_count(random, request) + 1);
    facts.question = ask(random, request, drawn.back());
    drawn.pop_back();
    for (const Everyday& fact : drawn) facts.lines.push_back(state(random, request, fact));
  }
  facts.gold.clear();
  facts.answer = " not mentioned";
  facts.gold_strings = {"not mentioned"};
  return facts;
}

}  // namespace ei::eval
