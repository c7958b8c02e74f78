#include "cli/eval_methods.h"

#include <algorithm>

#include "cli/kv_options.h"
#include "cli/method_options.h"
#include "cli/options.h"
#include "cli/parse.h"
#include "cli/setup.h"
#include "policy/kv/method.h"
#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"

namespace ei::cli {

namespace {
std::string value_text(const policy::OptionValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return str_format("%.17g", *real);
  if (const auto* on = std::get_if<bool>(&value)) return *on ? "on" : "off";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return std::string(std::get<std::string_view>(value));
}

// Two methods with the same text read prompts alike.
std::string reading_text(const policy::PrefillOptions& options) {
  if (options.rule == policy::PrefillRule::kDense) return "full";
  std::string text;
  for (const auto& spec : policy::prefill_option_table())
    text += std::string(spec.name) + "=" + value_text(spec.get(options)) + ",";
  return text;
}

// What prompts and caches are treated by, defaults included: a default that changes later changes the text.
std::string resolved_text(const policy::PrefillOptions& prefill, const policy::KvOptions& kv) {
  std::string text = policy::exact_text(prefill);
  for (const auto& spec : policy::kv_option_table())
    if (spec.read(kv)) text += " " + std::string(spec.name) + "=" + value_text(spec.get(kv));
  return text.substr(text.find_first_not_of(' '));
}

// "snapkv:kv-budget=512": the method, with its own options on top of what was said for all.
Result<Settings> settings_of(const Settings& settings, const std::string& word) {
  const std::vector<std::string> parts = split(word, ':');
  const std::string& name = parts.empty() ? word : parts[0];
  if (std::find(method_names().begin(), method_names().end(), name) == method_names().end()) {
    std::string names;
    for (const std::string& known : method_names()) names += (names.empty() ? "" : ", ") + known;
    return make_error(ErrorKind::kUsage, "--methods: '%s' is none of %s", one_line(name).c_str(), names.c_str());
  }
  std::string changes = "method=" + name;
  for (size_t i = 1; i < parts.size(); ++i) changes += "," + parts[i];
  EI_ASSIGN_OR_RETURN(Settings own, with_overrides(*find_command("eval"), settings, changes, "--methods"));
  if (const Status fits = check_method_options(own, {name}); !fits.ok())
    return make_error(fits.error().kind, "--methods: %s", fits.error().message.c_str());
  Settings shared = settings;
  shared.method = name;
  for (const auto& [option, value] : settings_for_method(shared, name).method_options)
    own.method_options.insert({option, value});
  return own;
}

}  // namespace

Result<std::vector<eval::MethodSpec>> eval_method_specs(const Settings& settings) {
  std::vector<eval::MethodSpec> specs;
  std::vector<std::string> names;
  for (const std::string& word : settings.eval_methods) {
    EI_ASSIGN_OR_RETURN(const Settings own, settings_of(settings, word));
    EI_ASSIGN_OR_RETURN(const policy::PrefillOptions prefill, prefill_options(own));
    EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(own));
    names.push_back(own.method);
    eval::MethodSpec spec;
    spec.label = own.method;
    for (const auto& [option, value] : own.method_options) spec.label += ":" + option + "=" + value;
    spec.reading = reading_text(prefill);
    spec.options = resolved_text(prefill, kv);
    const std::unique_ptr<policy::KvMethod> compresses = policy::make_kv_method(kv, {});
    spec.samples = compresses != nullptr &&
                   (compresses->needs().accumulated || compresses->needs().queries == policy::QuerySource::kSampled);
    spec.session.batch = chunk_tokens(settings);
    spec.session.key_type = key_type(settings);
    spec.session.value_type = value_type(settings);
    spec.session.method = own.method;
    spec.session.prefill = prefill;
    spec.session.kv = kv;
    const bool twice = std::any_of(specs.begin(), specs.end(), [&](const auto& s) { return s.label == spec.label; });
    if (twice) return make_error(ErrorKind::kUsage, "--methods names %s twice", spec.label.c_str());
    specs.push_back(std::move(spec));
  }
  EI_RETURN_IF_ERROR(check_method_options(settings, names));
  return specs;
}

}  // namespace ei::cli
