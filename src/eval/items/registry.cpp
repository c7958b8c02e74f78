#include "eval/items/registry.h"

#include <algorithm>

#include "eval/items/generators.h"

namespace ei::eval {
namespace {

constexpr TaskEntry kEntries[] = {
    {"niah_single_1", "ruler", "found", "a number in repeated noise", make_needle_item},
    {"niah_single_2", "ruler", "found", "a number in prose", make_needle_item},
    {"niah_single_3", "ruler", "found", "a uuid in prose", make_needle_item},
    {"niah_multikey_1", "ruler", "found", "one of four numbers in prose", make_needle_item},
    {"niah_multikey_2", "ruler", "found", "one number in a text of numbers", make_needle_item},
    {"niah_multikey_3", "ruler", "found", "one uuid, keyed by a uuid, in a text of uuids", make_needle_item},
    {"niah_multivalue", "ruler", "found", "four numbers of one key", make_needle_item},
    {"niah_multiquery", "ruler", "found", "the numbers of four keys", make_needle_item},
    {"vt", "ruler", "found", "variables along a chain of assignments", make_variables_item},
    {"cwe", "ruler", "found", "the ten most common words of a list", make_common_words_item},
    {"fwe", "ruler", "found", "the three most frequent coded words", make_frequent_words_item},
    {"qa", "ruler", "found_any", "a fact in one of many documents, asked in other words", make_documents_item},
    {"passkey", "infinitebench", "first_number", "five digits in noise", make_passkey_item},
    {"number_string", "infinitebench", "first_number", "ten digits with repetitions in noise", make_number_string_item},
    {"kv_retrieval", "infinitebench", "word", "one value of a long JSON object", make_pairs_item},
    {"math_find", "infinitebench", "math", "the largest or smallest number of a list", make_math_item},
    {"lines", "longeval", "found", "the register content of one line", make_lines_item},
    {"num", "own", "found", "a number among others of its kind in prose", make_kind_item},
    {"hex", "own", "found", "a code of eight hexadecimal digits, likewise", make_kind_item},
    {"line", "own", "found", "a register line in prose", make_kind_item},
    {"pass", "own", "found", "a pass key in prose", make_kind_item},
    {"multi", "own", "found", "all numbers of one key", make_kind_item},
    {"mq", "own", "found", "the numbers of several keys", make_kind_item},
    {"var", "own", "found", "variables along a chain of assignments, others beside it", make_kind_item},
    {"rev", "own", "found", "which key or variable has a value", make_kind_item},
    {"list", "own", "found", "all entries of a list that is spread over the text, in order", make_kind_item},
    {"quote", "own", "edit", "the rest of a long sentence, word by word", make_quote_item},
    {"para", "own", "found", "an everyday fact in a wording that was not trained on", make_kind_item},
    {"none", "own", "found", "a fact that is not in the text", make_kind_item},
    {"chat", "chat", "found", "four questions about one text, one in each turn", make_chat_item},
};

}  // namespace

std::span<const TaskEntry> task_entries() { return kEntries; }

const TaskEntry* find_task_entry(std::string_view name) {
  for (const TaskEntry& entry : kEntries)
    if (entry.name == name) return &entry;
  return nullptr;
}

Result<std::vector<std::string>> expand_tasks(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  const auto add = [&](std::string name) {
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
  };
  for (const std::string& name : names) {
    if (find_task_entry(name) != nullptr || name.find(':') != std::string::npos) {
      add(name);
      continue;
    }
    bool known = false;
    for (const TaskEntry& entry : kEntries) {
      if (entry.group != name) continue;
      known = true;
      add(std::string(entry.name));
    }
    if (!known)
      return make_error(ErrorKind::kUsage, "unknown task '%s'; --list-tasks names them", one_line(name).c_str());
  }
  return all;
}

Result<Item> make_item(const ItemRequest& request) {
  const TaskEntry* entry = find_task_entry(request.task);
  if (entry == nullptr) return make_error(ErrorKind::kUsage, "unknown task '%s'", request.task.c_str());
  EI_ASSIGN_OR_RETURN(Item item, entry->make(request));
  EI_ASSIGN_OR_RETURN(item.metric, find_metric(entry->metric));
  // Line breaks in front of the question's own would be other tokens when the whole prompt is tokenized at once.
  while (item.context.ends_with('\n')) item.context.pop_back();
  return item;
}

}  // namespace ei::eval
