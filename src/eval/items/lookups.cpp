// Look-ups in long lists and noise: InfiniteBench's passkey, number_string, kv_retrieval and math_find, LongEval's
// lines.
#include <algorithm>

#include "eval/items/generators.h"
#include "eval/items/texts.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

constexpr int64_t kShortAnswer = 32;
constexpr int64_t kUuidAnswer = 64;
constexpr int64_t kGoldRoom = 4;  // tokens that a number may take when another was counted

Result<Item> hidden_digits(const ItemRequest& request, const std::string& what, const std::string& value) {
  ItemTurn turn{.question = "What is " + what + "?", .gold = {.answers = {value}}};
  const std::string line = "The" + what.substr(3) + " is " + value + ". Remember it. " + value + " is " + what + ".";
  const ItemFrame frame{.head =
                            "There is important information hidden in a lot of irrelevant text. Find it and "
                            "remember it.\n",
                        .tail = turn.question,
                        .max_new = kShortAnswer};
  Item item{.task = request.task, .length = request.length, .turns = {turn}, .max_new = kShortAnswer};
  item.depth = request.depth;
  EI_ASSIGN_OR_RETURN(item.context, fill_with_noise(request, frame, {{line, request.depth}}));
  return item;
}

}  // namespace

Result<Item> make_passkey_item(const ItemRequest& request) {
  Random random(request.seed);
  return hidden_digits(request, "the pass key", random_digits(random, 5));
}

Result<Item> make_number_string_item(const ItemRequest& request) {
  // Ten digits of which one stands several times in a row.
  Random random(request.seed);
  std::string digits = random_digits(random, 10);
  const auto first = static_cast<size_t>(random.below(7));
  for (size_t i = first + 1; i < first + 4; ++i) digits[i] = digits[first];
  return hidden_digits(request, "the sequence of digits", digits);
}

Result<Item> make_pairs_item(const ItemRequest& request) {
  Random random(request.seed);
  const std::string key = random_uuid(random);
  const std::string value = random_uuid(random);
  Random others(random.next());
  const auto pair = [](const std::string& k, const std::string& v) { return "\"" + k + "\": \"" + v + "\","; };
  ItemTurn turn{.question = "What is the value of the key \"" + key + "\"?", .gold = {.answers = {value}}};
  const ItemFrame frame{.head = "Extract the value of a key from the JSON object below.\n{\n",
                        .tail = turn.question,
                        .max_new = kUuidAnswer};
  Item item{.task = request.task, .length = request.length, .turns = {turn}, .max_new = kUuidAnswer};
  item.depth = request.depth;
  EI_ASSIGN_OR_RETURN(item.context, fill_with_lines(request, frame, pair(key, value), [&](size_t) {
                        const std::string k = random_uuid(others);
                        return pair(k, random_uuid(others));
                      }));
  item.context += "}";
  return item;
}

Result<Item> make_math_item(const ItemRequest& request) {
  Random random(request.seed);
  const bool largest = random.below(2) == 0;
  Random drawn(random.next());
  std::vector<int> numbers;
  const auto text_of = [&](size_t tens) {
    while (numbers.size() < 10 * tens) numbers.push_back(static_cast<int>(drawn.between(1, 99)));
    std::string text = "Look at this long list of numbers.\n[";
    for (size_t i = 0; i < 10 * tens; ++i) text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    return text + "]";
  };
  ItemTurn turn;
  turn.question = str_format("What is the %s number of the list?", largest ? "largest" : "smallest");
  EI_ASSIGN_OR_RETURN(const size_t tens,
                      most_units(request, text_room(request, kShortAnswer, 1) - kGoldRoom, [&](size_t n) {
                        return request.count_tokens(text_of(n)) + request.count_tokens("\n\n" + turn.question);
                      }));
  Item item{.task = request.task, .length = request.length, .max_new = kShortAnswer};
  // One number beyond all others, so that a single place decides.
  const size_t at = std::min(static_cast<size_t>(request.depth * static_cast<double>(10 * tens)), 10 * tens - 1);
  numbers[at] = static_cast<int>(largest ? random.between(100, 999) : 0);
  item.context = text_of(tens);
  turn.gold.answers = {std::to_string(numbers[at])};
  item.turns = {turn};
  item.depth = request.depth;
  return item;
}

Result<Item> make_lines_item(const ItemRequest& request) {
  Random random(request.seed);
  const std::string key = random_key(random);
  const std::string value = random_digits(random, 5);
  Random others(random.next());
  const auto line = [](const std::string& k, const std::string& v) {
    return "line " + k + ": REGISTER_CONTENT is <" + v + ">";
  };
  ItemTurn turn{.question = "What is the REGISTER_CONTENT in line " + key + "?", .gold = {.answers = {value}}};
  const ItemFrame frame{
      .head = "Below is a record of lines. Each has an index and a register content. Remember both.\n",
      .tail = turn.question,
      .max_new = kShortAnswer};
  Item item{.task = request.task, .length = request.length, .turns = {turn}, .max_new = kShortAnswer};
  item.depth = request.depth;
  EI_ASSIGN_OR_RETURN(item.context, fill_with_lines(request, frame, line(key, value), [&](size_t) {
                        std::string other = random_key(others);
                        while (other == key) other = random_key(others);
                        return line(other, random_digits(others, 5));
                      }));
  return item;
}

}  // namespace ei::eval
