#include "eval/items/files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace ei::eval {
namespace {

using Json = nlohmann::json;

constexpr FileKind kKinds[] = {
    {"longbench", "LongBench v1: context, input, answers, dataset; or prompt, gold, task (MiniLongBench)"},
    {"longbench2", "LongBench v2: context, question, choice_A to choice_D, answer"},
    {"infinitebench", "InfiniteBench: context, input, answer; the file's name says which of its twelve tasks"},
    {"jsonl", "context, question, answers; perhaps task, metric, max_new_tokens"},
};
constexpr int64_t kStandardAnswer = 64;
constexpr std::string_view kLetters = "ABCD";
constexpr const char* kBrokenFunction = "Exactly one function of the code above has an error that makes it crash.";
constexpr const char* kEveryValue =
    "Calculate the expression above from left to right: its first number, and the value after every operation. Answer "
    "with the list of these numbers alone; that of 8 - 3 + 2 - 4 is [8, 5, 7, 3].";

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// One text, or a list of them, or a list with nothing in it but that list.
std::vector<std::string> texts_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_array()) return {text_at(object, key)};
  const Json& list = found->size() == 1 && found->front().is_array() ? found->front() : *found;
  std::vector<std::string> texts;
  for (const Json& one : list) texts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return texts;
}

std::string stem_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

const LongBenchSet* find_set(std::string name) {
  if (name.ends_with("_e")) name.resize(name.size() - 2);  // LongBench-E has the same sets
  for (const LongBenchSet& set : longbench_sets())
    if (set.name == name) return &set;
  return nullptr;
}

Result<Item> longbench_item(const Json& object, const std::string&) {
  Item item;
  item.task = text_at(object, object.contains("dataset") ? "dataset" : "task");
  const LongBenchSet* set = find_set(item.task);
  if (set == nullptr) return make_error(ErrorKind::kUsage, "'%s' is no set of LongBench", one_line(item.task).c_str());
  EI_ASSIGN_OR_RETURN(item.metric, find_metric(set->metric));
  item.max_new = set->max_new;
  item.plain = set->plain;
  ItemTurn turn;
  if (object.contains("prompt")) {
    item.context = text_at(object, "prompt");
    item.has_question = false;
    const Json& gold = object.contains("gold") ? object["gold"] : Json::object();
    const bool wrapped = gold.is_object();
    turn.gold.answers = texts_at(wrapped ? gold : object, wrapped ? "answers" : "gold");
    if (wrapped) turn.gold.classes = texts_at(gold, "all_classes");
  } else {
    item.context = text_at(object, "context");
    turn.question = std::string(set->instruction) + "\n" + text_at(object, "input");
    turn.gold.answers = texts_at(object, "answers");
    turn.gold.classes = texts_at(object, "all_classes");
  }
  item.turns = {std::move(turn)};
  return item;
}

// Four choices, of which the answer names one by its letter.
struct Choices {
  std::string question;
  std::vector<std::string> texts;  // of A to D
  std::string letter;              // the right one's
};

void ask_for_letter(const Choices& choices, Item& item) {
  item.lead = "The correct answer is (";
  ItemTurn turn;
  turn.question = "Which of the choices is right?\n" + choices.question + "\n";
  for (size_t i = 0; i < choices.texts.size(); ++i) {
    item.choices.emplace_back(1, kLetters[i]);
    turn.question += str_format("(%c) ", kLetters[i]) + choices.texts[i] + "\n";
  }
  turn.question += "Answer as in \"The correct answer is (A)\".";
  turn.gold.answers = {choices.letter};
  item.turns = {std::move(turn)};
}

Result<Item> longbench2_item(const Json& object, const std::string&) {
  Item item;
  item.task = "longbench2";
  EI_ASSIGN_OR_RETURN(item.metric, find_metric("letter"));
  item.context = text_at(object, "context");
  item.max_new = 16;
  Choices choices{.question = text_at(object, "question"), .texts = {}, .letter = text_at(object, "answer")};
  for (const char letter : kLetters) {
    choices.texts.push_back(text_at(object, str_format("choice_%c", letter).c_str()));
    if (choices.texts.back().empty()) return make_error(ErrorKind::kUsage, "choice_%c is missing", letter);
  }
  ask_for_letter(choices, item);
  return item;
}

// InfiniteBench's options are a list, and its answer is the text of the right one, or its letter behind that text.
Result<Choices> listed_choices(const Json& object) {
  Choices choices{.question = text_at(object, "input"), .texts = texts_at(object, "options"), .letter = {}};
  if (choices.texts.size() != kLetters.size())
    return make_error(ErrorKind::kUsage, "%zu options instead of four", choices.texts.size());
  const std::vector<std::string> answers = texts_at(object, "answer");
  if (answers.empty()) return Error{ErrorKind::kUsage, "the answers are missing"};
  const auto right = std::find(choices.texts.begin(), choices.texts.end(), answers[0]);
  const std::string& last = answers.back();
  if (right != choices.texts.end()) {
    choices.letter = kLetters[static_cast<size_t>(right - choices.texts.begin())];
  } else if (last.size() == 1 && kLetters.find(last) != std::string_view::npos) {
    choices.letter = last;
  } else {
    return make_error(ErrorKind::kUsage, "the answer '%s' is none of the options", one_line(answers[0]).c_str());
  }
  return choices;
}

// As the benchmark has it: how an answer of a task is scored, and how many tokens it may take.
struct InfiniteSet {
  std::string_view metric;
  int64_t max_new;
  AnswerRoom room = AnswerRoom::kGiven;
};

const std::map<std::string, InfiniteSet>& infinite_sets() {
  static const std::map<std::string, InfiniteSet> sets = {
      {"passkey", {"first_number", 6, AnswerRoom::kWhole}},
      {"number_string", {"first_number", 12, AnswerRoom::kWhole}},
      {"kv_retrieval", {"word", 50, AnswerRoom::kWhole}},
      {"math_find", {"math", 3, AnswerRoom::kWhole}},
      {"math_calc", {"leading_numbers", 30000, AnswerRoom::kList}},
      {"longbook_qa_eng", {"f1", 40}},
      {"longbook_qa_chn", {"f1_zh", 40}},
      {"longbook_sum_eng", {"rouge_l_sum", 1200}},
      {"longbook_choice_eng", {"letter", 40}},
      {"longdialogue_qa_eng", {"found_any", 40}},
      {"code_run", {"last_integer", 5, AnswerRoom::kWhole}},
      {"code_debug", {"letter", 5}},
  };
  return sets;
}

// Files of code_run ask in `input`, earlier ones say which call is meant; those of math_calc ask nothing.
Result<std::string> infinite_question(const Json& object, const std::string& task) {
  if (task == "math_calc") return std::string(kEveryValue);
  std::string question = text_at(object, "input");
  if (task != "code_run" || !question.empty()) return question;
  const std::string call = text_at(object, "func_call");
  if (call.empty()) return Error{ErrorKind::kUsage, "neither input nor func_call says what to compute"};
  return "What does " + call + " return? Answer with that number alone.";
}

Result<Item> infinite_item(const Json& object, const std::string& path) {
  Item item;
  item.task = stem_of(path);
  const auto set = infinite_sets().find(item.task);
  if (set == infinite_sets().end()) {
    std::string names;
    for (const auto& [name, one] : infinite_sets()) names += (names.empty() ? "" : ", ") + name;
    return make_error(ErrorKind::kUsage, "no task of InfiniteBench is called '%s', as the file is; there are %s",
                      one_line(item.task).c_str(), names.c_str());
  }
  EI_ASSIGN_OR_RETURN(item.metric, find_metric(set->second.metric));
  item.max_new = set->second.max_new;
  item.room = set->second.room;
  item.context = text_at(object, "context");
  if (set->second.metric == "letter") {
    EI_ASSIGN_OR_RETURN(Choices choices, listed_choices(object));
    if (item.task == "code_debug") choices.question = kBrokenFunction;  // its files ask nothing
    ask_for_letter(choices, item);
    return item;
  }
  EI_ASSIGN_OR_RETURN(std::string question, infinite_question(object, item.task));
  item.turns = {{.question = std::move(question), .gold = {.answers = texts_at(object, "answer")}}};
  return item;
}

Result<Item> plain_item(const Json& object, const std::string& path) {
  Item item;
  item.task = object.contains("task") ? text_at(object, "task") : stem_of(path);
  EI_ASSIGN_OR_RETURN(item.metric, find_metric(object.contains("metric") ? text_at(object, "metric") : "f1"));
  item.max_new = object.value("max_new_tokens", kStandardAnswer);
  item.context = text_at(object, "context");
  const char* answers = object.contains("answers") ? "answers" : "answer";
  item.turns = {{.question = text_at(object, object.contains("question") ? "question" : "input"),
                 .gold = {.answers = texts_at(object, answers)}}};
  return item;
}

Result<Item> read_item(std::string_view kind, const Json& object, const std::string& path) {
  if (kind == "longbench") return longbench_item(object, path);
  if (kind == "longbench2") return longbench2_item(object, path);
  if (kind == "infinitebench") return infinite_item(object, path);
  return plain_item(object, path);
}

Result<Item> parse_item(std::string_view kind, const std::string& line, const std::string& path) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return Error{ErrorKind::kUsage, "not a JSON object"};
  try {
    EI_ASSIGN_OR_RETURN(Item item, read_item(kind, object, path));
    if (item.context.empty()) return Error{ErrorKind::kUsage, "the context is missing"};
    if (item.turns[0].gold.answers.empty()) return Error{ErrorKind::kUsage, "the answers are missing"};
    if (item.max_new < 1) return Error{ErrorKind::kUsage, "max_new_tokens must be at least 1"};
    return item;
  } catch (const Json::exception& error) {
    return make_error(ErrorKind::kUsage, "%s", error.what());
  }
}

}  // namespace

std::span<const FileKind> file_kinds() { return kKinds; }

Result<std::vector<Item>> read_item_file(const std::string& kind_and_path) {
  const size_t colon = kind_and_path.find(':');
  const std::string kind = kind_and_path.substr(0, colon);
  const std::string path = kind_and_path.substr(colon + 1);
  bool known = false;
  for (const FileKind& one : kKinds) known = known || one.name == kind;
  if (!known)
    return make_error(ErrorKind::kUsage, "'%s' is no kind of file; --list-tasks names them", one_line(kind).c_str());
  std::ifstream file(path);
  if (!file) return make_error(ErrorKind::kUsage, "cannot open %s", one_line(path).c_str());
  std::vector<Item> items;
  std::map<std::string, int64_t> count;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<Item> item = parse_item(kind, line, path);
    if (!item.ok())
      return make_error(ErrorKind::kUsage, "%s, line %lld: %s", one_line(path).c_str(), static_cast<long long>(number),
                        one_line(item.error().message).c_str());
    item->index = count[item->task]++;
    items.push_back(std::move(*item));
  }
  if (items.empty()) return make_error(ErrorKind::kUsage, "%s holds no items", one_line(path).c_str());
  return items;
}

}  // namespace ei::eval
