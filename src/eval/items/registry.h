// The tasks by name: what --tasks takes, what --list-tasks shows, what the tests walk through.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/items/item.h"

namespace ei::eval {

struct TaskEntry {
  std::string_view name;
  std::string_view group;   // names all of them in --tasks
  std::string_view metric;  // eval/metric/metric.h
  std::string_view summary;
  Result<Item> (*make)(const ItemRequest& request);
};
std::span<const TaskEntry> task_entries();
// Null when there is none of that name.
const TaskEntry* find_task_entry(std::string_view name);

// Names with groups replaced by their members, each once, in order. kUsage for a name that is neither; a name with a
// colon ("longbench:FILE") stays.
Result<std::vector<std::string>> expand_tasks(const std::vector<std::string>& names);

// The item of a task; `request.task` names it.
Result<Item> make_item(const ItemRequest& request);

}  // namespace ei::eval
