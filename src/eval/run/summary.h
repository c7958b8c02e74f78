// What a run found: per method and task means with intervals, and paired differences to full attention.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "eval/run/bootstrap.h"
#include "eval/run/result.h"

namespace ei::eval {

using TaskKey = std::pair<std::string, int64_t>;  // task, length

// One method on one task, or on all of them.
struct Cell {
  int64_t items = 0;
  Interval score;
  std::optional<Interval> to_reference;  // this method - the reference, on the items of both
  std::optional<Interval> likelihood{};  // of multiple choice: how often the likeliest letter is the right one
  int64_t chosen = 0;                    // items whose letters were compared so
  double density = 1;
  double kv_bytes = 0;
  double kv_kept = 1;
  int64_t sparse = 0;          // items whose prompt was read in part
  int64_t compressed = 0;      // items on which the cache was compressed, or read in part
  std::string prefill_idle{};  // why that half of the method did nothing, on the last item where it did nothing
  std::string kv_idle{};
  double prompt_s = 0;  // per item
  double decode_s = 0;
};

struct Summary {
  std::vector<TaskKey> tasks;        // in order of appearance
  std::vector<std::string> methods;  // likewise; the reference first
  std::map<std::pair<TaskKey, std::string>, Cell> cells;
  std::map<std::string, Cell> all;  // mean of the tasks' means
  std::string reference;            // empty: no method is called full
};
inline constexpr const char* kReferenceMethod = "full";

Summary summarise(const std::vector<ItemResult>& results);
// One sentence for every method of which a half, or all, acted on no item: its scores say nothing about that half.
std::vector<std::string> idle_methods(const Summary& summary);
// A Markdown page. `title` and `notes` (lines) stand above the tables.
std::string summary_markdown(const Summary& summary, const std::string& title, const std::string& notes);

}  // namespace ei::eval
