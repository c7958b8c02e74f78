// chat: a conversation at a terminal or over a pipe, a line a message.
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/units.h"
#include "cli/answer.h"
#include "cli/chat_commands.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/kv_options.h"
#include "cli/line_editor.h"
#include "cli/setup.h"
#include "engine/conversation.h"
#include "engine/prompt.h"

namespace ei::cli {

namespace {
// One message of a conversation, answered on the screen.
Result<RunReport> say(const CommandContext& context, Session& session, Conversation& conversation,
                      const std::string& message, bool introduces_model) {
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
                                             .introduces_model = introduces_model,
                                             .options = generate_options(context.settings, context.interrupts)}));
    report = std::move(made.report);
    return report.text;
  }));
  return report;
}

// What an answer cost, on one line; and why the method did nothing.
void print_turn(const Console& console, const RunReport& report, bool says_why_idle) {
  const auto count = [](int64_t tokens) { return static_cast<long long>(tokens); };
  std::string line = counted(report.stats.prompt_tokens, "token") + " read";
  if (report.cached_tokens > 0) line += str_format(" (%lld cached)", count(report.cached_tokens));
  line += str_format(" in %s, %lld generated in %s, %.1f tokens/s; %lld of %lld in the context",
                     format_seconds(report.stats.prompt_s).c_str(), count(report.generated_tokens),
                     format_seconds(report.stats.decode_s).c_str(), report.predicted_per_second(),
                     count(report.kv_tokens_total), count(report.context));
  console.note(console.dim(line));
  if (report.kv_whole)
    console.note(
        console.dim(str_format("%lld tokens were read to answer; the whole text stays for later turns "
                               "(--kv-free gives its memory back)",
                               count(report.kv_tokens_kept))));
  note_full_context(console, report);
  if (!says_why_idle) return;
  for (const std::string& why : report.acted.idle()) console.note("note: " + why);
}

class Talk {
 public:
  Talk(const CommandContext& context, Session& session, Conversation& conversation)
      : context_(context), session_(session), conversation_(conversation), editor_(context.console, terminal_) {}

  Result<int> run() {
    const Settings& settings = context_.settings;
    std::optional<std::string> message;
    if (settings.prompt || !settings.file.empty() || (settings.single_turn && !terminal_)) {
      EI_ASSIGN_OR_RETURN(message, read_prompt(settings));
      EI_ASSIGN_OR_RETURN(const std::optional<int> code, answer_to(*message));
      if (code) return *code;
    } else if (terminal_) {
      introduce_model(session_.engine(), settings, context_.console);
      introduced_ = true;
      context_.console.note("/help lists the commands, Ctrl-D leaves");
    }
    for (;;) {
      message = editor_.read_message();
      if (!message) return 0;
      if (message->empty()) continue;
      EI_ASSIGN_OR_RETURN(const std::optional<int> code, take(*message));
      if (code) return *code;
    }
  }

 private:
  // A line of the user. The exit code when that was all.
  Result<std::optional<int>> take(const std::string& line) {
    const Result<ChatCommand> command = parse_chat_command(line);
    Status status = command.ok() ? Status() : Status(command.error());
    if (command.ok()) {
      switch (command->verb) {
        case ChatVerb::kExit: return std::optional<int>(0);
        case ChatVerb::kHelp: context_.console.note(chat_help()); break;
        case ChatVerb::kClear:
          conversation_.clear();
          about_.clear();
          unanswered_.reset();
          context_.console.note("the conversation begins anew");
          break;
        case ChatVerb::kStats:
          if (last_) print_timings(context_.console, *last_);
          if (!last_) context_.console.note("nothing has been answered yet");
          break;
        case ChatVerb::kSave:
          status = save_conversation(conversation_, command->argument);
          if (status.ok()) say_how_many("in", command->argument);
          break;
        case ChatVerb::kLoad:
          status = load_conversation(conversation_, command->argument);
          if (status.ok()) say_how_many("from", command->argument);
          break;
        case ChatVerb::kRead: status = read_about(command->argument); break;
        case ChatVerb::kRegen: {
          const std::optional<std::string> again = unanswered_ ? unanswered_ : conversation_.take_back();
          if (again) return answer_to(*again);
          context_.console.note("nothing has been said yet");
          break;
        }
        case ChatVerb::kMessage: return answer_to(std::exchange(about_, "") + line);
      }
    }
    // At a terminal a slip costs nothing; a script should hear of it.
    if (!status.ok() && !terminal_) return status.error();
    if (!status.ok()) context_.console.fail(status.error().message);
    return std::optional<int>();
  }

  void say_how_many(const char* where, const std::string& path) const {
    const auto messages = static_cast<int64_t>(conversation_.messages().size());
    context_.console.note(counted(messages, "message") + " " + where + " " + path);
  }

  Status read_about(const std::string& path) {
    EI_ASSIGN_OR_RETURN(std::string text, read_text_file(path, "text"));
    while (text.ends_with('\n')) text.pop_back();
    about_ += text + "\n\n";
    context_.console.note(
        str_format("%s stands in front of the next message", format_bytes(static_cast<double>(text.size())).c_str()));
    return {};
  }

  Result<std::optional<int>> answer_to(const std::string& message) {
    const Settings& settings = context_.settings;
    unanswered_.reset();
    const Result<RunReport> report = [&] {
      const HiddenTyping hidden(terminal_);
      return say(context_, session_, conversation_, message, !introduced_);
    }();
    if (!report.ok()) {
      // At a terminal a message that cannot be answered costs itself, not the conversation.
      const ErrorKind kind = report.error().kind;
      const bool cut_off = kind == ErrorKind::kInterrupted;
      if (!terminal_ || settings.single_turn || !(cut_off || kind == ErrorKind::kUsage)) return report.error();
      if (cut_off) unanswered_ = message;
      cut_off ? context_.console.note(report.error().message + "; /regen reads on")
              : context_.console.fail(report.error().message);
    }
    if (report.ok()) context_.console.print_line(settings.json ? report_json(*report) : "");
    if (context_.console.stdout_closed()) return std::optional<int>(exit_code(ErrorKind::kRuntime));
    if (report.ok()) {
      last_ = *report;
      // That a method did nothing is said once, and again when it has acted in between.
      const std::pair<bool, bool> acted = {report->acted.prefill, report->acted.kv};
      const bool news = std::exchange(told_, acted) != acted;
      settings.verbose ? print_timings(context_.console, *report) : print_turn(context_.console, *report, news);
      if (report->failure) return *report->failure;
    }
    const bool interrupted = context_.interrupts.interrupted();
    if (interrupted && (!terminal_ || settings.single_turn))
      return std::optional<int>(exit_code(ErrorKind::kInterrupted));
    if (settings.single_turn) return std::optional<int>(0);
    context_.interrupts.reset();
    return std::optional<int>();
  }

  const CommandContext& context_;
  Session& session_;
  Conversation& conversation_;
  const bool terminal_ = ::isatty(STDIN_FILENO) == 1;
  LineEditor editor_;
  bool introduced_ = false;                  // the model, before the first question
  std::string about_{};                      // texts for the next message
  std::optional<std::string> unanswered_{};  // a message whose reading was interrupted
  std::optional<RunReport> last_{};
  std::optional<std::pair<bool, bool>> told_{};  // which half of the method had acted when the user last heard of it
};
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
  if (settings.kv_free && kv.rule == policy::KvRule::kKeepAll)
    context.console.note("--kv-free changes nothing here: the method compresses no cache");
  Conversation conversation(*session, std::move(chat), settings.system_prompt);
  return Talk(context, *session, conversation).run();
}

}  // namespace ei::cli
