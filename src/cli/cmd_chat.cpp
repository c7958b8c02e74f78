// chat: a conversation at a terminal or over a pipe, a line a message.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/kv_options.h"
#include "cli/setup.h"
#include "engine/conversation.h"
#include "engine/prompt.h"

namespace ei::cli {

namespace {
// The next line of stdin; nullopt at its end.
std::optional<std::string> read_line() {
  char* buffer = nullptr;
  size_t capacity = 0;
  const ssize_t length = ::getline(&buffer, &capacity, stdin);
  std::optional<std::string> line;
  if (length >= 0) line.emplace(buffer, static_cast<size_t>(length));
  std::free(buffer);
  if (line && line->ends_with('\n')) line->pop_back();
  if (line && line->ends_with('\r')) line->pop_back();
  return line;
}

// What the user says next: a line, continued on the next one by a backslash at its end.
std::optional<std::string> read_turn(const Console& console, bool terminal) {
  std::string message;
  for (;;) {
    if (terminal) console.status(console.bold(message.empty() ? "> " : ". "));
    std::optional<std::string> line = read_line();
    if (!line) return message.empty() ? std::nullopt : std::optional(message);
    const bool more = line->ends_with('\\');
    if (more) line->back() = '\n';
    message += *line;
    if (!more) return message;
  }
}

// One message of a conversation, answered on the screen.
Result<RunReport> say(const CommandContext& context, Session& session, Conversation& conversation,
                      const std::string& message) {
  EI_RETURN_IF_ERROR(check_text(message, "the message"));
  RunReport report;
  EI_RETURN_IF_ERROR(conversation.say(message, [&](const Conversation::Turn& turn) -> Result<std::string> {
    const auto [shared, kept] = turn.reuse;
    if (kept < shared) {
      context.console.detail(str_format("the compressed cache ends at token %lld here: reading %lld tokens again",
                                        static_cast<long long>(kept), static_cast<long long>(shared - kept)));
    }
    const bool json = context.settings.json;
    EI_ASSIGN_OR_RETURN(Answer made, answer(context, session,
                                            {.prompt = turn.prompt,
                                             .cached = kept,
                                             .stream = !json,
                                             .json = json,
                                             .options = generate_options(context.settings, context.interrupts)}));
    report = std::move(made.report);
    return report.text;
  }));
  return report;
}

Result<int> talk(const CommandContext& context, Session& session, Conversation& conversation) {
  const Settings& settings = context.settings;
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  std::optional<std::string> message;
  if (settings.prompt || !settings.file.empty() || (settings.single_turn && !terminal)) {
    EI_ASSIGN_OR_RETURN(message, read_prompt(settings));
  }
  if (terminal && !message) context.console.note("/clear forgets the conversation, /exit or Ctrl-D leaves");
  for (;; message.reset()) {
    if (!message) message = read_turn(context.console, terminal);
    if (!message || *message == "/exit") return 0;
    if (*message == "/clear") {
      conversation.clear();
      continue;
    }
    if (message->empty()) continue;
    const Result<RunReport> report = say(context, session, conversation, *message);
    if (!report.ok()) {
      // At a terminal a message that cannot be answered costs itself, not the conversation.
      const ErrorKind kind = report.error().kind;
      const bool stays = terminal && !settings.single_turn && kind == ErrorKind::kUsage;
      if (stays) context.console.fail(report.error().message);
      if (!stays && !(terminal && kind == ErrorKind::kInterrupted)) return report.error();
    }
    if (report.ok()) context.console.print_line(settings.json ? report_json(*report) : "");
    if (context.console.stdout_closed()) return exit_code(ErrorKind::kRuntime);
    if (report.ok()) print_timings(context.console, *report);
    if (report.ok() && report->failure) return *report->failure;
    const bool interrupted = context.interrupts.interrupted();
    if (interrupted && (!terminal || settings.single_turn)) return exit_code(ErrorKind::kInterrupted);
    if (settings.single_turn) return 0;
    context.interrupts.reset();
  }
}
}  // namespace

Result<int> command_chat(const CommandContext& context) {
  const Settings& settings = context.settings;
  EI_RETURN_IF_ERROR(check_text(settings.system_prompt, "the system prompt"));
  EI_ASSIGN_OR_RETURN(const std::string source, template_source(settings));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(settings, context.console));
  EI_ASSIGN_OR_RETURN(text::ChatTemplate chat, choose_template(source, engine->tokenizer()));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(*engine, settings, context.interrupts.stop_now(),
                                  /*goes_on=*/!settings.kv_free && !settings.single_turn));
  EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
  if (settings.kv_free && kv.rule != policy::KvRule::kKeepAll) {
    context.console.warn(
        "--kv-free: the cache keeps what the last answer looked at; later questions about the rest may "
        "fail");
  }
  Conversation conversation(*session, std::move(chat), settings.system_prompt);
  return talk(context, *session, conversation);
}

}  // namespace ei::cli
