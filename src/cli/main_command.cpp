#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/device_choice.h"
#include "cli/options.h"
#include "cli/parse.h"
#include "cli/setup.h"
#include "cli/texts.h"
#include "cli/version.h"

namespace ei::cli {

namespace {
// An error before there are settings. A log file that cannot be written is the smaller trouble.
int refuse(const Error& error, const std::string& log_file) {
  Settings settings;
  settings.log_file = log_file;
  Result<Console> console = Console::open(settings);
  if (!console.ok()) console = Console::open({});
  if (console.ok()) console->fail(error.message);
  return exit_code(error.kind);
}

int print_text(const std::string& text) {
  Result<Console> console = Console::open({});
  return console.ok() && console->print(text) ? 0 : exit_code(ErrorKind::kRuntime);
}

Result<int> dispatch(Command command, const CommandContext& context) {
  switch (command) {
    case kRun: return command_run(context);
    case kChat: return command_chat(context);
    case kInfo: return command_info(context);
    case kTokenize: return command_tokenize(context);
    case kBench: return command_bench(context);
    case kPerplexity: return command_perplexity(context);
    case kEval: return command_eval(context);
    case kInspect: return command_inspect(context);
    case kDemo: return command_demo(context);
    case kMethods: return command_methods(context);
#if defined(EI_NO_SERVER)
    case kServe: return Error{ErrorKind::kUsage, "this program was built without its server (EI_SERVER=OFF)"};
#else
    case kServe: return command_serve(context);
#endif
  }
  return Error{ErrorKind::kUsage, "unknown command"};
}

// With the limit that is the likely reason, where there is one.
std::string out_of_memory() {
  const int64_t space = address_space_bytes();
  if (space < 0) return "out of memory";
  return "out of memory: ulimit -v allows " + format_bytes(static_cast<double>(space));
}

// Where memory ran out so that nobody below could say it.
Result<int> dispatch_guarded(Command command, const CommandContext& context) {
  try {
    return dispatch(command, context);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kMemory, out_of_memory()};
  }
}

int run_command(const CommandEntry& entry, const Settings& settings, Interrupts& interrupts) {
  Result<Console> console = Console::open(settings);
  if (!console.ok()) return refuse(console.error(), "");
  for (const std::string& note : settings.notes) console->note("note: " + note);
  Result<Settings> read = read_texts(settings);
  if (read.ok()) settle_device(*read, *console);
  const Result<int> code =
      read.ok() ? dispatch_guarded(entry.command, {*read, *console, interrupts}) : Result<int>(read.error());
  if (code.ok()) return *code;
  // Stdout takes no more: nobody reads it (a closed pipe), or it has been said why.
  if (!console->stdout_closed()) console->fail(code.error().message);
  return exit_code(code.error().kind);
}

// A standard descriptor that is closed would go to the next file that is opened, and what is meant for the terminal
// into it. Writing to stdout and reading from stdin fail as before; what goes to stderr goes nowhere.
void fill_standard_descriptors() {
  for (const auto& [descriptor, flags] :
       {std::pair{STDIN_FILENO, O_WRONLY}, std::pair{STDOUT_FILENO, O_RDONLY}, std::pair{STDERR_FILENO, O_WRONLY}}) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      static_cast<void>(::open("/dev/null", flags));  // takes the lowest that is free
  }
}

int run_main(int count, char** arguments) {
  fill_standard_descriptors();
  Interrupts interrupts;
  const std::vector<std::string> words(arguments + (count > 0 ? 1 : 0), arguments + count);
  const Environment environment = [](const char* name) { return std::getenv(name); };
  if (words.empty()) {
    return refuse({ErrorKind::kUsage, "no command given; see entropyinfer --help"},
                  find_log_file(~0u, words, environment));
  }
  if (words[0] == "-h" || words[0] == "--help" || words[0] == "help") {
    if (words.size() == 1 || words[1] == "help") return print_text(main_help());
    if (const CommandEntry* asked = find_command(words[1])) return print_text(command_help(*asked, HelpPage::kFirst));
    return refuse(
        {ErrorKind::kUsage, "no help for '" + words[1] + "'" + command_hint(words[1]) + "; see entropyinfer --help"},
        "");
  }
  if (words[0] == "--version") return print_text(version_text() + "\n");
  if (words[0] == "--list-devices") {
    const bool json = words.size() == 2 && words[1] == "--json";
    if (words.size() > 1 && !json) return refuse({ErrorKind::kUsage, "--list-devices takes nothing but --json"}, "");
    return print_text(device_list(json));
  }
  const CommandEntry* entry = find_command(words[0]);
  const std::span<const std::string> rest(words.begin() + 1, words.end());
  if (entry == nullptr) {
    const std::string why = words[0].starts_with('-')
                                ? "a command stands in front of " + words[0] + ", as in entropyinfer run " + words[0]
                                : "unknown command '" + words[0] + "'" + command_hint(words[0]);
    return refuse({ErrorKind::kUsage, why + "; see entropyinfer --help"}, find_log_file(~0u, words, environment));
  }
  const Result<Settings> settings = parse_settings(*entry, rest, environment);
  if (!settings.ok()) return refuse(settings.error(), find_log_file(entry->command, rest, environment));
  if (settings->help_all) return print_text(command_help(*entry, HelpPage::kAll));
  if (settings->help_methods) return print_text(command_help(*entry, HelpPage::kMethods));
  if (settings->help) return print_text(command_help(*entry, HelpPage::kFirst));
  if (settings->version) return print_text(version_text() + "\n");
  if (settings->list_devices) return print_text(device_list(settings->json));
  return run_command(*entry, *settings, interrupts);
}

}  // namespace

int main_with_arguments(int count, char** arguments) {
  try {
    return run_main(count, arguments);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "entropyinfer: out of memory\n");  // making a longer text could throw again
    return exit_code(ErrorKind::kMemory);
  }
}

}  // namespace ei::cli
