#include "cli/llama_switches.h"

#include <algorithm>
#include <limits>

namespace ei::cli {

namespace {
// A whole number, or one of `words`, that changes nothing.
Binding number_without_effect(const char* name, const char* why, const std::vector<std::string>& words = {}) {
  Binding binding = without_effect(name, why);
  const auto note = binding.set;
  binding.set = [note, words](Settings& settings, const std::string& value) -> Status {
    const bool word = std::find(words.begin(), words.end(), value) != words.end();
    if (!word) EI_RETURN_IF_ERROR(parse_whole(value, -1, std::numeric_limits<int64_t>::max()));
    return note(settings, value);
  };
  binding.is_switch = false;
  return binding;
}
}  // namespace

// Hands type them; they must not stop anybody, nor pass for something they are not.
std::vector<Option> llama_switches() {
  const std::vector<std::string> on_off = {"on", "off", "auto", "1", "0"};
  const auto silent = [](Option option) {
    option.research = true;
    return option;
  };
  return {
      silent({"--jinja", "", "accepted: templates are always Jinja", kSamples,
              without_effect("--jinja", "chat templates are always Jinja")}),
      silent({"-cnv --conversation", "", "accepted: chat is a conversation, run answers once", kRun | kChat,
              without_effect("--conversation", "chat is a conversation, run answers once")}),
      silent({"-i --interactive", "", "accepted: chat is interactive, run answers once", kRun | kChat,
              without_effect("--interactive", "chat is interactive, run answers once")}),
      silent({"--keep", "N", "accepted: there is no context shift", kGenerate,
              number_without_effect("--keep", "a full context always ends the answer")}),
      silent({"--log-disable", "", "accepted: nothing but progress, timings and notes is logged", kSamples,
              without_effect("--log-disable", "2>/dev/null leaves out what goes to stderr")}),
      silent({"-fa --flash-attn", "on|off|auto", "accepted: attention never stores its scores", kCompute | kBench,
              without_effect("--flash-attn", "attention never stores its scores", on_off)}),
      silent({"-ngl --gpu-layers --n-gpu-layers", "N", "accepted: --device says where all layers compute",
              kCompute | kBench,
              number_without_effect("--gpu-layers", "--device says where all layers compute (--list-devices)",
                                    {"all", "auto"})}),
      silent({"--no-warmup", "", "accepted: nothing is run in front", kGenerate,
              without_effect("--no-warmup", "nothing is run in front")}),
      silent({"--simple-io", "", "accepted: lines are read as they come", kGenerate,
              without_effect("--simple-io", "lines are read as they come")}),
      silent({"--no-escape", "", "accepted: -p is taken as it is unless -e is given", kGenerate,
              without_effect("--no-escape", "-p is taken as it is unless -e is given")}),
      silent({"--no-context-shift", "", "accepted: there is no context shift", kGenerate,
              without_effect("--no-context-shift", "a full context always ends the answer")}),
      silent({"--no-perf", "", "accepted: timings cost nothing", kGenerate,
              without_effect("--no-perf", "timings cost nothing; 2>/dev/null leaves them out")}),
      silent({"--check-tensors", "", "accepted: every file is checked", kCompute | kBench,
              without_effect("--check-tensors", "every file is checked")}),
      silent({"-mg --main-gpu", "N", "accepted: one device computes", kCompute | kBench,
              number_without_effect("--main-gpu", "--device says where everything computes (--list-devices)")}),
      silent({"-sm --split-mode", "none|layer|row", "accepted: one device computes", kCompute | kBench,
              without_effect("--split-mode", "one device computes (--list-devices)", {"none", "layer", "row"})}),
      silent({"--numa", "distribute|isolate|numactl", "accepted: threads stay where the system puts them",
              kCompute | kBench,
              without_effect("--numa", "threads stay where the system puts them; taskset and numactl bind them",
                             {"distribute", "isolate", "numactl"})}),
      silent({"--prio", "N", "accepted: nice sets the priority", kCompute | kBench,
              number_without_effect("--prio", "nice sets the priority of a program")}),
      silent({"--poll", "N", "accepted: threads wait as they do", kCompute | kBench,
              number_without_effect("--poll", "idle threads always wait in the same way")}),
      silent({"--verbose-prompt", "", "accepted: tokenize shows the tokens of a text", kGenerate,
              without_effect("--verbose-prompt", "tokenize shows the tokens of a text, --echo the prompt")}),
      silent({"-nkvo --no-kv-offload", "", "accepted: the cache lies where --device computes", kCompute | kBench,
              without_effect("--no-kv-offload", "the cache lies where --device computes")}),
  };
}

}  // namespace ei::cli
