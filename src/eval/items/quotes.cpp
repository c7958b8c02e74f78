// The `quote` task as an item: a sentence so long that its rest is still being written when methods that wait for some
// tokens of the answer compress. Sentences of prose end before that.
#include "eval/facts_draw.h"
#include "eval/items/generators.h"
#include "eval/items/texts.h"
#include "eval/prose.h"
#include "eval/quote.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

constexpr int64_t kLeastAnswer = 80;  // tokens: the longest standard gap is 64
constexpr int64_t kBesideQuote = 16;  // new tokens beyond the answer's own
// A name that stands nowhere else is the end of what is quoted in the question.
constexpr std::string_view kBeginnings[] = {"From the house of {p} the carrier brought down to {q}",
                                            "When the old inn was sold, {p} took along to {q}",
                                            "In the year of the flood {p} carried over the hills to {q}",
                                            "To the daughters of the late {p} went from the hall at {q}"};
constexpr std::string_view kKinds[] = {"grey",   "broken", "little",  "heavy",  "silver", "painted", "wooden", "blue",
                                       "long",   "rusty",  "plain",   "yellow", "black",  "white",   "green",  "brown",
                                       "golden", "narrow", "wide",    "round",  "small",  "large",   "thin",   "thick",
                                       "short",  "sharp",  "strange", "fine",   "simple", "pale"};
constexpr std::string_view kThings[] = {"horse", "chair", "letter", "ring",  "table", "clock", "coat",   "boat",
                                        "bell",  "book",  "mirror", "sword", "dress", "crown", "basket", "window",
                                        "door",  "wheel", "spoon",  "bowl",  "hat",   "flag",  "drum",   "stone",
                                        "lamp",  "map",   "ladder", "cup",   "knife", "wagon"};

// "grey horse and broken chair": what the question quotes, two of them, and the rest, as many as it takes. No word but
// "and" comes twice.
struct Inventory {
  std::string cue;
  std::string rest;
};

Inventory make_inventory(Random& random, const CountTokens& count_tokens) {
  std::vector<std::string_view> kinds(std::begin(kKinds), std::end(kKinds));
  std::vector<std::string_view> things(std::begin(kThings), std::end(kThings));
  shuffle(random, kinds);
  shuffle(random, things);
  const auto thing = [&](size_t i) { return std::string(kinds[i]) + " " + std::string(things[i]); };
  Inventory made{.cue = thing(0) + " and " + thing(1), .rest = {}};
  for (size_t i = 2; i < things.size() && count_tokens(made.rest) < kLeastAnswer; ++i) made.rest += " and " + thing(i);
  made.rest += ".";
  return made;
}

static_assert(std::size(kKinds) == std::size(kThings));

}  // namespace

Result<Item> make_quote_item(const ItemRequest& request) {
  Random random(request.seed);
  const std::string_view beginning = pick(random, std::span<const std::string_view>(kBeginnings));
  const std::string person = random_person(random);
  const Inventory inventory = make_inventory(random, request.count_tokens);
  const std::string cue = fill_form(beginning, {{"{p}", person}, {"{q}", random_place(random)}}) + " " + inventory.cue;
  Item item{
      .task = request.task, .length = request.length, .max_new = request.count_tokens(inventory.rest) + kBesideQuote};
  item.turns = {{.question = quote_question(static_cast<size_t>(random.below(kQuoteForms)), cue),
                 .gold = {.answers = {inventory.rest.substr(1)}}}};
  item.depth = request.depth;
  const ItemFrame frame{
      .head = Prose(random.next()).paragraph() + "\n\n", .tail = item.turns[0].question, .max_new = item.max_new};
  EI_ASSIGN_OR_RETURN(item.context,
                      fill_with_prose(request, frame, random.next(), {{cue + inventory.rest, request.depth}}));
  return item;
}

}  // namespace ei::eval
