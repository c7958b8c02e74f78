#include "cli/eval_report.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/units.h"
#include "cli/console.h"

namespace ei::cli {

namespace {
using Json = nlohmann::ordered_json;

std::string dump(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

double choosing_share(const SessionStats& stats) {
  return stats.prompt_s > 0 ? (stats.profile_s + stats.plan_s) / stats.prompt_s : 0;
}

double per_context(double seconds, const EvalSide& side) {
  return side.contexts > 0 ? seconds / static_cast<double>(side.contexts) : 0;
}

Json side_json(const EvalSide& side) {
  Json tasks = Json::object();
  for (const auto& [name, count] : side.tasks) tasks[name] = {{"right", count.right}, {"total", count.total}};
  const SessionStats& stats = side.stats;
  const auto ms = [&](double seconds) { return 1000 * per_context(seconds, side); };
  return {{"method", side.method},
          {"method_options", side.method_options},
          {"acted", side.acted.any()},
          {"idle", side.acted.idle()},
          {"tasks", tasks},
          {"ppl", side.prose.value()},
          {"ppl_error", side.prose.error()},
          {"density", stats.density()},
          {"prompt_ms", ms(stats.prompt_s)},
          {"attention_ms", ms(stats.attention_s)},
          {"profile_ms", ms(stats.profile_s)},
          {"plan_ms", ms(stats.plan_s)},
          {"choosing_share", choosing_share(stats)},
          {"kv_bytes", side.kv_bytes}};
}

std::string count_text(const TaskCount& count) {
  return str_format("%.2f (%lld/%lld)",
                    static_cast<double>(count.right) / static_cast<double>(std::max<int64_t>(count.total, 1)),
                    static_cast<long long>(count.right), static_cast<long long>(count.total));
}
}  // namespace

std::string EvalSide::name() const { return method_options.empty() ? method : method + " " + method_options; }

std::string item_json(const Settings& settings, const EvalSide& side, const EvalItem& item) {
  return dump({{"task", item.task},
               {"length", settings.eval_length},
               {"method", side.method},
               {"method_options", side.method_options},
               {"score", item.right ? 1 : 0},
               {"depth", item.depth},
               {"prediction", item.prediction},
               {"answer", item.answer},
               {"density", item.density},
               {"kv_bytes", side.kv_bytes},
               {"compressions", side.compressions}});
}

std::string summary_json(const Settings& settings, const std::string& model, const EvalScores& scores) {
  std::string lines;
  for (const TestedSide& tested : scores.tested) {
    Json object = {{"summary", true},
                   {"model", model},
                   {"length", settings.eval_length},
                   {"contexts", tested.contexts},
                   {"seed", settings.eval_seed},
                   {"haystack", settings.haystack},
                   {"tested", side_json(tested)}};
    if (scores.reference) {
      const eval::Divergence& divergence = tested.divergence;
      object["vs"] = side_json(*scores.reference);
      object["positions"] = divergence.kl().count();
      object["mean_kld"] = divergence.kl().mean();
      object["mean_kld_error"] = divergence.kl().standard_error();
      object["same_top"] = divergence.same_top().mean();
      object["same_top_error"] = divergence.same_top().standard_error();
    }
    lines += dump(object);
  }
  return lines;
}

std::string eval_table(const Settings& settings, const EvalScores& scores) {
  std::vector<const EvalSide*> sides;
  if (scores.reference) sides.push_back(&*scores.reference);
  for (const TestedSide& tested : scores.tested) sides.push_back(&tested);
  size_t width = 20;
  for (const EvalSide* side : sides) width = std::max(width, side->name().size());
  std::string table =
      str_format("%s of %lld tokens, seed %lld\n\n", counted(sides.front()->contexts, "text").c_str(),
                 static_cast<long long>(settings.eval_length), static_cast<long long>(settings.eval_seed));
  const auto line = [&](const std::string& label, const std::function<std::string(const EvalSide&)>& cell) {
    table += str_format("| %-16s |", label.c_str());
    for (const EvalSide* side : sides) table += str_format(" %-*s |", static_cast<int>(width), cell(*side).c_str());
    table += "\n";
  };
  using Distance = std::function<std::string(const eval::Divergence&)>;
  const auto distance_line = [&](const std::string& label, const Distance& cell) {
    line(label, [&](const EvalSide& side) {
      return &side == &*scores.reference ? "-" : cell(static_cast<const TestedSide&>(side).divergence);
    });
  };
  line("", [](const EvalSide& side) { return side.name(); });
  line("---", [&](const EvalSide&) { return std::string(width, '-'); });
  for (const std::string& task : settings.eval_tasks)
    line(task, [&](const EvalSide& side) { return count_text(side.tasks.at(task)); });
  line("perplexity",
       [](const EvalSide& side) { return str_format("%.3f +/- %.3f", side.prose.value(), side.prose.error()); });
  if (scores.reference) {
    distance_line("mean KLD", [](const eval::Divergence& from) {
      return str_format("%.5f +/- %.5f", from.kl().mean(), from.kl().standard_error());
    });
    distance_line("same top token", [](const eval::Divergence& from) {
      return str_format("%.2f +/- %.2f %%", 100 * from.same_top().mean(), 100 * from.same_top().standard_error());
    });
  }
  line("density", [](const EvalSide& side) { return str_format("%.4f", side.stats.density()); });
  line("time per text", [](const EvalSide& side) { return format_seconds(per_context(side.stats.prompt_s, side)); });
  line("choosing blocks",
       [](const EvalSide& side) { return str_format("%.1f %% of it", 100 * choosing_share(side.stats)); });
  return table;
}

}  // namespace ei::cli
