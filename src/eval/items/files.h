// Items from files of JSON lines, as the benchmarks ship them. The files are the user's; none comes with the program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/items/item.h"

namespace ei::eval {

// A kind of file: --tasks KIND:FILE.
struct FileKind {
  std::string_view name;
  std::string_view summary;
};
std::span<const FileKind> file_kinds();

// What LongBench says about each of its sets.
struct LongBenchSet {
  std::string_view name;
  std::string_view metric;
  int64_t max_new;
  bool plain;  // not in a chat template
  std::string_view instruction;
};
std::span<const LongBenchSet> longbench_sets();

// "longbench:FILE" -> its items, in order, numbered within their task. kUsage names the file and the line at fault.
Result<std::vector<Item>> read_item_file(const std::string& kind_and_path);

}  // namespace ei::eval
