#include "cli/model_overrides.h"

namespace ei::cli {

Binding metadata(std::string Settings::*field) {
  return {.set = [field](Settings& settings, const std::string& value) -> Status {
            EI_RETURN_IF_ERROR(gguf::parse_overrides(value));
            settings.*field = value;
            return {};
          },
          .show = [field](const Settings& settings) { return settings.*field; },
          .repeats = true};
}

gguf::Overrides model_overrides(const Settings& settings) {
  gguf::Overrides all;
  if (!settings.override_kv.empty()) {
    if (Result<gguf::Overrides> parsed = gguf::parse_overrides(settings.override_kv); parsed.ok())
      all = std::move(parsed).value();
  }
  if (!settings.rope_scaling.empty()) all.push_back({"{arch}.rope.scaling.type", settings.rope_scaling});
  if (settings.rope_scale > 0) all.push_back({"{arch}.rope.scaling.factor", settings.rope_scale});
  if (settings.rope_freq_scale > 0) all.push_back({"{arch}.rope.scaling.factor", 1 / settings.rope_freq_scale});
  if (settings.rope_freq_base > 0) all.push_back({"{arch}.rope.freq_base", settings.rope_freq_base});
  if (settings.yarn_orig_ctx > 0)
    all.push_back({"{arch}.rope.scaling.original_context_length", settings.yarn_orig_ctx});
  const auto yarn = [&](const char* key, double value) {
    if (value >= 0) all.push_back({std::string("{arch}.rope.scaling.yarn_") + key, value});
  };
  yarn("ext_factor", settings.yarn_ext_factor);
  yarn("attn_factor", settings.yarn_attn_factor);
  yarn("beta_slow", settings.yarn_beta_slow);
  yarn("beta_fast", settings.yarn_beta_fast);
  return all;
}

}  // namespace ei::cli
