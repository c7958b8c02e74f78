// The subcommands. Each gets checked settings and returns an error (main turns it into a line and an exit code) or the
// exit code.
#pragma once

#include "base/result.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "cli/signals.h"

namespace ei::cli {

struct CommandContext {
  const Settings& settings;
  Console& console;
  Interrupts& interrupts;
};

Result<int> command_run(const CommandContext& context);
Result<int> command_chat(const CommandContext& context);
Result<int> command_info(const CommandContext& context);
Result<int> command_tokenize(const CommandContext& context);
Result<int> command_bench(const CommandContext& context);
Result<int> command_perplexity(const CommandContext& context);
Result<int> command_eval(const CommandContext& context);
Result<int> command_inspect(const CommandContext& context);
Result<int> command_demo(const CommandContext& context);
Result<int> command_methods(const CommandContext& context);
Result<int> command_serve(const CommandContext& context);

// entropyinfer COMMAND ...: everything but the process itself. Returns the exit code.
int main_with_arguments(int count, char** arguments);

}  // namespace ei::cli
