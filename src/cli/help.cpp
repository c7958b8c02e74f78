#include <algorithm>

#include "cli/options.h"

namespace ei::cli {

namespace {
constexpr size_t kHelpColumn = 34;

std::string heading(const Option& option) {
  std::string line = "  ";
  for (const std::string& spelling : split(option.spellings, ' ')) {
    if (line.size() > 2) line += ", ";
    line += spelling;
  }
  if (!option.binding.is_switch) line.append(" ").append(option.value);
  return line;
}

std::string describe(const Option& option, const Settings& standards) {
  std::string line = heading(option);
  // A long heading stands on a line of its own.
  line += line.size() + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ')
                                        : std::string(kHelpColumn - line.size(), ' ');
  line += option.help;
  const std::string standard = option.binding.show(standards);
  if (!standard.empty()) line += " (default: " + standard + ")";
  return line + "\n";
}
}  // namespace

std::string main_help() {
  std::string help = "entropyinfer: long-context inference of GGUF models\n\nusage: entropyinfer COMMAND [options]\n\n";
  for (const CommandEntry& entry : commands()) {
    help += str_format("  %-12s %s\n", std::string(entry.name).c_str(), std::string(entry.summary).c_str());
  }
  help +=
      "\n  -h, --help     this text, or the options of a command behind it\n"
      "  --version      version and commit\n"
      "  --list-devices where this build can compute\n";
  return help;
}

std::string command_help(const CommandEntry& entry, bool all) {
  std::string help =
      "usage: entropyinfer " + std::string(entry.name) + " [options]\n" + std::string(entry.summary) + "\n\n";
  const Settings standards = default_settings(entry.command);
  bool more = false;
  for (const Option& option : options()) {
    if ((option.commands & entry.command) == 0) continue;
    more = more || option.research;
    if (all || !option.research) help += describe(option, standards);
  }
  if (more && !all) help += "\nFor research there are more: --help-all.\n";
  help +=
      "\nEvery option can stand in the environment too: EI_ARG_ and its long name, as in EI_ARG_CTX_SIZE=4096.\n"
      "A flag beats the environment, the environment beats the config file.\n"
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 model, 4 memory, 5 device, 130 interrupted.\n";
  return help;
}

}  // namespace ei::cli
