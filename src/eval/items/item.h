// One item of an evaluation: a text, one or more questions about it, and what is right. The same for every method.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/haystack.h"
#include "eval/metric/metric.h"
#include "eval/tasks.h"

namespace ei::eval {

struct ItemTurn {
  std::string question{};
  Gold gold{};
};

// Of files: how many tokens an answer may take, where the benchmark's number does not suit every vocabulary.
enum class AnswerRoom : uint8_t {
  kGiven,  // max_new
  kWhole,  // more where the right answer takes more: it is right as a whole or not at all
  kList,   // fewer where the right answers together take fewer: it is they that are compared, from the first on
};

struct Item {
  std::string task{};
  int64_t length = 0;  // tokens asked for, prompt and answer together; 0: as long as the file has it
  int64_t index = 0;   // counted from 0 in its task and length
  std::string context{};
  std::vector<ItemTurn> turns{};   // one, or the turns of a chat
  std::string lead{};              // what the answer is made to begin with
  const Metric* metric = nullptr;  // of every turn
  int64_t max_new = 0;             // most tokens of an answer
  AnswerRoom room = AnswerRoom::kGiven;
  double depth = -1;                   // share of the text in front of a single fact; -1: spread, or not known
  bool plain = false;                  // never in a chat template
  std::vector<std::string> choices{};  // letters whose likelihoods are compared behind the lead
  bool has_question = true;            // false: the question is somewhere in the text

  std::string id() const;  // "niah_single_1/4096/3"
  // The text whose score counts, of what the model wrote behind the lead: with the lead where that begins the sentence
  // that names a letter, without it where it only asks for an answer.
  std::string scored(const std::string& written) const;
};

// What a generator is asked for. The same request makes the same item.
struct ItemRequest {
  std::string task{};
  int64_t length = 4096;  // frame + text + questions + answers stay within it
  uint64_t seed = 1;
  double depth = 0.5;        // of a single fact
  int64_t frame_tokens = 0;  // what the chat template adds in each turn
  CountTokens count_tokens{};
  std::function<Haystack(uint64_t seed)> haystack{};  // our own prose if absent
};

// Tokens that an item may take for its context, questions and leads.
int64_t text_room(const ItemRequest& request, int64_t max_new, size_t turns);

// The largest n >= 1 for which tokens_of(n) <= room; tokens_of grows about evenly. kUsage when not even one fits.
Result<size_t> most_units(const ItemRequest& request, int64_t room, const std::function<int64_t(size_t)>& tokens_of);

}  // namespace ei::eval
