// The options, declared once: name, environment twin, help, default and validator of each, and which subcommands take
// it. The command line, the environment, the config file and --help all read this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/option_values.h"
#include "cli/settings.h"

namespace ei::cli {

enum Command : unsigned {
  kRun = 1u << 0,
  kChat = 1u << 1,
  kInfo = 1u << 2,
  kTokenize = 1u << 3,
  kBench = 1u << 4,
  kPerplexity = 1u << 5,
  kDemo = 1u << 6,
  kEval = 1u << 7,
  kInspect = 1u << 8,
  kMethods = 1u << 9,
  kServe = 1u << 10,
};
inline constexpr unsigned kGenerate = kRun | kChat | kInspect;
inline constexpr unsigned kSamples = kGenerate | kServe;
inline constexpr unsigned kCompute = kSamples | kInfo | kPerplexity | kEval | kDemo;

struct CommandEntry {
  Command command;
  std::string_view name;
  std::string_view summary;
};
std::span<const CommandEntry> commands();
const CommandEntry* find_command(std::string_view name);  // null when unknown

struct Option {
  std::string_view spellings;  // "-c --ctx-size": the first with two dashes is its name
  std::string_view value;      // what the value is called in --help
  std::string_view help;
  unsigned commands = 0;  // which subcommands take it
  Binding binding;
  bool research = false;          // left out of the first page of --help
  bool of_methods = false;        // says how a method works
  std::string_view section = {};  // its heading in --help

  std::string_view name() const;  // "ctx-size": the key of a config file
};
const std::vector<Option>& options();

// Where a command begins before anything is said.
Settings default_settings(Command command);

// Pairs that exclude each other when they come from the same place.
struct Exclusion {
  std::string_view first;
  std::string_view second;
  unsigned commands = ~0u;  // where both names mean something else, only here
  bool together = false;    // from one place they go together; from two, the one that beats the other stands alone
};
std::span<const Exclusion> exclusions();

// "--ctx-size" -> "EI_ARG_CTX_SIZE"
std::string environment_name(std::string_view option_name);
// The KV recipes and prefill policies of this build.
const std::vector<std::string>& method_names();

enum class HelpPage : uint8_t {
  kFirst,    // without what is for research
  kMethods,  // the options of methods alone, all of them
  kAll,
};
std::string main_help();
std::string command_help(const CommandEntry& entry, HelpPage page);

}  // namespace ei::cli
