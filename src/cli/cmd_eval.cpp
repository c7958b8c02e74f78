// eval: what methods lose. Answers are generated (eval_generate.h) or, with --teacher-forced, read (eval_forced.h).
#include "cli/command.h"
#include "cli/eval_flags.h"
#include "cli/eval_forced.h"
#include "cli/eval_generate.h"
#include "eval/items/files.h"
#include "eval/items/registry.h"

namespace ei::cli {

namespace {
std::string task_list() {
  std::string text = "tasks (group, metric)\n";
  for (const eval::TaskEntry& entry : eval::task_entries()) {
    text += str_format("  %-16s %-14s %-13s %s\n", std::string(entry.name).c_str(), std::string(entry.group).c_str(),
                       std::string(entry.metric).c_str(), std::string(entry.summary).c_str());
  }
  text += "files of JSON lines, KIND:FILE\n";
  for (const eval::FileKind& kind : eval::file_kinds())
    text += str_format("  %-16s %s\n", std::string(kind.name).c_str(), std::string(kind.summary).c_str());
  text += "metrics\n";
  for (const eval::Metric& metric : eval::metrics())
    text += str_format("  %-16s %s\n", std::string(metric.name).c_str(), std::string(metric.summary).c_str());
  return text;
}
}  // namespace

Result<int> command_eval(const CommandContext& context) {
  EI_RETURN_IF_ERROR(check_eval_mode(context.settings));
  if (context.settings.list_tasks) return context.console.print(task_list()) ? 0 : exit_code(ErrorKind::kRuntime);
  return context.settings.teacher_forced ? evaluate_forced(context) : evaluate_generated(context);
}

}  // namespace ei::cli
