#include "policy/prefill/option_table.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

#include "policy/registry.h"

namespace ei::policy {
namespace {

using PrefillSpec = OptionSpec<PrefillOptions>;
using Field = OptionField<PrefillOptions>;
using Read = std::function<bool(const PrefillOptions&)>;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

Field tokens(int32_t PrefillOptions::*field, int64_t low) { return whole_field(field, low); }
Field number(double PrefillOptions::*field, double low, double high = kInfinite) {
  return real_field(field, low, high);
}

template <typename Enum>
Field choice(Enum PrefillOptions::*field, const char* (*name_of)(Enum), std::initializer_list<Enum> values) {
  std::vector<std::pair<std::string_view, Enum>> names;
  for (const Enum value : values) names.emplace_back(name_of(value), value);
  return choice_field(field, std::move(names));
}

bool is_sparse(const PrefillOptions& options) { return options.rule != PrefillRule::kDense; }
// Does the method's entry name the option?
bool is_named(const PrefillOptions& options, std::string_view name) {
  const PrefillEntry* entry = is_sparse(options) ? find_prefill_rule(options.rule) : nullptr;
  return entry != nullptr && std::find(entry->reads.begin(), entry->reads.end(), name) != entry->reads.end();
}

PrefillSpec spec_of(std::string_view name, std::string_view symbol, std::string_view value, std::string_view help,
                    Read read, Field field, bool research) {
  return {.name = name,
          .symbol = symbol,
          .value = value,
          .help = help,
          .research = research,
          .read = std::move(read),
          .set = std::move(field.set),
          .get = std::move(field.get),
          .check = std::move(field.check),
          .choices = std::move(field.choices),
          .range = std::move(field.range)};
}

// Every method reads it.
PrefillSpec common_spec(std::string_view name, std::string_view symbol, std::string_view value, std::string_view help,
                        Field field, bool research = false) {
  return spec_of(name, symbol, value, help, is_sparse, std::move(field), research);
}
// The methods that name it read it (PrefillEntry::reads).
PrefillSpec prefill_spec(std::string_view name, std::string_view symbol, std::string_view value, std::string_view help,
                         Field field, bool research = false) {
  const auto read = [name](const PrefillOptions& options) { return is_named(options, name); };
  return spec_of(name, symbol, value, help, read, std::move(field), research);
}
// The same, with --select adaptive alone.
PrefillSpec adaptive_spec(std::string_view name, std::string_view symbol, std::string_view value, std::string_view help,
                          Field field, bool research = false) {
  const auto read = [name](const PrefillOptions& options) {
    return options.select == BlockRank::kAdaptive && is_named(options, name);
  };
  return spec_of(name, symbol, value, help, read, std::move(field), research);
}

std::vector<PrefillSpec> make_prefill_table() {
  using O = PrefillOptions;
  constexpr bool kResearch = true;
  static const std::string rule_help = "how much is read: " + offered(prefill_rules());
  std::vector<std::pair<std::string_view, PrefillRule>> rules;
  for (const PrefillEntry& rule : prefill_rules()) rules.emplace_back(rule.name, PrefillRule{rule.name});
  return {
      prefill_spec("density", "", "X",
                   "share of the earlier text that a kv_head reads, on the average over heads and layers",
                   number(&O::density, 1e-6, 1)),
      prefill_spec("density-base", "", "N", "tokens of the earlier text that are read beside the density's share",
                   tokens(&O::density_base, 0)),
      prefill_spec("cover", "gamma", "X", "share of the estimated attention that the blocks which are read hold",
                   number(&O::cover, 1e-6, 1)),
      common_spec("base-budget", "B0", "N",
                  "earlier tokens that a segment reads; 0: the density, or 1024 and more where few layers are global",
                  tokens(&O::base_budget, 0)),
      common_spec("segment", "S", "N", "query tokens that share one choice of blocks", tokens(&O::segment, 1)),
      common_spec("block", "B", "N",
                  "key tokens chosen together; divides the segment. By adaptive a backend rates multiples of 8 only",
                  tokens(&O::block, 1)),
      common_spec("threshold", "T", "N", "segments that begin before this position read everything",
                  tokens(&O::threshold, 0)),
      common_spec("budget-rule", "", "RULE", rule_help, choice_field(&O::rule, rules)),
      common_spec("select", "", "SCORE",
                  "what ranks blocks: adaptive, peak, midrange (published), or for research oracle-sum, oracle-max",
                  choice(&O::select, block_rank_name,
                         {BlockRank::kMidrange, BlockRank::kPeak, BlockRank::kAdaptive, BlockRank::kOracleSum,
                          BlockRank::kOracleMax}),
                  kResearch),
      adaptive_spec("local-budget", "", "N", "earlier tokens that a kv_head reads however little it looks back",
                    tokens(&O::local_budget, 0)),
      adaptive_spec(
          "rank-queries", "", "WHO",
          "whose queries rank: group (one for a kv_head, some rows), heads (each, some rows), all (every row), auto "
          "(the most that costs little in this model; the entropy rule: behind that by --few-places)",
          choice(&O::rank_queries, rank_queries_name,
                 {RankQueries::kAuto, RankQueries::kGroup, RankQueries::kHeads, RankQueries::kAll}),
          kResearch),
      common_spec("last-dense", "", "ON", "on or off: the last segment of a prompt reads everything",
                  switch_field(&O::last_dense), kResearch),
      prefill_spec("spread-power", "a", "X", "power of the blocks over which a segment spreads",
                   number(&O::spread_power, 0, 8), kResearch),
      prefill_spec("distinct-power", "b", "X", "power of the different places that its rows look at",
                   number(&O::distinct_power, 0, 8), kResearch),
      prefill_spec("far-power", "c", "X", "power of the share of attention that goes far", number(&O::far_power, 0, 8),
                   kResearch),
      prefill_spec("sample-every", "", "N", "segments between two samples of attention", tokens(&O::sample_every, 1),
                   kResearch),
      prefill_spec("sample-memory", "", "X", "share of the running means that a new sample leaves",
                   number(&O::sample_memory, 0, 0.999), kResearch),
      prefill_spec("open-memory", "", "X", "the same where a head opens up", number(&O::open_memory, 0, 0.999),
                   kResearch),
      prefill_spec("shuffle", "", "N",
                   "other than 0: each kv_head gets the weight of another, to see whether it matters",
                   tokens(&O::shuffle, 0), kResearch),
      prefill_spec("whole-layer", "", "N",
                   "the kv_heads of this layer read everything, to see what their choice of blocks loses; -1: none",
                   tokens(&O::whole_layer, -1), kResearch),
      prefill_spec("whole-head", "", "N", "of --whole-layer this kv_head alone; -1: all", tokens(&O::whole_head, -1),
                   kResearch),
      prefill_spec("min-budget", "", "N", "least budget of a dynamic kv_head; 0: the base budget",
                   tokens(&O::min_budget, 0), kResearch),
      prefill_spec("max-factor", "", "X", "greatest budget, in base budgets", number(&O::max_factor, 1), kResearch),
      prefill_spec("e-t", "e_t", "X", "entropy under which a kv_head counts as rigid", number(&O::e_t, 0), kResearch),
      prefill_spec("delta-t", "delta_t", "X", "relative growth of the entropy that leaves a budget as it is",
                   number(&O::delta_t, 0), kResearch),
      prefill_spec("alpha", "alpha", "X", "base budgets added for a growth of delta-t + 1", number(&O::alpha, 0),
                   kResearch),
      prefill_spec("rigid-test", "", "WHEN", "causal, or whole-trace (looks at later segments too, as released)",
                   choice(&O::rigid_test, rigid_test_name, {RigidTest::kCausal, RigidTest::kWholeTrace}), kResearch),
      prefill_spec(
          "logit-scale", "", "NAME", "none or inverse-sqrt-dim: the temperature of the entropy of block scores",
          choice(&O::logit_scale, logit_scale_name, {LogitScale::kNone, LogitScale::kInverseSqrtDim}), kResearch),
      prefill_spec("layer-skip", "", "N", "layers below this one read everything", tokens(&O::layer_skip, 0),
                   kResearch),
      prefill_spec("early-share", "", "N",
                   "the layers of --layer-skip read one token in N instead, beyond 32768 half of that; 0: everything",
                   tokens(&O::early_share, 0), kResearch),
      prefill_spec("sink-share", "", "N",
                   "a sink head reads at least one token in N, two beyond 32768 tokens; 0: its budget",
                   tokens(&O::sink_share, 0), kResearch),
      prefill_spec("diffuse-share", "", "N", "a diffuse head reads at least one token in N; 0: its budget",
                   tokens(&O::diffuse_share, 0), kResearch),
      prefill_spec(
          "sparse-mode", "", "MODE",
          "ragged (a count per kv_head), collapsed (per layer) or released (and ranked on probabilities)",
          choice(&O::mode, sparse_mode_name, {SparseMode::kRagged, SparseMode::kCollapsed, SparseMode::kReleased}),
          kResearch),
      prefill_spec("layer-fusion", "", "ON", "on or off: blend block probabilities with the layer before",
                   switch_field(&O::layer_fusion), kResearch),
      prefill_spec("few-places", "", "N",
                   "where the rows of a head look at fewer different places, few of them rate; others by types; 0: all",
                   number(&O::few_places, 0, 1000), kResearch),
      prefill_spec("rated-per-read", "", "X", "pairs of row and block that a head rates for each that it reads; 0: all",
                   number(&O::rated_per_read, 0, 1000), kResearch),
      prefill_spec("candidate-share", "", "N",
                   "a diffuse head rates one token in N, those with the largest upper bounds; 0: all",
                   tokens(&O::candidate_share, 0), kResearch),
  };
}

}  // namespace

const std::vector<OptionSpec<PrefillOptions>>& prefill_option_table() {
  static const std::vector<PrefillSpec> table = make_prefill_table();
  return table;
}

std::string exact_text(const PrefillOptions& options) {
  std::string text;
  for (const PrefillSpec& spec : prefill_option_table()) {
    if (!spec.read(options)) continue;
    const OptionValue value = spec.get(options);
    const auto* real = std::get_if<double>(&value);
    text += " " + std::string(spec.name) + "=" + (real != nullptr ? str_format("%.17g", *real) : option_text(value));
  }
  return text;
}

}  // namespace ei::policy
