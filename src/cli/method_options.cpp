#include "cli/method_options.h"

#include <functional>
#include <optional>

#include "cli/kv_options.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
using policy::PrefillOptions;

constexpr unsigned kReadsPrompts = kRun | kChat | kInspect | kBench | kPerplexity | kEval | kDemo;

using ApplyPrefill = std::function<Status(PrefillOptions&, const std::string&)>;

// Who reads an option.
enum class Reader : uint8_t { kPolicy, kAnySparse, kEntropyRule, kHabitSelection, kHabitBudget };

struct PrefillFlag {
  std::string_view name;  // with its dashes
  std::string_view value;
  std::string_view help;
  Reader reader;
  ApplyPrefill apply;
};

ApplyPrefill tokens(int32_t PrefillOptions::*field, int64_t low) {
  return [=](PrefillOptions& options, const std::string& value) -> Status {
    EI_ASSIGN_OR_RETURN(const int64_t number, parse_whole(value, low, kMaxBudget));
    options.*field = static_cast<int32_t>(number);
    return {};
  };
}

ApplyPrefill number(double PrefillOptions::*field, double low) {
  return [=](PrefillOptions& options, const std::string& value) -> Status {
    EI_ASSIGN_OR_RETURN(options.*field, parse_real(value, low, kInfinite));
    return {};
  };
}

ApplyPrefill on_off(bool PrefillOptions::*field) {
  return [=](PrefillOptions& options, const std::string& value) -> Status {
    EI_ASSIGN_OR_RETURN(options.*field, parse_switch(value));
    return {};
  };
}

template <typename Enum>
struct Name {
  std::string_view name;
  Enum value;
};

template <typename Enum>
ApplyPrefill one_of(Enum PrefillOptions::*field, std::vector<Name<Enum>> names) {
  return [=](PrefillOptions& options, const std::string& value) -> Status {
    std::string known;
    for (const Name<Enum>& entry : names) {
      if (entry.name == value) {
        options.*field = entry.value;
        return {};
      }
      known += (known.empty() ? "" : ", ") + std::string(entry.name);
    }
    return make_error(ErrorKind::kUsage, "'%s' is none of %s", value.c_str(), known.c_str());
  };
}

template <typename Enum>
ApplyPrefill one_of(Enum PrefillOptions::*field, const char* (*name_of)(Enum), std::initializer_list<Enum> values) {
  std::vector<Name<Enum>> names;
  for (const Enum value : values) names.push_back({name_of(value), value});
  return one_of(field, std::move(names));
}

Status choose_policy(PrefillOptions& options, const std::string& value) {
  if (value != "full" && value != "sparse")
    return make_error(ErrorKind::kUsage, "'%s' is neither full nor sparse", value.c_str());
  using policy::PrefillRule;
  if (value == "full") options.rule = PrefillRule::kDense;
  if (value == "sparse" && options.rule == PrefillRule::kDense) options.rule = PrefillRule::kEntropy;
  return {};
}

const std::vector<PrefillFlag>& prefill_table() {
  using policy::Asking;
  using policy::BlockRank;
  using policy::LogitScale;
  using policy::PrefillRule;
  using policy::RigidTest;
  using policy::SparseMode;
  using Options = PrefillOptions;
  static const std::vector<PrefillFlag> table = {
      {"--prefill-policy", "NAME", "prompt: full (every token reads all before it) or sparse (chosen blocks)",
       Reader::kPolicy, choose_policy},
      {"--segment", "N", "sparse prefill: query tokens that share one choice of blocks", Reader::kAnySparse,
       tokens(&Options::segment, 1)},
      {"--block", "N", "sparse prefill: key tokens chosen together; divides the segment. Habit wants a multiple of 8",
       Reader::kAnySparse, tokens(&Options::block, 1)},
      {"--threshold", "N", "sparse prefill: segments that begin before this position read everything",
       Reader::kAnySparse, tokens(&Options::threshold, 0)},
      {"--budget-rule", "RULE", "sparse prefill: entropy (follows the block scores) or fixed (always the base budget)",
       Reader::kAnySparse,
       one_of<PrefillRule>(&Options::rule, {{"entropy", PrefillRule::kEntropy}, {"fixed", PrefillRule::kFixed}})},
      {"--base-budget", "N",
       "sparse prefill: earlier tokens a segment may read; 0: 1024, more where few layers are global",
       Reader::kAnySparse, tokens(&Options::base_budget, 0)},
      {"--min-budget", "N", "sparse prefill: least budget of a dynamic kv_head; 0: the base budget",
       Reader::kEntropyRule, tokens(&Options::min_budget, 0)},
      {"--max-factor", "X", "sparse prefill: greatest budget, in base budgets", Reader::kEntropyRule,
       number(&Options::max_factor, 1)},
      {"--e-t", "X", "sparse prefill: entropy under which a kv_head counts as rigid", Reader::kEntropyRule,
       number(&Options::e_t, 0)},
      {"--delta-t", "X", "sparse prefill: relative growth of the entropy that leaves a budget as it is",
       Reader::kEntropyRule, number(&Options::delta_t, 0)},
      {"--alpha", "X", "sparse prefill: base budgets added for a growth of delta-t + 1", Reader::kEntropyRule,
       number(&Options::alpha, 0)},
      {"--layer-skip", "N", "sparse prefill: layers below this one read everything", Reader::kAnySparse,
       tokens(&Options::layer_skip, 0)},
      {"--early-share", "N",
       "sparse prefill: the layers of --layer-skip read one token in N instead, beyond 32768 half of that; 0: "
       "everything",
       Reader::kAnySparse, tokens(&Options::early_share, 0)},
      {"--layer-fusion", "ON", "sparse prefill: on or off: blend block probabilities with the layer before",
       Reader::kAnySparse, on_off(&Options::layer_fusion)},
      {"--logit-scale", "NAME", "sparse prefill: none or inverse-sqrt-dim: the temperature of the entropy",
       Reader::kAnySparse,
       one_of(&Options::logit_scale, policy::logit_scale_name, {LogitScale::kNone, LogitScale::kInverseSqrtDim})},
      {"--last-dense", "ON", "sparse prefill: on or off: the last segment of a prompt reads everything",
       Reader::kAnySparse, on_off(&Options::last_dense)},
      {"--sparse-mode", "MODE",
       "sparse prefill: ragged (a count per kv_head), collapsed (per layer) or released (and ranked on probabilities)",
       Reader::kAnySparse,
       one_of(&Options::mode, policy::sparse_mode_name,
              {SparseMode::kRagged, SparseMode::kCollapsed, SparseMode::kReleased})},
      {"--select", "SCORE",
       "sparse prefill: what ranks blocks: midrange, peak, habit, or for research oracle-sum, oracle-max",
       Reader::kAnySparse,
       one_of(
           &Options::select, policy::block_rank_name,
           {BlockRank::kMidrange, BlockRank::kPeak, BlockRank::kHabit, BlockRank::kOracleSum, BlockRank::kOracleMax})},
      {"--asking", "WHO",
       "sparse prefill: who asks for blocks: group (one query for a kv_head, some rows), heads (each, some rows), all "
       "(every row), auto (the most that costs little in this model)",
       Reader::kHabitSelection,
       one_of(&Options::asking, policy::asking_name, {Asking::kAuto, Asking::kGroup, Asking::kHeads, Asking::kAll})},
      {"--local-budget", "N", "sparse prefill: earlier tokens that a local kv_head reads; 0: as many as the others",
       Reader::kHabitSelection, tokens(&Options::local_budget, 0)},
      {"--resting-share", "N",
       "sparse prefill: a resting kv_head reads at least one token in N, two beyond 32768 tokens; 0: its budget",
       Reader::kHabitBudget, tokens(&Options::resting_share, 0)},
      {"--wide-share", "N", "sparse prefill: a wide kv_head reads at least one token in N; 0: its budget",
       Reader::kHabitBudget, tokens(&Options::wide_share, 0)},
      {"--rated-share", "N", "sparse prefill: a wide kv_head rates one token in N, where a bound promises most; 0: all",
       Reader::kHabitSelection, tokens(&Options::rated_share, 0)},
      {"--rigid-test", "WHEN", "sparse prefill: causal, or whole-trace (looks at later segments too, as released)",
       Reader::kEntropyRule,
       one_of<RigidTest>(&Options::rigid_test,
                         {{"causal", RigidTest::kCausal}, {"whole-trace", RigidTest::kWholeTrace}})},
  };
  return table;
}

const std::string* given_value(const Settings& settings, const PrefillFlag& flag) {
  const auto found = settings.method_options.find(std::string(flag.name.substr(2)));
  return found == settings.method_options.end() ? nullptr : &found->second;
}

const PrefillFlag& policy_flag() { return prefill_table().front(); }

// The preset of the method, full or sparse as --prefill-policy says.
Result<PrefillOptions> chosen_policy(const Settings& settings) {
  const policy::Method* method = policy::find_method(settings.method);
  if (method == nullptr) return make_error(ErrorKind::kUsage, "unknown method '%s'", settings.method.c_str());
  PrefillOptions options = method->prefill;
  if (const std::string* value = given_value(settings, policy_flag()))
    EI_RETURN_IF_ERROR(choose_policy(options, *value));
  return options;
}

bool reads_sparsely(const Settings& settings) {
  const Result<PrefillOptions> options = chosen_policy(settings);
  return options.ok() && options->rule != policy::PrefillRule::kDense;
}

// What makes a prompt be read in full: the policy where it was given, else the methods.
std::string cause_of_full(const Settings& settings, const std::string& methods) {
  const std::string* value = given_value(settings, policy_flag());
  return value != nullptr && *value == "full" ? "--prefill-policy full" : "--method " + methods;
}

Error no_meaning(std::string_view flag, const std::string& with) {
  return make_error(ErrorKind::kUsage, "%s has no meaning with %s", std::string(flag).c_str(), with.c_str());
}

// Habits are seen in panels of eight keys.
bool asks_for_odd_blocks(const PrefillOptions& options) {
  return options.select == policy::BlockRank::kHabit && options.block % 8 != 0;
}
}  // namespace

std::vector<Option> prefill_flags() {
  std::vector<Option> flags;
  for (const PrefillFlag& flag : prefill_table()) {
    const std::string name(flag.name.substr(2));
    Binding binding;
    binding.set = [name, apply = flag.apply](Settings& settings, const std::string& value) -> Status {
      PrefillOptions scratch;  // only to see whether the value can be read
      EI_RETURN_IF_ERROR(apply(scratch, value));
      settings.method_options[name] = value;
      return {};
    };
    binding.show = [name](const Settings& settings) {
      const auto found = settings.method_options.find(name);
      return found == settings.method_options.end() ? std::string() : found->second;
    };
    flags.push_back({flag.name, flag.value, flag.help, kReadsPrompts, std::move(binding)});
  }
  return flags;
}

Result<PrefillOptions> prefill_options(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(PrefillOptions options, chosen_policy(settings));
  for (const PrefillFlag& flag : prefill_table()) {
    const std::string* value = given_value(settings, flag);
    if (value == nullptr || flag.reader == Reader::kPolicy) continue;
    if (!reads_sparsely(settings)) return no_meaning(flag.name, cause_of_full(settings, settings.method));
    EI_RETURN_IF_ERROR(flag.apply(options, *value));
  }
  if (asks_for_odd_blocks(options)) {
    if (settings.method_options.contains("select"))
      return make_error(ErrorKind::kUsage, "--select habit needs blocks of a multiple of 8 tokens, not of %d",
                        options.block);
    options.select = policy::BlockRank::kPeak;
  }
  for (const PrefillFlag& flag : prefill_table()) {
    if (given_value(settings, flag) == nullptr) continue;
    const bool needs_entropy = flag.reader == Reader::kEntropyRule || flag.reader == Reader::kHabitBudget;
    const bool needs_habit = flag.reader == Reader::kHabitSelection || flag.reader == Reader::kHabitBudget;
    if (needs_entropy && options.rule == policy::PrefillRule::kFixed)
      return no_meaning(flag.name, "--budget-rule fixed");
    if (needs_habit && options.select != policy::BlockRank::kHabit)
      return no_meaning(flag.name, std::string("--select ") + policy::block_rank_name(options.select));
  }
  EI_RETURN_IF_ERROR(policy::validate(options));
  return options;
}

std::string method_note(const Settings& settings) {
  const Result<PrefillOptions> preset = chosen_policy(settings);
  const Result<PrefillOptions> options = prefill_options(settings);
  const bool replaced = preset.ok() && options.ok() && preset->select == policy::BlockRank::kHabit &&
                        options->select != preset->select && !settings.method_options.contains("select");
  if (!replaced) return "";
  return str_format("blocks of %d tokens are no multiple of 8: chosen by --select %s instead of habit, which is slower",
                    options->block, policy::block_rank_name(options->select));
}

Settings settings_for_method(const Settings& settings, std::string_view method) {
  Settings own = settings;
  own.method = method;
  for (const std::string& idle : idle_kv_flags(own)) own.method_options.erase(idle);
  if (reads_sparsely(own)) return own;
  for (const PrefillFlag& flag : prefill_table())
    if (flag.reader != Reader::kPolicy) own.method_options.erase(std::string(flag.name.substr(2)));
  return own;
}

Status check_method_options(const Settings& settings, const std::vector<std::string>& methods) {
  std::map<std::string, std::string> unused = settings.method_options;
  for (const std::string& method : methods) {
    const Settings own = settings_for_method(settings, method);
    for (const auto& [name, value] : own.method_options) unused.erase(name);
    const Result<PrefillOptions> options = prefill_options(own);
    if (!options.ok()) return options.error();
    const Result<policy::KvOptions> kv = kv_options(own);
    if (!kv.ok()) return kv.error();
  }
  if (unused.empty()) return {};
  std::string names;
  for (const std::string& method : methods) names += (names.empty() ? "" : ",") + method;
  return no_meaning("--" + unused.begin()->first, cause_of_full(settings, names));
}

std::string method_options_text(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings.method_options) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

}  // namespace ei::cli
