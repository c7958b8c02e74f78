// RULER's needles.
#include <algorithm>

#include "eval/facts_draw.h"
#include "eval/items/generators.h"
#include "eval/items/texts.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

constexpr int64_t kNeedleAnswer = 128;  // most new tokens

enum class Hay { kNoise, kProse, kNeedles };

struct NeedleTask {
  std::string_view name;
  Hay hay;
  bool uuid_keys;
  bool uuid_values;
  int keys;     // with a value each
  int values;   // of each key that is asked for
  int queries;  // keys that are asked for
};
constexpr NeedleTask kNeedleTasks[] = {
    {"niah_single_1", Hay::kNoise, false, false, 1, 1, 1},     {"niah_single_2", Hay::kProse, false, false, 1, 1, 1},
    {"niah_single_3", Hay::kProse, false, true, 1, 1, 1},      {"niah_multikey_1", Hay::kProse, false, false, 4, 1, 1},
    {"niah_multikey_2", Hay::kNeedles, false, false, 1, 1, 1}, {"niah_multikey_3", Hay::kNeedles, true, true, 1, 1, 1},
    {"niah_multivalue", Hay::kProse, false, false, 1, 4, 1},   {"niah_multiquery", Hay::kProse, false, false, 4, 1, 4},
};

std::string draw_number(Random& random) { return random_digits(random, 7); }

std::string needle_line(const NeedleTask& task, const std::string& key, const std::string& value) {
  const char* noun = task.uuid_values ? "uuid" : "number";
  return str_format("One of the special magic %ss for %s is: %s.", noun, key.c_str(), value.c_str());
}

std::string needle_question(const NeedleTask& task, const std::vector<std::string>& asked) {
  const std::string noun = task.uuid_values ? "uuid" : "number";
  if (task.values == 1 && asked.size() == 1)
    return "What is the special magic " + noun + " for " + asked[0] + " mentioned in the provided text?";
  std::string names;
  for (size_t i = 0; i < asked.size(); ++i) names += (i == 0 ? "" : i + 1 == asked.size() ? " and " : ", ") + asked[i];
  return "What are all the special magic " + noun + "s for " + names + " mentioned in the provided text?";
}

}  // namespace

Result<Item> make_needle_item(const ItemRequest& request) {
  const auto* task = std::find_if(std::begin(kNeedleTasks), std::end(kNeedleTasks),
                                  [&](const NeedleTask& known) { return known.name == request.task; });
  if (task == std::end(kNeedleTasks)) return make_error(ErrorKind::kUsage, "no needle task '%s'", request.task.c_str());
  Random random(request.seed);
  const auto draw_key = task->uuid_keys ? random_uuid : random_key;
  const auto draw_value = task->uuid_values ? random_uuid : draw_number;
  const std::vector<std::string> keys = distinct(random, task->keys, draw_key);
  const std::vector<std::string> values = distinct(random, task->keys * task->values, draw_value);
  std::vector<PlacedLine> lines;
  ItemTurn turn;
  const bool alone = task->queries == 1 && task->values == 1;
  for (size_t key = 0; key < keys.size(); ++key) {
    for (size_t i = 0; i < static_cast<size_t>(task->values); ++i) {
      const std::string& value = values[key * static_cast<size_t>(task->values) + i];
      const bool gold = key < static_cast<size_t>(task->queries);
      if (gold) turn.gold.answers.push_back(value);
      lines.push_back({needle_line(*task, keys[key], value), gold && alone ? request.depth : random.uniform()});
    }
  }
  turn.question = needle_question(*task, {keys.begin(), keys.begin() + task->queries});
  const ItemFrame frame{.head =
                            "Some special magic facts are hidden within the following text. Remember them: there "
                            "will be a question about them.\n",
                        .tail = turn.question,
                        .max_new = kNeedleAnswer};
  Item item{.task = request.task, .length = request.length, .turns = {turn}, .max_new = kNeedleAnswer};
  if (alone) item.depth = request.depth;
  if (task->hay == Hay::kNoise) {
    EI_ASSIGN_OR_RETURN(item.context, fill_with_noise(request, frame, std::move(lines)));
  } else if (task->hay == Hay::kProse) {
    EI_ASSIGN_OR_RETURN(item.context, fill_with_prose(request, frame, random.next(), std::move(lines)));
  } else {
    Random others(random.next());
    EI_ASSIGN_OR_RETURN(item.context, fill_with_lines(request, frame, lines[0].line, [&](size_t) {
                          std::string key = draw_key(others);
                          while (key == keys[0]) key = draw_key(others);
                          return needle_line(*task, key, draw_value(others));
                        }));
  }
  return item;
}

}  // namespace ei::eval
