// RULER's tasks over whole texts: variables (vt), common and frequent words (cwe, fwe).
#include <algorithm>
#include <cmath>

#include "eval/facts_draw.h"
#include "eval/items/generators.h"
#include "eval/items/texts.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

constexpr int kHops = 4;  // assignments behind the first
constexpr int64_t kVariablesAnswer = 48;
constexpr int64_t kCommonAnswer = 120;
constexpr int64_t kFrequentAnswer = 50;
constexpr size_t kCommonWords = 10;
constexpr size_t kCommonTimes = 30;
constexpr size_t kOtherTimes = 3;
constexpr double kZeta2 = 1.6449340668482264;

struct Chain {
  std::string value;
  std::vector<std::string> names;
  std::vector<std::string> lines;
};

Chain draw_chain(Random& random) {
  Chain chain{.value = random_digits(random, 5), .names = distinct(random, kHops + 1, random_variable), .lines = {}};
  for (size_t i = 0; i < chain.names.size(); ++i)
    chain.lines.push_back("VAR " + chain.names[i] + " = " + (i == 0 ? chain.value : "VAR " + chain.names[i - 1]) + ".");
  return chain;
}

std::string chain_question(const Chain& chain) {
  return "Find all variables that are assigned the value " + chain.value + " in the text above.";
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// "1. word 2. word ...": each of the first `common` words so many times, the others kOtherTimes.
std::string numbered_list(const std::vector<std::string>& words, size_t common, size_t times, uint64_t seed) {
  std::vector<size_t> all;
  for (size_t i = 0; i < words.size(); ++i) all.insert(all.end(), i < common ? times : kOtherTimes, i);
  Random random(seed);
  shuffle(random, all);
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) text += str_format("%zu. %s ", i + 1, words[all[i]].c_str());
  return text;
}

constexpr std::string_view kCommonQuestion = "What are the 10 most common words in the above list?";

}  // namespace

Result<Item> make_variables_item(const ItemRequest& request) {
  Random random(request.seed);
  const Chain example = draw_chain(random);
  const Chain chain = draw_chain(random);
  std::vector<double> depths;
  for (size_t i = 0; i < chain.lines.size(); ++i) depths.push_back(random.uniform());
  std::sort(depths.begin(), depths.end());
  std::vector<PlacedLine> lines;
  for (size_t i = 0; i < chain.lines.size(); ++i) lines.push_back({chain.lines[i], depths[i]});
  std::string head = "Follow the chains of variable assignments hidden in a text. An example:\n";
  for (const std::string& line : example.lines) head += line + "\n";
  head += chain_question(example) + "\n" + joined_names(example.names) + "\n\nNow the text:\n";
  ItemTurn turn{.question = chain_question(chain), .gold = {.answers = chain.names}};
  const ItemFrame frame{.head = head, .tail = turn.question, .max_new = kVariablesAnswer};
  Item item{.task = request.task, .length = request.length, .turns = {turn}, .max_new = kVariablesAnswer};
  EI_ASSIGN_OR_RETURN(item.context, fill_with_noise(request, frame, std::move(lines)));
  return item;
}

Result<Item> make_common_words_item(const ItemRequest& request) {
  Random random(request.seed);
  std::vector<std::string> words = distinct(random, static_cast<int>(kCommonWords), random_compound);
  const std::vector<std::string> shown = distinct(random, static_cast<int>(kCommonWords) + 5, random_compound);
  const uint64_t order = random.next();
  ItemTurn turn{.question = std::string(kCommonQuestion), .gold = {.answers = words}};
  const std::string head = "Below is a numbered list of words. Some appear more often than others. An example:\n" +
                           numbered_list(shown, kCommonWords, 2 * kOtherTimes, random.next()) + "\n" + turn.question +
                           "\n" + joined_names({shown.begin(), shown.begin() + kCommonWords}) + "\n\nNow the list:\n";
  Random others(random.next());
  const auto text_of = [&](size_t count) {
    while (words.size() < kCommonWords + count) {
      const std::string word = random_compound(others);
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    return head + numbered_list({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(kCommonWords + count)},
                                kCommonWords, kCommonTimes, order);
  };
  EI_ASSIGN_OR_RETURN(const size_t count, most_units(request, text_room(request, kCommonAnswer, 1), [&](size_t n) {
                        return request.count_tokens(text_of(n)) + request.count_tokens("\n\n" + turn.question);
                      }));
  return Item{.task = request.task,
              .length = request.length,
              .context = text_of(count),
              .turns = {turn},
              .max_new = kCommonAnswer};
}

Result<Item> make_frequent_words_item(const ItemRequest& request) {
  Random random(request.seed);
  std::vector<std::string> words = {"..."};  // the most frequent says nothing
  const uint64_t order = random.next();
  // The word of rank k stands total / (k^2 zeta(2)) times.
  const auto text_of = [&](size_t hundreds) {
    const double total = 100.0 * static_cast<double>(hundreds);
    std::vector<size_t> all;
    for (size_t rank = 1;; ++rank) {
      const auto times = static_cast<size_t>(total / (kZeta2 * static_cast<double>(rank * rank)));
      if (times == 0) break;
      while (words.size() < rank) {
        std::string word;
        for (int i = 0; i < 6; ++i) word += static_cast<char>('a' + random.below(26));
        words.push_back(word);
      }
      all.insert(all.end(), times, rank - 1);
    }
    Random shuffled(order);
    shuffle(shuffled, all);
    std::string text = "Read the following coded text and track how often each coded word appears.\n";
    for (const size_t index : all) text += words[index] + " ";
    return text;
  };
  ItemTurn turn;
  turn.question = "The dots are no word. What are the three words that appear most often in the above coded text?";
  EI_ASSIGN_OR_RETURN(const size_t hundreds, most_units(request, text_room(request, kFrequentAnswer, 1), [&](size_t n) {
                        return request.count_tokens(text_of(n)) + request.count_tokens("\n\n" + turn.question);
                      }));
  Item item{.task = request.task, .length = request.length, .max_new = kFrequentAnswer};
  item.context = text_of(hundreds);
  turn.gold.answers = {words.begin() + 1, words.begin() + 4};
  item.turns = {turn};
  return item;
}

}  // namespace ei::eval
