#include <algorithm>
#include <array>

#include "cli/options.h"
#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
constexpr size_t kColumns = 100;
constexpr size_t kHelpColumn = 34;
constexpr size_t kNameColumn = 25;  // of methods

// What everyone needs, in this order.
constexpr std::array<std::string_view, 6> kFirst = {"model", "prompt", "file", "predict", "ctx-size", "method"};

bool comes_first(const Option& option) {
  return std::find(kFirst.begin(), kFirst.end(), option.name()) != kFirst.end();
}

// `text` behind `line`, from `column` on, in lines of kColumns. A line that is too long already stands alone.
std::string hang(std::string line, size_t column, const std::string& text) {
  std::string all;
  const auto next_line = [&] {
    all += line + "\n";
    line.clear();
  };
  if (line.size() + 2 > column) next_line();
  line.resize(column, ' ');
  for (const std::string& word : split(text, ' ')) {
    if (line.size() > column && line.size() + 1 + word.size() > kColumns) {
      next_line();
      line.resize(column, ' ');
    }
    if (line.size() > column) line += ' ';
    line += word;
  }
  next_line();
  return all;
}

std::string describe(const Option& option, const Settings& standards) {
  std::string line = "  ";
  for (const std::string& spelling : split(option.spellings, ' ')) {
    if (line.size() > 2) line += ", ";
    line += spelling;
  }
  if (!option.binding.is_switch) line.append(" ").append(option.value);
  std::string help(option.help);
  const std::string standard = option.binding.show(standards);
  if (!standard.empty()) help += " (default: " + standard + ")";
  return hang(line, kHelpColumn, help);
}

// How much a method reads and keeps, by the options that say so.
template <typename Options>
void add_amounts(const std::vector<policy::OptionSpec<Options>>& table, const Options& preset, std::string& amounts) {
  constexpr std::array<std::string_view, 5> kAmounts = {"density", "cover", "base-budget", "kv-budget", "kv-read"};
  for (const policy::OptionSpec<Options>& spec : table) {
    const std::string value = policy::option_default(spec, preset);
    const bool shown = std::find(kAmounts.begin(), kAmounts.end(), spec.name) != kAmounts.end();
    if (!shown || value.empty() || value == "0") continue;
    amounts += (amounts.empty() ? "" : ", ") + std::string(spec.name) + " " + value;
  }
}

std::string method_list() {
  std::string list = "\nMethods (`entropyinfer methods` says whose they are and what is different here):\n";
  for (const policy::Method& method : policy::methods()) {
    std::string amounts;
    add_amounts(policy::prefill_option_table(), method.prefill, amounts);
    add_amounts(policy::kv_option_table(), method.kv, amounts);
    if (!amounts.empty()) amounts = " (" + amounts + ")";
    list += hang("  " + std::string(method.name), kNameColumn, std::string(method.summary) + amounts);
  }
  return list;
}

std::vector<const Option*> taken_by(const CommandEntry& entry) {
  std::vector<const Option*> taken;
  for (const Option& option : options())
    if ((option.commands & entry.command) != 0) taken.push_back(&option);
  return taken;
}

// The options of each section that `shown` wants, under its heading.
template <typename Shown>
std::string sections(const std::vector<const Option*>& taken, const Settings& standards, Shown shown) {
  std::string text;
  std::string_view section;
  for (const Option* option : taken) {
    if (!shown(*option)) continue;
    if (option->section != section) text += "\n" + std::string(option->section) + ":\n";
    section = option->section;
    text += describe(*option, standards);
  }
  return text;
}

std::string first_page(const std::vector<const Option*>& taken, const Settings& standards) {
  std::string page;
  bool chooses = false;
  bool research = false;
  for (const std::string_view name : kFirst) {
    for (const Option* option : taken) {
      if (option->name() != name) continue;
      page += describe(*option, standards);
      chooses = chooses || name == "method";
    }
  }
  for (const Option* option : taken) research = research || (option->research && option->of_methods);
  if (chooses) page += method_list();
  page += sections(taken, standards, [](const Option& option) { return !option.research && !comes_first(option); });
  if (research) page += "\nFor research methods have more options: --help-methods.\n";
  return page;
}
}  // namespace

std::string main_help() {
  std::string help = "entropyinfer: long-context inference of GGUF models\n\nusage: entropyinfer COMMAND [options]\n\n";
  for (const CommandEntry& entry : commands())
    help += hang("  " + std::string(entry.name), 15, std::string(entry.summary));
  help +=
      "\n  help COMMAND   the options of a command, as COMMAND --help\n"
      "  -h, --help     this text\n"
      "  --version      version and commit\n"
      "  --list-devices where this build can compute\n";
  return help;
}

std::string command_help(const CommandEntry& entry, HelpPage page) {
  std::string help = "usage: entropyinfer " + std::string(entry.name) + " [options]\n" + std::string(entry.summary) +
                     (page == HelpPage::kFirst ? "\n\n" : "\n");
  const Settings standards = default_settings(entry.command);
  const std::vector<const Option*> taken = taken_by(entry);
  if (page == HelpPage::kFirst) help += first_page(taken, standards);
  if (page == HelpPage::kMethods)
    help += sections(taken, standards, [](const Option& option) { return option.of_methods; });
  if (page == HelpPage::kAll) help += sections(taken, standards, [](const Option&) { return true; });
  help +=
      "\nEvery option can stand in the environment too: EI_ARG_ and its long name, as in\n"
      "EI_ARG_CTX_SIZE=4096. A flag beats the environment, the environment beats the config file.\n"
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 model, 4 memory, 5 device, 130 interrupted.\n";
  return help;
}

}  // namespace ei::cli
