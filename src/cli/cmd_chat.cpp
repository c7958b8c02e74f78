// chat: a conversation. Every turn renders the whole conversation and reads only what the session does not hold yet.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/setup.h"

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

class Conversation {
 public:
  Conversation(const CommandContext& context, Session& session, text::ChatTemplate chat)
      : context_(context), session_(session), chat_(std::move(chat)) {
    clear();
  }

  void clear() {
    messages_.clear();
    const std::string& system = context_.settings.system_prompt;
    if (!system.empty()) messages_.push_back({.role = "system", .content = system});
  }

  Result<RunReport> say(const std::string& message) {
    EI_RETURN_IF_ERROR(check_text(message, "the message"));
    messages_.push_back({.role = "user", .content = message});
    Result<RunReport> report = reply();
    // A turn without an answer is as if it had not been said.
    if (!report.ok()) messages_.pop_back();
    return report;
  }

 private:
  Result<RunReport> reply() {
    const Settings& settings = context_.settings;
    EI_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                        chat_.apply(messages_, session_.engine().tokenizer(), /*add_generation_prompt=*/true));
    if (prompt.empty()) return Error{ErrorKind::kUsage, "the chat template renders nothing"};
    EI_RETURN_IF_ERROR(check_prompt_fits(session_, static_cast<int64_t>(prompt.size())));
    const int64_t shared = shared_prefix(prompt);
    // A compressed cache cannot go back to everywhere; what is in front of the gap is read again.
    const int64_t kept = session_.rewind_point(shared);
    if (kept < shared) {
      context_.console.detail(str_format("the compressed cache ends at token %lld here: reading %lld tokens again",
                                         static_cast<long long>(kept), static_cast<long long>(shared - kept)));
    }
    EI_RETURN_IF_ERROR(session_.truncate(kept));
    held_.assign(prompt.begin(), prompt.begin() + kept);

    const Result<Answer> made = answer(context_, session_,
                                       {.prompt = prompt,
                                        .cached = kept,
                                        .stream = !settings.json,
                                        .json = settings.json,
                                        .options = generate_options(settings, context_.interrupts)});
    // What was really read decides, also after an interruption.
    held_.assign(prompt.begin(), prompt.end());
    if (made.ok()) held_.insert(held_.end(), made->tokens.begin(), made->tokens.end());
    held_.resize(std::min(held_.size(), static_cast<size_t>(session_.position())));
    if (!made.ok()) return made.error();
    messages_.push_back({.role = "assistant", .content = made->report.text});
    return made->report;
  }

  // How many tokens of `prompt` the session holds already; at least one token is always left to read.
  int64_t shared_prefix(std::span<const int32_t> prompt) const {
    const auto ends = std::mismatch(prompt.begin(), prompt.end(), held_.begin(), held_.end());
    return std::min<int64_t>(ends.first - prompt.begin(), static_cast<int64_t>(prompt.size()) - 1);
  }

  const CommandContext& context_;
  Session& session_;
  text::ChatTemplate chat_;
  std::vector<text::Message> messages_;
  std::vector<int32_t> held_;  // the tokens in the session's cache
};

Result<int> talk(const CommandContext& context, Conversation& conversation) {
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
    const Result<RunReport> report = conversation.say(*message);
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
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(settings, context.console));
  EI_ASSIGN_OR_RETURN(text::ChatTemplate chat, choose_template(settings, engine->tokenizer()));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(*engine, settings, context.interrupts.stop_now()));
  Conversation conversation(context, *session, std::move(chat));
  return talk(context, conversation);
}

}  // namespace ei::cli
