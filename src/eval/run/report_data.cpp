#include "eval/run/report_data.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

namespace ei::eval {
namespace {

using Object = nlohmann::ordered_json;

Object interval_object(const Interval& interval) {
  return {{"mean", interval.mean}, {"low", interval.low}, {"high", interval.high}};
}

Object cell_object(const Cell& cell) {
  Object object = {{"items", cell.items},           {"score", interval_object(cell.score)},
                   {"density", cell.density},       {"kv_bytes", cell.kv_bytes},
                   {"kv_kept", cell.kv_kept},       {"sparse", cell.sparse},
                   {"compressed", cell.compressed}, {"prompt_s", cell.prompt_s},
                   {"decode_s", cell.decode_s}};
  if (cell.to_reference) object["to_reference"] = interval_object(*cell.to_reference);
  if (cell.likelihood) object["likelihood"] = {{"items", cell.chosen}, {"score", interval_object(*cell.likelihood)}};
  return object;
}

// Mean scores of single facts. Depths in tenths: our own kinds stand where a sentence ends.
Object needle_objects(const std::vector<ItemResult>& results) {
  std::map<std::tuple<std::string, std::string, int64_t, int>, std::pair<double, int64_t>> sums;
  for (const ItemResult& result : results) {
    if (result.depth < 0) continue;
    auto& [sum, items] =
        sums[{result.method, result.task, result.length, static_cast<int>(std::lround(10 * result.depth))}];
    sum += result.score;
    ++items;
  }
  Object all = Object::array();
  for (const auto& [key, value] : sums) {
    const auto& [method, task, length, tenth] = key;
    all.push_back({{"method", method},
                   {"task", task},
                   {"length", length},
                   {"depth", tenth / 10.0},
                   {"items", value.second},
                   {"score", value.first / static_cast<double>(value.second)}});
  }
  return all;
}

}  // namespace

std::string report_json(const Summary& summary, const std::vector<ItemResult>& results, const std::string& title,
                        const std::string& notes) {
  Object page = {{"title", title}, {"notes", notes}, {"reference", summary.reference}, {"results", results.size()}};
  page["idle"] = idle_methods(summary);
  page["methods"] = Object::array();
  for (const std::string& method : summary.methods) {
    Object object = {{"name", method}};
    object.update(cell_object(summary.all.at(method)));
    page["methods"].push_back(std::move(object));
  }
  page["tasks"] = Object::array();
  for (const TaskKey& key : summary.tasks) {
    Object cells = Object::array();
    for (const std::string& method : summary.methods) cells.push_back(cell_object(summary.cells.at({key, method})));
    page["tasks"].push_back({{"task", key.first}, {"length", key.second}, {"cells", cells}});
  }
  page["needles"] = needle_objects(results);
  return page.dump(-1, ' ', false, Object::error_handler_t::replace);
}

}  // namespace ei::eval
