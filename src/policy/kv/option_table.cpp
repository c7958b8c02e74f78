#include "policy/kv/option_table.h"

#include <initializer_list>
#include <string>

#include "policy/registry.h"

namespace ei::policy {
namespace {

using KvSpec = OptionSpec<KvOptions>;

using Read = std::function<bool(const KvOptions&)>;

KvSpec kv_spec(std::string_view name, std::string_view symbol, std::string_view value, std::string_view help, Read read,
               OptionField<KvOptions> field, bool research = false) {
  return {.name = name,
          .symbol = symbol,
          .value = value,
          .help = help,
          .research = research,
          .read = std::move(read),
          .set = std::move(field.set),
          .get = std::move(field.get)};
}

template <typename Enum>
OptionField<KvOptions> choice(Enum KvOptions::*field, const char* (*name_of)(Enum),
                              std::initializer_list<Enum> values) {
  std::vector<std::pair<std::string_view, Enum>> names;
  for (const Enum value : values) names.emplace_back(name_of(value), value);
  return choice_field(field, std::move(names));
}

// The name of a method stands for its whole preset; what is given beside it goes on top.
OptionField<KvOptions> preset_field() {
  std::vector<std::pair<std::string_view, KvRule>> names;
  for (const KvEntry& entry : kv_rules()) names.emplace_back(entry.name, KvRule{entry.name});
  OptionField<KvOptions> field = choice_field(&KvOptions::rule, std::move(names));
  field.set = [by_name = field.set](KvOptions& options, const std::string& value) -> Status {
    EI_RETURN_IF_ERROR(by_name(options, value));
    options = find_kv_rule(options.rule)->preset;
    return {};
  };
  return field;
}

bool compresses(const KvOptions& options) { return options.rule != KvRule::kKeepAll; }
bool scores_attention(const KvOptions& options) {
  const KvEntry* entry = find_kv_rule(options.rule);
  return compresses(options) && entry != nullptr && entry->scores_attention;
}
bool shares_unevenly(const KvOptions& options) { return compresses(options) && options.share == KvShare::kAdaptive; }

std::vector<KvSpec> make_kv_table() {
  using O = KvOptions;
  constexpr bool kResearch = true;
  static const std::string policies = "which slots of the KV cache stay: " + offered(kv_rules());
  const Read always = [](const KvOptions&) { return true; };
  return {
      kv_spec("kv-policy", "", "NAME", policies, always, preset_field()),
      kv_spec("kv-budget", "", "N", "slots per kv_head behind a compression, the window included", compresses,
              whole_field(&O::budget, 1)),
      kv_spec("kv-share", "", "KIND",
              "flat (each kv_head keeps the budget) or adaptive (a layer keeps its best slots, whichever kv_head they "
              "belong to)",
              compresses, choice(&O::share, kv_share_name, {KvShare::kFlat, KvShare::kAdaptive})),
      kv_spec("kv-layers", "", "KIND",
              "flat (each layer keeps the budget) or pyramid (the first keep more than the last)", compresses,
              choice(&O::layers, kv_layers_name, {KvLayers::kFlat, KvLayers::kPyramid})),
      kv_spec("kv-gap", "", "N", "generated tokens to wait for; -1: compress when the prompt has been read", compresses,
              whole_field(&O::gap, -1)),
      kv_spec("kv-window", "W", "N", "last queries that decide, and last slots that always stay", compresses,
              whole_field(&O::window, 1)),
      kv_spec("kv-sinks", "", "N", "first slots that always stay", compresses, whole_field(&O::sinks, 0)),
      kv_spec("kv-repeat", "R", "N", "compress again every N generated tokens when over the budget; 0: only once",
              compresses, whole_field(&O::repeat, 0)),
      kv_spec("kv-granularity", "", "WHO",
              "who chooses its slots: kv_head, or head (every query head; a kv_head keeps what any of them keeps)",
              scores_attention,
              choice(&O::granularity, kv_granularity_name, {KvGranularity::kHead, KvGranularity::kKvHead}), kResearch),
      kv_spec("kv-pooling", "", "KIND", "average or max over neighbouring slots", scores_attention,
              choice_field<O, Pooling>(&O::pooling, {{"average", Pooling::kAverage}, {"max", Pooling::kMax}}),
              kResearch),
      kv_spec("kv-kernel", "k", "N", "slots pooled together, odd", scores_attention, whole_field(&O::kernel, 1),
              kResearch),
      kv_spec("kv-aggregate", "", "KIND", "mean or max over the query heads of a kv_head", scores_attention,
              choice_field<O, GroupAggregate>(&O::aggregate,
                                              {{"mean", GroupAggregate::kMean}, {"max", GroupAggregate::kMax}}),
              kResearch),
      kv_spec("kv-floor", "alpha", "X", "adaptive: the share of the budget that no kv_head goes below", shares_unevenly,
              real_field(&O::floor_share, 0, 1), kResearch),
      kv_spec(
          "kv-rounding", "", "KIND", "exact (shares sum to the budget) or released (each rounded, as the authors do)",
          [](const O& options) { return shares_unevenly(options) || options.layers != KvLayers::kFlat; },
          choice(&O::rounding, kv_rounding_name, {KvRounding::kExact, KvRounding::kReleased}), kResearch),
  };
}

}  // namespace

const std::vector<OptionSpec<KvOptions>>& kv_option_table() {
  static const std::vector<KvSpec> table = make_kv_table();
  return table;
}

}  // namespace ei::policy
