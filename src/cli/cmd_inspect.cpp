// inspect: reads a prompt, answers it, and writes a page that shows what was read, chosen and kept on the way.
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/kv_options.h"
#include "cli/setup.h"
#include "report/inspection.h"
#include "report/page.h"
#include "report/report_file.h"

namespace ei::cli {

namespace {
std::string to_json(const Settings& settings, const RunReport& report) {
  nlohmann::ordered_json object = nlohmann::ordered_json::parse(report_json(report));
  object["report"] = settings.report;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
}  // namespace

Result<int> command_inspect(const CommandContext& context) {
  const Settings& settings = context.settings;
  const Console& console = context.console;
  EI_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(settings));
  EI_RETURN_IF_ERROR(check_text(settings.system_prompt, "the system prompt"));
  report::ReportFile file(settings.report);
  EI_RETURN_IF_ERROR(file.check());
  EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(settings, console));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(*engine, settings, context.interrupts.stop_now()));
  if (session->planner() != nullptr) session->planner()->keep_blocks(true);
  EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokens_of(settings, engine->tokenizer(), prompt));

  GenerateOptions options = generate_options(settings, context.interrupts);
  options.sampler.ignore_eos = false;  // the end token may come: the page shows where the answer ends
  EI_ASSIGN_OR_RETURN(const Answer made,
                      answer(context, *session, {.prompt = tokens, .stream = false, .options = options}));
  const auto prompt_count = static_cast<int64_t>(tokens.size());
  tokens.insert(tokens.end(), made.tokens.begin(), made.tokens.end());
  const std::string data = report::inspection_json({.session = *session,
                                                    .tokens = tokens,
                                                    .prompt_tokens = prompt_count,
                                                    .kv = kv,
                                                    .run = report_json(made.report)});
  context.interrupts.enter(Interrupts::Phase::kAnswer);  // a Ctrl-C does not cut the file off
  EI_RETURN_IF_ERROR(file.put(report::make_page(data)));
  EI_ASSIGN_OR_RETURN(const int64_t bytes, file.commit());
  context.interrupts.enter(Interrupts::Phase::kOutside);
  if (settings.json && !context.console.print_line(to_json(settings, made.report)))
    return exit_code(ErrorKind::kRuntime);
  print_timings(console, made.report);
  console.note(str_format("wrote %s (%s): open it in a browser", settings.report.c_str(),
                          format_bytes(static_cast<double>(bytes)).c_str()));
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
