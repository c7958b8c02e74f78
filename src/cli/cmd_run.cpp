// run: one prompt, one answer. The prompt becomes a user message when the model has a chat template; --raw completes it
// as it is.
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/cached_prompt.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/kv_options.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "engine/fits.h"
#include "report/plan_file.h"

namespace ei::cli {

namespace {
constexpr size_t kShownPromptBytes = 400;

// Writes the logits of every prompt position, then takes the last token back so that the answer can start from it.
Status write_logits(const CommandContext& context, Session& session, std::span<const int32_t> prompt) {
  report::ReportFile file(context.settings.logits_out);
  EI_RETURN_IF_ERROR(file.check());
  Status written;
  Progress progress(context.console, "reading the prompt");
  context.interrupts.enter(Interrupts::Phase::kPrompt);
  const Status status = session.evaluate(
      prompt,
      [&](int64_t, std::span<const float> logits) {
        const std::string_view bytes(reinterpret_cast<const char*>(logits.data()), logits.size_bytes());
        if (written.ok()) written = file.put(bytes);
      },
      [&](const PrefillProgress& state) { progress.update(state); });
  context.interrupts.enter(Interrupts::Phase::kOutside);
  EI_RETURN_IF_ERROR(status);
  EI_RETURN_IF_ERROR(written);
  EI_RETURN_IF_ERROR(file.commit());
  return session.truncate(static_cast<int64_t>(prompt.size()) - 1);
}

Status write_plan(const CommandContext& context, const Session& session, int64_t prompt_tokens) {
  const Settings& settings = context.settings;
  EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
  report::ReportFile file(settings.dump_plan);
  context.interrupts.enter(Interrupts::Phase::kAnswer);  // a Ctrl-C does not cut the file off
  EI_RETURN_IF_ERROR(report::put_plan(
      {.session = session, .method = settings.method, .prompt_tokens = prompt_tokens, .kv = kv}, file));
  EI_ASSIGN_OR_RETURN(const int64_t bytes, file.commit());
  context.interrupts.enter(Interrupts::Phase::kOutside);
  context.console.note(
      str_format("wrote %s (%s)", settings.dump_plan.c_str(), format_bytes(static_cast<double>(bytes)).c_str()));
  return {};
}

void show_prompt(const CommandContext& context, const std::string& prompt) {
  const bool wanted = context.console.stderr_is_terminal() && !context.settings.no_display_prompt;
  if (!wanted || context.settings.json) return;
  // The question stands at the end; of what it is about the size is enough.
  const std::string question = context.settings.prompt.value_or("");
  std::string shown = question.empty() ? prompt : question;
  if (shown.size() > kShownPromptBytes) shown = shown.substr(shown.size() - kShownPromptBytes);
  while (!text::valid_utf8(shown)) shown.erase(0, 1);
  const size_t hidden = prompt.size() - shown.size();
  const std::string lead = hidden > 0 ? "[" + format_bytes(static_cast<double>(hidden)) + " of text] ... " : "";
  context.console.note(context.console.dim(lead + shown));
}
}  // namespace

Result<int> command_run(const CommandContext& context) {
  const Settings& settings = context.settings;
  EI_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(settings));
  EI_RETURN_IF_ERROR(check_text(settings.system_prompt, "the system prompt"));
  const bool dumps_plan = !settings.dump_plan.empty();
  if (dumps_plan) EI_RETURN_IF_ERROR(report::ReportFile(settings.dump_plan).check());
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(settings, context.console));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(*engine, settings, context.interrupts.stop_now()));
  EI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokens_of(settings, engine->tokenizer(), prompt));
  CachedPrompt cache(context, *session);
  EI_ASSIGN_OR_RETURN(const int64_t cached, cache.load(tokens));
  show_prompt(context, prompt);
  if (dumps_plan && session->planner() != nullptr) session->planner()->keep_blocks(true);

  AnswerRequest request{.prompt = tokens,
                        .cached = cached,
                        .stream = !settings.json,
                        .json = settings.json,
                        .options = generate_options(settings, context.interrupts),
                        .on_prompt_read = [&cache] { return cache.save(); }};
  const double start = now_s();
  if (!settings.logits_out.empty()) {
    EI_RETURN_IF_ERROR(check_prompt_fits(*session, static_cast<int64_t>(tokens.size())));
    EI_RETURN_IF_ERROR(write_logits(context, *session, tokens));
    request.cached = static_cast<int64_t>(tokens.size()) - 1;
  }
  const double read_s = settings.logits_out.empty() ? 0 : now_s() - start;
  Result<Answer> answered = answer(context, *session, request);
  if (!answered.ok() && answered.error().kind == ErrorKind::kInterrupted) {
    if (const Status saved = cache.save_part(); !saved.ok()) context.console.fail(saved.error().message);
  }
  EI_ASSIGN_OR_RETURN(Answer made, std::move(answered));
  // The prompt may have been read for its logits just now, not found in a cache.
  made.report.cached_tokens = cached;
  made.report.ttft_s += read_s;
  made.report.stats = session->stats();
  context.console.print_line(settings.json ? report_json(made.report) : "");
  if (context.console.stdout_closed()) return exit_code(ErrorKind::kRuntime);
  print_timings(context.console, made.report);
  if (dumps_plan) EI_RETURN_IF_ERROR(write_plan(context, *session, static_cast<int64_t>(tokens.size())));
  if (made.report.failure) return *made.report.failure;
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
