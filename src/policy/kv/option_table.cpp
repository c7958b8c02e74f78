#include "policy/kv/option_table.h"

namespace ei::policy {
namespace {

using KvSpec = OptionSpec<KvOptions>;

KvSpec kv_spec(std::string_view name, std::string_view symbol, std::string_view value, std::string_view help,
               OptionField<KvOptions> field, bool research = false) {
  return {.name = name,
          .symbol = symbol,
          .value = value,
          .help = help,
          .research = research,
          .read = [name](const KvOptions& options) { return name == "kv-policy" || options.rule != KvRule::kKeepAll; },
          .set = std::move(field.set),
          .get = std::move(field.get)};
}

std::vector<KvSpec> make_kv_table() {
  using O = KvOptions;
  using Pools = std::vector<std::pair<std::string_view, Pooling>>;
  constexpr bool kResearch = true;
  return {
      kv_spec("kv-policy", "", "NAME", "KV cache: full (keep all) or latent (keep what the last queries attend to)",
              choice_field<O, KvRule>(&O::rule, {{"full", KvRule::kKeepAll}, {"latent", KvRule::kLatent}})),
      kv_spec("kv-budget", "", "N", "slots per kv_head behind a compression, the window included",
              whole_field(&O::budget, 1)),
      kv_spec("kv-share", "", "KIND",
              "flat (each kv_head keeps the budget) or adaptive (a layer keeps its best slots, whichever kv_head they "
              "belong to)",
              choice_field<O, KvShare>(&O::share, {{"flat", KvShare::kFlat}, {"adaptive", KvShare::kAdaptive}})),
      kv_spec("kv-gap", "", "N", "generated tokens to wait for; -1: compress when the prompt has been read",
              whole_field(&O::gap, -1)),
      kv_spec("kv-window", "W", "N", "last queries that decide, and last slots that always stay",
              whole_field(&O::window, 1)),
      kv_spec("kv-repeat", "R", "N", "compress again every N generated tokens when over the budget; 0: only once",
              whole_field(&O::repeat, 0)),
      kv_spec("kv-pooling", "", "KIND", "average or max over neighbouring slots",
              choice_field<O, Pooling>(&O::pooling, Pools{{"average", Pooling::kAverage}, {"max", Pooling::kMax}}),
              kResearch),
      kv_spec("kv-kernel", "k", "N", "slots pooled together, odd", whole_field(&O::kernel, 1), kResearch),
      kv_spec("kv-aggregate", "", "KIND", "mean or max over the query heads of a kv_head",
              choice_field<O, GroupAggregate>(&O::aggregate,
                                              {{"mean", GroupAggregate::kMean}, {"max", GroupAggregate::kMax}}),
              kResearch),
  };
}

}  // namespace

const std::vector<OptionSpec<KvOptions>>& kv_option_table() {
  static const std::vector<KvSpec> table = make_kv_table();
  return table;
}

}  // namespace ei::policy
