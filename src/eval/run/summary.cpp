#include "eval/run/summary.h"

#include <algorithm>

#include "base/units.h"

namespace ei::eval {
namespace {

using Results = std::vector<const ItemResult*>;

void add_once(std::vector<std::string>& to, const std::string& name) {
  if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
}

// The score of the reference on each item.
using Reference = std::map<std::string, double>;

// Over groups of results (tasks).
Cell make_cell(const std::vector<Results>& groups, const Reference* reference) {
  Cell cell;
  std::vector<std::vector<double>> scores;
  std::vector<std::vector<double>> differences;
  std::vector<std::vector<double>> likelihoods;
  Cell sums{.score = {}, .to_reference = {}, .density = 0, .kv_kept = 0};
  for (const Results& group : groups) {
    std::vector<double>& own = scores.emplace_back();
    std::vector<double>& beside = differences.emplace_back();
    std::vector<double>& likeliest = likelihoods.emplace_back();
    for (const ItemResult* result : group) {
      own.push_back(result->score);
      if (result->likelihood) likeliest.push_back(*result->likelihood);
      ++cell.items;
      sums.density += result->density;
      sums.kv_bytes += static_cast<double>(result->kv_bytes);
      sums.kv_kept += result->kv_kept;
      sums.prompt_s += result->prompt_s;
      sums.decode_s += result->decode_s;
      cell.sparse += result->acted.prefill ? 1 : 0;
      cell.compressed += result->acted.kv ? 1 : 0;
      if (!result->acted.prefill_idle.empty()) cell.prefill_idle = result->acted.prefill_idle;
      if (!result->acted.kv_idle.empty()) cell.kv_idle = result->acted.kv_idle;
      if (reference == nullptr) continue;
      if (const auto found = reference->find(result->item); found != reference->end())
        beside.push_back(result->score - found->second);
    }
  }
  if (cell.items == 0) return cell;
  const auto items = static_cast<double>(cell.items);
  cell.score = bootstrap_mean(scores);
  for (const std::vector<double>& likeliest : likelihoods) cell.chosen += std::ssize(likeliest);
  if (cell.chosen > 0) cell.likelihood = bootstrap_mean(likelihoods);
  cell.density = sums.density / items;
  cell.kv_bytes = sums.kv_bytes / items;
  cell.kv_kept = sums.kv_kept / items;
  cell.prompt_s = sums.prompt_s / items;
  cell.decode_s = sums.decode_s / items;
  const bool paired = std::any_of(differences.begin(), differences.end(), [](const auto& d) { return !d.empty(); });
  if (reference != nullptr && paired) cell.to_reference = bootstrap_mean(differences);
  return cell;
}

std::string points(const Interval& interval) {
  return str_format("%.1f [%.1f, %.1f]", 100 * interval.mean, 100 * interval.low, 100 * interval.high);
}

std::string difference(const std::optional<Interval>& interval) {
  if (!interval) return "–";
  return str_format("%+.1f [%+.1f, %+.1f]", 100 * interval->mean, 100 * interval->low, 100 * interval->high);
}

std::string task_title(const TaskKey& key) {
  return key.second > 0 ? str_format("%s %lld", key.first.c_str(), static_cast<long long>(key.second)) : key.first;
}

// One of the scores of a cell, and over how many items.
struct Score {
  int64_t items = 0;
  Interval interval{};
};
Score written(const Cell& cell) { return {cell.items, cell.score}; }
Score likeliest_letter(const Cell& cell) { return {cell.chosen, cell.likelihood.value_or(Interval{})}; }

// A line of the table of tasks; none where no method has that score.
std::string task_row(const Summary& summary, const TaskKey& key, const std::string& title, Score (*of)(const Cell&)) {
  int64_t most = 0;
  std::string cells;
  for (const std::string& method : summary.methods) {
    const Score score = of(summary.cells.at({key, method}));
    most = std::max(most, score.items);
    cells += score.items == 0 ? " – |" : " " + points(score.interval) + " |";
  }
  if (most == 0) return "";
  return str_format("| %s | %lld |", title.c_str(), static_cast<long long>(most)) + cells + "\n";
}

std::string task_table(const Summary& summary) {
  std::string text = "| task | n |";
  for (const std::string& method : summary.methods) text += " " + method + " |";
  text += "\n|---|---|";
  for (size_t i = 0; i < summary.methods.size(); ++i) text += "---|";
  text += "\n";
  for (const TaskKey& key : summary.tasks) {
    text += task_row(summary, key, task_title(key), written);
    text += task_row(summary, key, task_title(key) + ", likeliest letter", likeliest_letter);
  }
  return text;
}

// What the figures are, in words.
std::string legend(const Summary& summary) {
  std::string text =
      "Scores from 0 to 100 with 95 % bootstrap intervals over items; differences are paired, item by item. Sparse, "
      "compressed: on how many items the prompt was read in part, the cache compressed or read in part. KV kept and "
      "KV MiB: slots and bytes of all layers, held when the answer ends; a compression also drops what layers with a "
      "sliding window no longer see, so such a model keeps less than the budget.\n\n";
  const auto compared = [](const auto& method) { return method.second.chosen > 0; };
  if (std::any_of(summary.all.begin(), summary.all.end(), compared))
    text +=
        "Multiple choice has two scores: the letter that is written, which averages and differences take, and, in a "
        "line of its own, the likeliest letter where the answer begins.\n\n";
  return text;
}

}  // namespace

Summary summarise(const std::vector<ItemResult>& results) {
  Summary summary;
  std::map<std::pair<TaskKey, std::string>, Results> found;
  std::vector<std::string> methods;
  Reference reference;
  for (const ItemResult& result : results) {
    const TaskKey key{result.task, result.length};
    if (std::find(summary.tasks.begin(), summary.tasks.end(), key) == summary.tasks.end()) summary.tasks.push_back(key);
    add_once(methods, result.method);
    found[{key, result.method}].push_back(&result);
    if (result.method == kReferenceMethod) reference[result.item] = result.score;
  }
  if (!reference.empty()) summary.methods.push_back(summary.reference = kReferenceMethod);
  for (const std::string& method : methods) add_once(summary.methods, method);
  for (const std::string& method : summary.methods) {
    const Reference* compared = reference.empty() || method == summary.reference ? nullptr : &reference;
    std::vector<Results> groups;
    for (const TaskKey& key : summary.tasks) {
      const Results& group = groups.emplace_back(found[{key, method}]);
      summary.cells[{key, method}] = make_cell({group}, compared);
    }
    summary.all[method] = make_cell(groups, compared);
  }
  return summary;
}

std::vector<std::string> idle_methods(const Summary& summary) {
  std::vector<std::string> sentences;
  for (const std::string& method : summary.methods) {
    const Cell& cell = summary.all.at(method);
    const bool read_whole = cell.sparse == 0 && !cell.prefill_idle.empty();
    const bool kept_whole = cell.compressed == 0 && !cell.kv_idle.empty();
    if (!read_whole && !kept_whole) continue;
    const std::string items = counted(cell.items, "item");
    const std::string why = !kept_whole   ? cell.prefill_idle
                            : !read_whole ? cell.kv_idle
                                          : cell.prefill_idle + "; " + cell.kv_idle;
    const std::string what = cell.sparse + cell.compressed == 0 ? "never acted, its scores are those of full attention"
                             : read_whole                       ? "read no prompt sparsely"
                                                                : "compressed no cache";
    sentences.push_back(
        str_format("%s %s (%s; on the last: %s)", method.c_str(), what.c_str(), items.c_str(), why.c_str()));
  }
  return sentences;
}

std::string summary_markdown(const Summary& summary, const std::string& title, const std::string& notes) {
  std::string text = "# " + title + "\n\n" + notes + "\n" + legend(summary);
  const std::vector<std::string> idle = idle_methods(summary);
  for (const std::string& sentence : idle) text += "- " + sentence + "\n";
  if (!idle.empty()) text += "\n";
  text +=
      "| method | items | average | to full | density | KV kept | KV MiB | sparse | compressed | prompt s | answer s "
      "|\n";
  text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const std::string& method : summary.methods) {
    const Cell& cell = summary.all.at(method);
    text += str_format("| %s | %lld | %s | %s | %.3f | %.3f | %.2f | %lld | %lld | %.2f | %.2f |\n", method.c_str(),
                       static_cast<long long>(cell.items), points(cell.score).c_str(),
                       difference(cell.to_reference).c_str(), cell.density, cell.kv_kept, cell.kv_bytes / (1 << 20),
                       static_cast<long long>(cell.sparse), static_cast<long long>(cell.compressed), cell.prompt_s,
                       cell.decode_s);
  }
  return text + "\n" + task_table(summary);
}

}  // namespace ei::eval
