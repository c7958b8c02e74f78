#include "cli/kv_options.h"

#include <functional>

#include "policy/registry.h"

namespace ei::cli {

namespace {
using policy::KvOptions;

constexpr unsigned kGenerates = kRun | kChat | kInspect | kBench | kPerplexity | kDemo;

using ApplyKv = std::function<Status(KvOptions&, const std::string&)>;

struct KvFlag {
  std::string_view name;  // with its dashes
  std::string_view value;
  std::string_view help;
  ApplyKv apply;
};

ApplyKv whole_number(int32_t KvOptions::*field, int64_t low) {
  return [=](KvOptions& options, const std::string& value) -> Status {
    EI_ASSIGN_OR_RETURN(const int64_t number, parse_whole(value, low, kMaxBudget));
    options.*field = static_cast<int32_t>(number);
    return {};
  };
}

// Two words for two values.
template <typename Enum>
ApplyKv either(Enum KvOptions::*field, const std::string& first, Enum first_value, const std::string& second,
               Enum second_value) {
  return [=](KvOptions& options, const std::string& value) -> Status {
    if (value != first && value != second) {
      return make_error(ErrorKind::kUsage, "'%s' is neither %s nor %s", value.c_str(), first.c_str(), second.c_str());
    }
    options.*field = value == first ? first_value : second_value;
    return {};
  };
}

const std::vector<KvFlag>& kv_table() {
  using policy::GroupAggregate;
  using policy::KvRule;
  using policy::KvShare;
  using policy::Pooling;
  static const std::vector<KvFlag> table = {
      {"--kv-policy", "NAME", "KV cache: full (keep all) or latent (keep what the last queries attend to)",
       either(&KvOptions::rule, "full", KvRule::kKeepAll, "latent", KvRule::kLatent)},
      {"--kv-budget", "N", "latent KV: slots per kv_head behind a compression, the window included",
       whole_number(&KvOptions::budget, 1)},
      {"--kv-share", "KIND",
       "latent KV: flat (each kv_head keeps the budget) or adaptive (a layer keeps its best slots, whichever kv_head "
       "they belong to)",
       either(&KvOptions::share, "flat", KvShare::kFlat, "adaptive", KvShare::kAdaptive)},
      {"--kv-gap", "N", "latent KV: generated tokens to wait for; -1: compress when the prompt has been read",
       whole_number(&KvOptions::gap, -1)},
      {"--kv-window", "N", "latent KV: last queries that decide, and last slots that always stay",
       whole_number(&KvOptions::window, 1)},
      {"--kv-repeat", "N", "latent KV: compress again every N generated tokens when over the budget; 0: only once",
       whole_number(&KvOptions::repeat, 0)},
      {"--kv-pooling", "KIND", "latent KV: average or max over neighbouring slots",
       either(&KvOptions::pooling, "average", Pooling::kAverage, "max", Pooling::kMax)},
      {"--kv-kernel", "N", "latent KV: slots pooled together, odd", whole_number(&KvOptions::kernel, 1)},
      {"--kv-aggregate", "KIND", "latent KV: mean or max over the query heads of a kv_head",
       either(&KvOptions::aggregate, "mean", GroupAggregate::kMean, "max", GroupAggregate::kMax)},
  };
  return table;
}

std::string key_of(const KvFlag& flag) { return std::string(flag.name.substr(2)); }

const std::string* given_value(const Settings& settings, const KvFlag& flag) {
  const auto found = settings.method_options.find(key_of(flag));
  return found == settings.method_options.end() ? nullptr : &found->second;
}

// The preset with everything that was given on top, meaningful or not.
Result<KvOptions> merged(const Settings& settings) {
  const policy::Method* method = policy::find_method(settings.method);
  if (method == nullptr) return make_error(ErrorKind::kUsage, "unknown method '%s'", settings.method.c_str());
  KvOptions options = method->kv;
  for (const KvFlag& flag : kv_table())
    if (const std::string* value = given_value(settings, flag)) EI_RETURN_IF_ERROR(flag.apply(options, *value));
  return options;
}
}  // namespace

std::vector<Option> kv_flags() {
  std::vector<Option> flags;
  for (const KvFlag& flag : kv_table()) {
    const std::string key = key_of(flag);
    Binding binding;
    binding.set = [key, apply = flag.apply](Settings& settings, const std::string& value) -> Status {
      KvOptions scratch;  // only to see whether the value can be read
      EI_RETURN_IF_ERROR(apply(scratch, value));
      settings.method_options[key] = value;
      return {};
    };
    binding.show = [key](const Settings& settings) {
      const auto found = settings.method_options.find(key);
      return found == settings.method_options.end() ? std::string() : found->second;
    };
    flags.push_back({flag.name, flag.value, flag.help, kGenerates, std::move(binding)});
  }
  return flags;
}

std::vector<std::string> idle_kv_flags(const Settings& settings) {
  std::vector<std::string> idle;
  const Result<KvOptions> options = merged(settings);
  if (!options.ok() || options->rule != policy::KvRule::kKeepAll) return idle;
  for (const KvFlag& flag : kv_table())
    if (flag.name != "--kv-policy" && given_value(settings, flag) != nullptr) idle.push_back(key_of(flag));
  return idle;
}

Result<KvOptions> kv_options(const Settings& settings) {
  if (const std::vector<std::string> idle = idle_kv_flags(settings); !idle.empty()) {
    return make_error(ErrorKind::kUsage,
                      "--%s has no meaning while the whole KV cache is kept; give --kv-policy latent as well",
                      idle.front().c_str());
  }
  EI_ASSIGN_OR_RETURN(const KvOptions options, merged(settings));
  EI_RETURN_IF_ERROR(policy::validate(options));
  return options;
}

}  // namespace ei::cli
