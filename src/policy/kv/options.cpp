#include "policy/kv/options.h"

#include "base/parse.h"
#include "policy/kv/option_table.h"

namespace ei::policy {

const char* kv_share_name(KvShare share) {
  switch (share) {
    case KvShare::kFlat: return "flat";
    case KvShare::kAdaptive: return "adaptive";
    case KvShare::kDistinct: return "distinct";
  }
  return "";
}

const char* kv_layers_name(KvLayers layers) {
  switch (layers) {
    case KvLayers::kFlat: return "flat";
    case KvLayers::kPyramid: return "pyramid";
    case KvLayers::kEntropy: return "entropy";
    case KvLayers::kSpread: return "spread";
    case KvLayers::kFocus: return "focus";
    case KvLayers::kDistinct: return "distinct";
    case KvLayers::kMass: return "mass";
    case KvLayers::kEntropyRest: return "entropy-rest";
    case KvLayers::kEntropyInverse: return "entropy-inverse";
    case KvLayers::kEntropyShuffled: return "entropy-shuffled";
  }
  return "";
}

bool by_entropy(KvLayers layers) { return layers != KvLayers::kFlat && layers != KvLayers::kPyramid; }

const char* query_source_name(QuerySource queries) {
  switch (queries) {
    case QuerySource::kNone: return "none";
    case QuerySource::kLast: return "last";
    case QuerySource::kSampled: return "sampled";
    case QuerySource::kAll: return "all";
  }
  return "";
}

const char* kv_granularity_name(KvGranularity granularity) {
  switch (granularity) {
    case KvGranularity::kHead: return "head";
    case KvGranularity::kKvHead: return "kv_head";
    case KvGranularity::kLayer: return "layer";
  }
  return "";
}

const char* kv_rounding_name(KvRounding rounding) { return rounding == KvRounding::kExact ? "exact" : "released"; }

namespace {

struct Unit {
  std::string_view suffix;
  int64_t bytes;
};
constexpr Unit kUnits[] = {{"B", 1}, {"KiB", int64_t{1} << 10}, {"MiB", int64_t{1} << 20}, {"GiB", int64_t{1} << 30}};

}  // namespace

Status set_budget(KvOptions& options, const std::string& text) {
  constexpr int64_t kMost = int64_t{1} << 30;  // of tokens that are counted in 32 bits, and of units
  KvOptions changed = options;
  changed.budget_share = 0;
  changed.budget_base = 0;
  changed.budget_bytes = 0;
  const std::string_view value = text;
  if (value.ends_with('%')) {
    const size_t plus = value.find('+');
    const size_t share = plus == std::string_view::npos ? 0 : plus + 1;
    EI_ASSIGN_OR_RETURN(const double percent, parse_real(value.substr(share, value.size() - 1 - share), 0.001, 100));
    changed.budget_share = percent / 100;
    if (share > 0) {
      EI_ASSIGN_OR_RETURN(const int64_t base, parse_whole(value.substr(0, plus), 1, kMost));
      changed.budget_base = static_cast<int32_t>(base);
    }
  } else {
    int64_t unit = 0;
    std::string_view number = value;
    for (const Unit& one : kUnits) {
      if (!value.ends_with(one.suffix)) continue;
      unit = one.bytes;
      number = value.substr(0, value.size() - one.suffix.size());
    }
    const Result<int64_t> parsed = parse_whole(number, 1, kMost);
    if (!parsed.ok())
      return make_error(
          ErrorKind::kUsage,
          "'%s' is neither slots (512) nor a share of the text (20%%) nor both (1024+10%%) nor bytes (64MiB)",
          text.c_str());
    const int64_t whole = *parsed;
    if (unit > 0) changed.budget_bytes = whole * unit;
    if (unit == 0) changed.budget = static_cast<int32_t>(whole);
  }
  options = changed;
  return {};
}

std::string budget_text(const KvOptions& options) {
  if (options.budget_share > 0) {
    const std::string share = str_format("%.10g%%", 100 * options.budget_share);
    return options.budget_base > 0 ? str_format("%d+%s", options.budget_base, share.c_str()) : share;
  }
  if (options.budget_bytes > 0) {
    const bool whole = options.budget_bytes % 1024 == 0;
    return str_format(whole ? "%lldKiB" : "%lldB",
                      static_cast<long long>(whole ? options.budget_bytes / 1024 : options.budget_bytes));
  }
  return std::to_string(options.budget);
}

namespace {

Status validate_pages(const KvOptions& options) {
  if (options.read == 0) return {};
  if (options.read < 2 * options.page)
    return make_error(ErrorKind::kUsage,
                      "a token reads its own page and others: %d tokens are fewer than two pages of %d", options.read,
                      options.page);
  if (options.rule != KvRule::kKeepAll)
    return make_error(ErrorKind::kUsage,
                      "pages are chosen in a whole cache only, not in one that %s compresses; take "
                      "--kv-policy full, or --kv-read 0",
                      std::string(options.rule.name).c_str());
  return {};
}

}  // namespace

Status validate(const KvOptions& options) {
  EI_RETURN_IF_ERROR(check_ranges(kv_option_table(), options));
  EI_RETURN_IF_ERROR(validate_pages(options));
  const bool in_slots = options.budget_share == 0 && options.budget_bytes == 0;
  if (in_slots && options.budget <= options.window)
    return make_error(ErrorKind::kUsage,
                      "KV budget must exceed the window, which always stays: %d <= %d; lower --kv-window",
                      options.budget, options.window);
  if (in_slots && options.sinks > options.budget - options.window)
    return make_error(ErrorKind::kUsage, "sinks and window must fit into the KV budget: %d + %d > %d", options.sinks,
                      options.window, options.budget);
  if (options.share != KvShare::kFlat && options.granularity == KvGranularity::kLayer)
    return make_error(ErrorKind::kUsage,
                      "where a layer keeps one set for all heads none has a share of it: --kv-share %s wants "
                      "--kv-granularity kv_head or head",
                      kv_share_name(options.share));
  if (options.kernel % 2 == 0)
    return make_error(ErrorKind::kUsage, "pooling kernel must be odd and positive: %d", options.kernel);
  if (!(options.budget_share >= 0 && options.budget_share <= 1))
    return make_error(ErrorKind::kUsage, "KV budget must be at most 100%% of the text: %s",
                      budget_text(options).c_str());
  return {};
}

}  // namespace ei::policy
