#include "cli/parse.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cli/config_file.h"
#include "cli/method_options.h"

namespace ei::cli {

namespace {
enum class Level { kConfig, kEnvironment, kFlag };

// A value somebody gave for an option, not yet read.
struct Given {
  const Option* option = nullptr;
  std::string value;
  std::string origin;  // " (from EI_ARG_CTX_SIZE)"; empty for a flag
  Level level = Level::kFlag;
};

bool has_spelling(const Option& option, std::string_view word) {
  const std::vector<std::string> spellings = split(option.spellings, ' ');
  return std::find(spellings.begin(), spellings.end(), word) != spellings.end();
}

const Option* find_option(std::string_view word, unsigned command) {
  for (const Option& option : options()) {
    if ((option.commands & command) != 0 && has_spelling(option, word)) return &option;
  }
  return nullptr;
}

// Config files and --vs name options without dashes.
const Option* find_key(const std::string& key, unsigned command) {
  const Option* option = find_option("--" + key, command);
  return option != nullptr ? option : find_option("-" + key, command);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string suggestion(std::string_view word, unsigned command) {
  std::string best;
  size_t distance = 3;
  for (const Option& option : options()) {
    if ((option.commands & command) == 0) continue;
    for (const std::string& spelling : split(option.spellings, ' ')) {
      const size_t candidate = edit_distance(word, spelling);
      if (spelling.size() > 3 && candidate < distance) {
        distance = candidate;
        best = spelling;
      }
    }
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

Error unknown_word(unsigned commands, std::string_view command_name, const std::string& word) {
  const std::string command(command_name);
  if (!word.starts_with('-')) {
    return make_error(ErrorKind::kUsage, "unexpected '%s'; see entropyinfer %s --help", word.c_str(), command.c_str());
  }
  return make_error(ErrorKind::kUsage, "%s does not know %s%s (see entropyinfer %s --help)", command.c_str(),
                    word.c_str(), suggestion(word, commands).c_str(), command.c_str());
}

void add(std::vector<Given>& all, Given given) {
  for (Given& earlier : all) {
    if (earlier.option != given.option) continue;
    const bool join = given.option->binding.repeats && earlier.level == given.level;
    if (join) given.value = earlier.value + given.option->binding.joint + given.value;
    earlier = std::move(given);
    return;
  }
  all.push_back(std::move(given));
}

const std::string* value_of(const std::vector<Given>& all, std::string_view name) {
  for (const Given& given : all) {
    if (given.option->name() == name) return &given.value;
  }
  return nullptr;
}

// The first mistake; what can be read behind it is read all the same.
Status read_flags(unsigned commands, std::string_view command_name, std::span<const std::string> arguments,
                  std::vector<Given>& flags) {
  Status first;
  const auto note = [&](Error error) {
    if (first.ok()) first = std::move(error);
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    std::optional<std::string> value;
    if (const size_t equals = word.find('='); word.starts_with("--") && equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    }
    const Option* option = find_option(word, commands);
    if (option == nullptr) {
      note(unknown_word(commands, command_name, word));
      continue;
    }
    if (!value && option->binding.is_switch) value = "1";
    if (!value && option->binding.may_be_bare) {
      const bool there = i + 1 < arguments.size() && !arguments[i + 1].starts_with('-');
      value = there ? arguments[++i] : "";
    }
    if (!value && i + 1 < arguments.size()) value = arguments[++i];
    if (!value) {
      note(make_error(ErrorKind::kUsage, "%s needs a value: %s %s", word.c_str(), word.c_str(),
                      std::string(option->value).c_str()));
      continue;
    }
    if (commands == kBench && option->name() == "model" && value_of(flags, "model") != nullptr) {
      note(Error{ErrorKind::kUsage, "bench measures one model at a time: give -m once"});
    }
    add(flags, {option, *value, "", Level::kFlag});
  }
  return first;
}

// An empty variable is as good as none.
void read_environment(unsigned commands, const Environment& environment, std::vector<Given>& all) {
  for (const Option& option : options()) {
    if ((option.commands & commands) == 0) continue;
    for (const std::string& spelling : split(option.spellings, ' ')) {
      if (!spelling.starts_with("--")) continue;
      const std::string name = environment_name(spelling.substr(2));
      const char* value = environment(name.c_str());
      if (value == nullptr || *value == '\0') continue;
      std::erase_if(all, [&](const Given& given) { return given.option == &option; });
      add(all, {&option, value, " (from " + name + ")", Level::kEnvironment});
      if (spelling.substr(2) == option.name()) break;  // its own name beats the others
    }
  }
}

// The first mistake, as above.
Status read_config(unsigned commands, const std::string& path, std::vector<Given>& all) {
  EI_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> lines, read_config_file(path));
  Status first;
  for (const ConfigEntry& line : lines) {
    // One file may serve all commands: an option of another command is passed over, an unknown one is an error.
    if (find_key(line.key, ~0u) == nullptr) {
      if (first.ok())
        first = make_error(ErrorKind::kUsage, "%s: unknown option '%s'", line.origin.c_str(), line.key.c_str());
      continue;
    }
    const Option* option = find_key(line.key, commands);
    if (option != nullptr && option->name() == "config") {
      if (first.ok())
        first = make_error(ErrorKind::kUsage, "%s: a config file cannot name another", line.origin.c_str());
      continue;
    }
    if (option != nullptr) add(all, {option, line.value, " (from " + line.origin + ")", Level::kConfig});
  }
  return first;
}

// Flags over the environment.
std::vector<Given> upper_levels(unsigned commands, const std::vector<Given>& flags, const Environment& environment) {
  std::vector<Given> upper;
  read_environment(commands, environment, upper);
  for (const Given& flag : flags) {
    std::erase_if(upper, [&](const Given& given) { return given.option == flag.option; });
    upper.push_back(flag);
  }
  return upper;
}

// A switch that was given as off is as good as not given.
bool is_off(const Given& given) {
  if (!given.option->binding.is_switch) return false;
  const Result<bool> on = parse_switch(given.value);
  return on.ok() && !*on;
}

Status exclude(const CommandEntry& entry, std::vector<Given>& all) {
  for (const Exclusion& pair : exclusions()) {
    if ((pair.commands & entry.command) == 0) continue;
    const auto find = [&](std::string_view name) {
      return std::find_if(all.begin(), all.end(),
                          [&](const Given& given) { return given.option->name() == name && !is_off(given); });
    };
    const auto first = find(pair.first);
    const auto second = find(pair.second);
    if (first == all.end() || second == all.end()) continue;
    if (first->level == second->level && pair.together) continue;
    if (first->level == second->level) {
      return make_error(ErrorKind::kUsage, "--%s and --%s exclude each other%s", std::string(pair.first).c_str(),
                        std::string(pair.second).c_str(), first->origin.c_str());
    }
    all.erase(first->level < second->level ? first : second);
  }
  return {};
}

Status apply(const Given& given, Settings& settings) {
  const Status status = given.option->binding.set(settings, given.value);
  if (status.ok()) return {};
  return make_error(status.error().kind, "--%s: %s%s", std::string(given.option->name()).c_str(),
                    status.error().message.c_str(), given.origin.c_str());
}

Status check_methods(const CommandEntry& entry, const Settings& settings) {
  if (entry.command == kBench) return check_method_options(settings, settings.bench_methods);
  if (entry.command == kDemo) return check_method_options(settings, settings.demo_methods);
  if (entry.command == kEval && !settings.teacher_forced) return {};  // eval_methods.h looks at each of its methods
  return check_method_options(settings, {settings.method});
}
}  // namespace

std::string command_hint(std::string_view word) {
  constexpr size_t kNear = 2;
  for (const CommandEntry& entry : commands())
    if (edit_distance(word, entry.name) <= kNear) return " (did you mean " + std::string(entry.name) + "?)";
  return "";
}

std::string find_log_file(unsigned commands, std::span<const std::string> arguments, const Environment& environment) {
  std::vector<Given> flags;
  static_cast<void>(read_flags(commands, "", arguments, flags));  // who asks knows the mistake
  const std::vector<Given> upper = upper_levels(commands, flags, environment);
  if (const std::string* path = value_of(upper, "log-file")) return *path;
  std::vector<Given> lower;
  if (const std::string* config = value_of(upper, "config")) static_cast<void>(read_config(commands, *config, lower));
  const std::string* path = value_of(lower, "log-file");
  return path == nullptr ? "" : *path;
}

Result<Settings> parse_settings(const CommandEntry& entry, std::span<const std::string> arguments,
                                const Environment& environment) {
  std::vector<Given> flags;
  EI_RETURN_IF_ERROR(read_flags(entry.command, entry.name, arguments, flags));
  Settings settings = default_settings(entry.command);
  for (const Given& flag : flags) {
    const std::string_view name = flag.option->name();
    if (name != "help" && name != "help-all" && name != "version") continue;
    EI_RETURN_IF_ERROR(apply(flag, settings));
    if (settings.help || settings.help_methods || settings.help_all || settings.version)
      return settings;  // these are given whatever else is wrong
  }
  std::vector<Given> upper = upper_levels(entry.command, flags, environment);
  std::vector<Given> all;
  if (const std::string* path = value_of(upper, "config")) EI_RETURN_IF_ERROR(read_config(entry.command, *path, all));
  for (Given& given : upper) add(all, std::move(given));
  EI_RETURN_IF_ERROR(exclude(entry, all));
  for (const Given& given : all) EI_RETURN_IF_ERROR(apply(given, settings));
  EI_RETURN_IF_ERROR(check_methods(entry, settings));
  return settings;
}

Result<Settings> with_overrides(const CommandEntry& entry, const Settings& base, const std::string& overrides,
                                const std::string& flag) {
  Settings settings = base;
  const std::vector<std::string> items = split(overrides, ',');
  // Another method begins at its own preset: what was said about the first one says nothing about it.
  if (std::any_of(items.begin(), items.end(), [](const std::string& item) { return item.starts_with("method="); }))
    settings.method_options.clear();
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    const Option* option = equals == std::string::npos ? nullptr : find_key(item.substr(0, equals), entry.command);
    if (option == nullptr) {
      return make_error(ErrorKind::kUsage, "%s: '%s' is not an option of the form key=value", flag.c_str(),
                        item.c_str());
    }
    EI_RETURN_IF_ERROR(apply({option, item.substr(equals + 1), " (from " + flag + ")", Level::kFlag}, settings));
  }
  if (const Status status = check_methods(entry, settings); !status.ok())
    return make_error(status.error().kind, "%s: %s", flag.c_str(), status.error().message.c_str());
  return settings;
}

}  // namespace ei::cli
