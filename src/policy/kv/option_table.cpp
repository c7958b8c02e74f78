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
          .get = std::move(field.get),
          .check = std::move(field.check),
          .choices = std::move(field.choices),
          .range = std::move(field.range)};
}

template <typename Enum>
OptionField<KvOptions> choice(Enum KvOptions::*field, const char* (*name_of)(Enum),
                              std::initializer_list<Enum> values) {
  std::vector<std::pair<std::string_view, Enum>> names;
  for (const Enum value : values) names.emplace_back(name_of(value), value);
  return choice_field(field, std::move(names));
}

// The name of a method stands for its whole preset; what is given beside it goes on top. What a token reads of a cache
// is no part of it: --method quest goes on reading pages, or is refused where a policy drops some.
OptionField<KvOptions> preset_field() {
  std::vector<std::pair<std::string_view, KvRule>> names;
  for (const KvEntry& entry : kv_rules()) names.emplace_back(entry.name, KvRule{entry.name});
  OptionField<KvOptions> field = choice_field(&KvOptions::rule, std::move(names));
  field.set = [by_name = field.set](KvOptions& options, const std::string& value) -> Status {
    EI_RETURN_IF_ERROR(by_name(options, value));
    KvOptions preset = find_kv_rule(options.rule)->preset;
    preset.read = options.read;
    preset.page = options.page;
    preset.read_skip = options.read_skip;
    options = preset;
    return {};
  };
  return field;
}

// A number of slots stays a number.
OptionField<KvOptions> budget_field() {
  return {.set = set_budget,
          .get = [](const KvOptions& options) -> OptionValue {
            const bool in_slots = options.budget_share == 0 && options.budget_bytes == 0;
            return in_slots ? OptionValue(int64_t{options.budget}) : OptionValue(budget_text(options));
          },
          .range = "slots, share or bytes"};
}

bool compresses(const KvOptions& options) { return options.rule != KvRule::kKeepAll; }
bool scores_attention(const KvOptions& options) {
  const KvEntry* entry = find_kv_rule(options.rule);
  return compresses(options) && entry != nullptr && entry->scores_attention;
}
bool measures_attention(const KvOptions& options) {
  return scores_attention(options) ||
         (compresses(options) && (by_entropy(options.layers) || options.share == KvShare::kDistinct));
}
bool draws(const KvOptions& options) {
  return compresses(options) && (options.layers == KvLayers::kEntropyShuffled || options.rule.name == "random");
}
bool reads_pages(const KvOptions& options) { return options.read > 0; }
bool shares_unevenly(const KvOptions& options) {
  return compresses(options) && (options.share != KvShare::kFlat || by_entropy(options.layers));
}

std::vector<KvSpec> make_kv_table() {
  using O = KvOptions;
  constexpr bool kResearch = true;
  static const std::string policies = "which slots of the KV cache stay: " + offered(kv_rules());
  const Read always = [](const KvOptions&) { return true; };
  return {
      kv_spec("kv-policy", "", "NAME", policies, always, preset_field()),
      kv_spec(
          "kv-budget", "", "N",
          "what stays, the window included: slots per kv_head, a share of the text (20%), both (1024+10%), or bytes "
          "in all (64MiB)",
          compresses, budget_field()),
      kv_spec("kv-share", "", "KIND",
              "flat (each kv_head keeps the budget), adaptive (a layer keeps its best slots, whichever kv_head they "
              "belong to) or distinct (in proportion to how many different slots a kv_head's queries look at)",
              compresses, choice(&O::share, kv_share_name, {KvShare::kFlat, KvShare::kAdaptive, KvShare::kDistinct})),
      kv_spec(
          "kv-layers", "", "KIND",
          "flat (each layer keeps the budget), pyramid (the first keep more than the last), entropy (in proportion to "
          "the mean entropy of the heads' attention), spread (to its exponential), focus (to one over that), distinct "
          "(to how many different slots the queries look at), mass (where the best scores of all layers stand) or "
          "entropy-inverse (the other way round than entropy)",
          compresses,
          choice(&O::layers, kv_layers_name,
                 {KvLayers::kFlat, KvLayers::kPyramid, KvLayers::kEntropy, KvLayers::kSpread, KvLayers::kFocus,
                  KvLayers::kDistinct, KvLayers::kMass, KvLayers::kEntropyRest, KvLayers::kEntropyInverse,
                  KvLayers::kEntropyShuffled})),
      kv_spec("kv-seed", "", "N", "which shuffle of the layers, which random slots", draws, whole_field(&O::seed, 1),
              kResearch),
      kv_spec("kv-gap", "", "N", "generated tokens to wait for; -1: compress when the prompt has been read", compresses,
              whole_field(&O::gap, -1)),
      kv_spec("kv-window", "W", "N", "last queries that decide, and last slots that always stay", compresses,
              whole_field(&O::window, 1)),
      kv_spec("kv-recent", "", "X", "share of the budget that the last slots are, the window at least", compresses,
              real_field(&O::recent, 0, 0.9), kResearch),
      kv_spec("kv-sinks", "", "N", "first slots that always stay", compresses, whole_field(&O::sinks, 0)),
      kv_spec("kv-repeat", "R", "N", "compress again every N generated tokens when over the budget; 0: only once",
              compresses, whole_field(&O::repeat, 0)),
      kv_spec(
          "kv-carry", "", "X", "share of a slot's score that counts beside the one of the next compression",
          [](const O& options) { return compresses(options) && options.repeat > 0; }, real_field(&O::carry, 0, 1),
          kResearch),
      kv_spec(
          "kv-granularity", "", "WHO",
          "who chooses its slots: kv_head, head (every query head; a kv_head keeps what any of them keeps) or layer "
          "(one set for all)",
          scores_attention,
          choice(&O::granularity, kv_granularity_name,
                 {KvGranularity::kHead, KvGranularity::kKvHead, KvGranularity::kLayer})),
      kv_spec("kv-queries", "", "WHICH",
              "whose attention counts: last (the window's), sampled (over the whole text) or all (added up while the "
              "text is read, which costs about as much as its attention)",
              measures_attention,
              choice(&O::queries, query_source_name, {QuerySource::kLast, QuerySource::kSampled, QuerySource::kAll})),
      kv_spec(
          "kv-samples", "", "N", "sampled: queries at most",
          [](const O& options) { return measures_attention(options) && options.queries == QuerySource::kSampled; },
          whole_field(&O::samples, 1), kResearch),
      kv_spec("kv-pooling", "", "KIND", "average or max over neighbouring slots", scores_attention,
              choice_field<O, Pooling>(&O::pooling, {{"average", Pooling::kAverage}, {"max", Pooling::kMax}}),
              kResearch),
      kv_spec("kv-kernel", "k", "N", "slots pooled together, odd", scores_attention, whole_field(&O::kernel, 1),
              kResearch),
      kv_spec("kv-aggregate", "", "KIND", "mean or max over the query heads of a kv_head", scores_attention,
              choice_field<O, GroupAggregate>(&O::aggregate,
                                              {{"mean", GroupAggregate::kMean}, {"max", GroupAggregate::kMax}}),
              kResearch),
      kv_spec("kv-key-share", "", "X",
              "share of the slots that goes to keys least like the others, which a later question may ask for",
              scores_attention, real_field(&O::key_share, 0, 0.9)),
      kv_spec(
          "kv-attended", "", "X",
          "before slots go to keys, attention keeps so many for each over which the last queries' attention spreads; "
          "0: their share whatever it spreads over",
          [](const O& options) { return scores_attention(options) && options.key_share > 0; },
          real_field(&O::attended, 0, 1000)),
      kv_spec("kv-floor", "alpha", "X", "uneven shares: that of the budget that no kv_head and no layer goes below",
              shares_unevenly, real_field(&O::floor_share, 0, 1), kResearch),
      kv_spec(
          "kv-rounding", "", "KIND", "exact (shares sum to the budget) or released (each rounded, as the authors do)",
          [](const O& options) {
            return compresses(options) && (options.share == KvShare::kAdaptive || options.layers == KvLayers::kPyramid);
          },
          choice(&O::rounding, kv_rounding_name, {KvRounding::kExact, KvRounding::kReleased}), kResearch),
      kv_spec("kv-read", "", "N",
              "tokens of a whole cache that a generated one reads, in pages chosen for it by their bounds (Quest); 0: "
              "everything",
              always, whole_field(&O::read, 0)),
      kv_spec("kv-page", "", "N", "tokens of a page", reads_pages, whole_field(&O::page, 1), kResearch),
      kv_spec("kv-read-skip", "", "N", "layers below this one read everything", reads_pages,
              whole_field(&O::read_skip, 0), kResearch),
  };
}

}  // namespace

const std::vector<OptionSpec<KvOptions>>& kv_option_table() {
  static const std::vector<KvSpec> table = make_kv_table();
  return table;
}

}  // namespace ei::policy
