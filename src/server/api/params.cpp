#include "server/api/params.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"

namespace ei::server {

namespace {
constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr double kMostMs = 0x1p63;  // as llama-server
constexpr int kMaxChoices = 128;
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxSamplers = 64;
constexpr int64_t kMaxHistory = 131072;  // as the sampler
constexpr size_t kMaxBiases = 100000;    // once their texts are tokens
constexpr size_t kMaxBiasBytes = 4096;
constexpr float kNever = -std::numeric_limits<float>::infinity();

// The names of samplers in their order, as llama.cpp spells them.
void read_steps(Fields& fields, text::SamplerOptions& sampler) {
  if (!fields.has("samplers")) return;
  std::string names;
  for (const std::string& name : fields.texts("samplers", kMaxSamplers)) names += (names.empty() ? "" : ";") + name;
  Result<std::vector<text::SamplerStep>> steps = text::parse_sampler_steps(names);
  if (!steps.ok()) return fields.fail("samplers", steps.error().message);
  sampler.steps = std::move(steps).value();
}

void read_sampler(Fields& fields, text::SamplerOptions& sampler) {
  const auto real = [&](const char* name, float& value, double low, double high) {
    value = static_cast<float>(fields.number(name, static_cast<double>(value), low, high));
  };
  const auto whole = [&](const char* name, int& value, int64_t low, int64_t high) {
    value = static_cast<int>(fields.whole(name, value, low, high));
  };
  real("top_n_sigma", sampler.top_n_sigma, -1, 1000);
  real("xtc_probability", sampler.xtc_probability, 0, 1);
  real("xtc_threshold", sampler.xtc_threshold, 0, 1);
  real("dynatemp_range", sampler.dynatemp_range, 0, 1000);
  real("dynatemp_exponent", sampler.dynatemp_exponent, 0, 1000);
  whole("mirostat", sampler.mirostat, 0, 2);
  real("mirostat_tau", sampler.mirostat_tau, 0, 1000);
  real("mirostat_eta", sampler.mirostat_eta, 0, 1000);
  real("dry_multiplier", sampler.dry_multiplier, 0, 1000);
  real("dry_base", sampler.dry_base, 0, 1000);
  whole("dry_allowed_length", sampler.dry_allowed_length, 0, kMaxHistory);
  whole("dry_penalty_last_n", sampler.dry_penalty_last_n, -1, kMaxHistory);
  if (fields.has("dry_sequence_breakers"))
    sampler.dry_sequence_breakers = fields.texts("dry_sequence_breakers", kMaxSamplers);
  read_steps(fields, sampler);
  real("temperature", sampler.temp, -1000, 1000);
  real("top_p", sampler.top_p, 0, 1);
  real("min_p", sampler.min_p, 0, 1);
  real("typical_p", sampler.typical_p, 0, 1);
  real("repeat_penalty", sampler.repeat_penalty, 0.001, 1000);
  real("presence_penalty", sampler.presence_penalty, -1000, 1000);
  real("frequency_penalty", sampler.frequency_penalty, -1000, 1000);
  sampler.top_k = static_cast<int>(std::max<int64_t>(fields.whole("top_k", sampler.top_k, -1, 1 << 30), 0));
  whole("min_keep", sampler.min_keep, 0, std::numeric_limits<int32_t>::max());
  whole("repeat_last_n", sampler.repeat_last_n, -1, kMaxHistory);
  const int64_t seed = fields.whole("seed", static_cast<int64_t>(sampler.seed), std::numeric_limits<int32_t>::min(),
                                    std::numeric_limits<uint32_t>::max());
  sampler.seed = seed < 0 ? text::kRandomSeed : static_cast<uint32_t>(seed);
  sampler.grammar = fields.text("grammar", sampler.grammar);
  if (const Json* schema = fields.find("json_schema")) {
    if (!schema->is_object() && !schema->is_boolean()) return fields.fail("json_schema", "must be a schema");
    sampler.json_schema = dump(*schema);
  }
  if (!sampler.grammar.empty() && !sampler.json_schema.empty())
    fields.fail("grammar", "and 'json_schema' exclude each other");
}

// [[token or text, bias], ...] or {"token or text": bias}; false forbids.
void read_biases(Fields& fields, const text::Tokenizer& tokenizer, text::SamplerOptions& sampler) {
  const Json* given = fields.find("logit_bias");
  if (given == nullptr) return;
  const auto fail = [&] { fields.fail("logit_bias", "must be pairs of a token (or a text) and a number (or false)"); };
  const auto too_many = [&] { fields.fail("logit_bias", str_format("names more than %zu tokens", kMaxBiases)); };
  const auto add = [&](const Json& what, const Json& bias) {
    const bool forbids = bias.is_boolean() && !bias.get<bool>();
    if (!bias.is_number() && !forbids) return fail();
    const auto value = forbids ? kNever : static_cast<float>(bias.get<double>());
    std::vector<text::Token> tokens;
    if (what.is_number_integer()) {
      const auto token = what.get<int64_t>();
      if (token >= 0 && token < tokenizer.vocab_size()) tokens.push_back(static_cast<text::Token>(token));
    } else if (what.is_string()) {
      const auto& text = what.get_ref<const std::string&>();
      if (text.size() > kMaxBiasBytes)
        return fields.fail("logit_bias",
                           str_format("holds a text of %zu bytes: each may have %zu", text.size(), kMaxBiasBytes));
      const Result<std::vector<text::Token>> pieces = tokenizer.tokenize(text, {});
      if (!pieces.ok()) return fail();
      tokens = *pieces;
    } else {
      return fail();
    }
    if (sampler.logit_bias.size() + tokens.size() > kMaxBiases) return too_many();
    for (const text::Token token : tokens) sampler.logit_bias.emplace_back(token, value);
  };
  if (given->size() > kMaxBiases) return too_many();
  if (given->is_object()) {
    for (const auto& [key, bias] : given->items()) {
      const bool number =
          !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      add(number && key.size() < 10 ? Json(std::stoll(key)) : Json(key), bias);
      if (fields.error()) return;
    }
    return;
  }
  if (!given->is_array()) return fail();
  for (const Json& pair : *given) {
    if (!pair.is_array() || pair.size() != 2) return fail();
    add(pair[0], pair[1]);
    if (fields.error()) return;
  }
}

// "kv_budget" and "kv-budget" name the option kv-budget.
const Json* find_option(const Fields& fields, std::string_view option) {
  const std::string name(option);
  std::string with_lines = name;
  std::replace(with_lines.begin(), with_lines.end(), '-', '_');
  const Json* value = fields.find(with_lines);
  return value != nullptr ? value : fields.find(name);
}

void read_method(Fields& fields, const ParamLimits& limits, policy::MethodChoice& choice) {
  const std::string method = fields.text("method", choice.method);
  policy::MethodChoice asked = method == choice.method ? choice : policy::MethodChoice{.method = method, .options = {}};
  std::map<std::string, std::string> options;
  const auto take = [&](std::string_view name) {
    const Json* value = find_option(fields, name);
    if (value == nullptr) return;
    if (!value->is_primitive()) return fields.fail(std::string(name), "must be a value");
    options[std::string(name)] = value->is_string() ? value->get<std::string>() : value->dump();
  };
  take(policy::kPrefillPolicy);
  for (const auto& spec : policy::prefill_option_table()) take(spec.name);
  for (const auto& spec : policy::kv_option_table()) take(spec.name);
  if (method == choice.method && options.empty()) return;
  policy::give_on_top(asked, options);
  if (!limits.request_methods) return fields.fail("method", "is the operator's choice here: leave it out");
  const Result<policy::PrefillOptions> prefill = policy::prefill_options(asked);
  if (!prefill.ok()) return fields.fail("method", "cannot be followed: " + prefill.error().message);
  const Result<policy::KvOptions> kv = policy::kv_options(asked);
  if (!kv.ok()) return fields.fail("method", "cannot be followed: " + kv.error().message);
  choice = std::move(asked);
}

// What llama.cpp would do to the text and nothing here does. Switched off, these fields are welcome.
void refuse_what_is_not_there(Fields& fields) {
  if (fields.whole("n_indent", 0, 0, kMaxTokens) > 0) fields.fail("n_indent", "is not supported: leave it out, or 0");
  if (fields.number("adaptive_target", -1, std::numeric_limits<double>::lowest(), 1) >= 0)
    fields.fail("adaptive_target", "is not supported: leave it out, or below 0");
}

int64_t read_max_tokens(Fields& fields, int64_t asked) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"})
    if (fields.has(name)) asked = fields.whole(name, asked, -1, kMaxTokens);
  return asked;
}
}  // namespace

Params read_params(Fields& fields, const ParamLimits& limits, const text::Tokenizer& tokenizer) {
  Params params = limits.defaults;
  params.generate.max_tokens = read_max_tokens(fields, params.generate.max_tokens);
  params.generate.ignore_eos = fields.flag("ignore_eos", params.generate.ignore_eos);
  params.generate.sampler.ignore_eos = params.generate.ignore_eos;
  for (const char* name : {"stop", "stop_sequences"})
    if (fields.has(name)) params.generate.stop = fields.texts(name, kMaxStops);
  read_sampler(fields, params.generate.sampler);
  refuse_what_is_not_there(fields);
  for (const char* name : {"grammar", "json_schema"})
    if (fields.has(name)) params.shaped_by = name;
  read_biases(fields, tokenizer, params.generate.sampler);
  read_method(fields, limits, params.method);
  params.stream = fields.flag("stream", false);
  if (const Json* options = fields.find("stream_options")) {
    const Json usage = options->is_object() ? options->value("include_usage", Json(nullptr)) : Json(0);
    if (usage.is_boolean()) {
      params.include_usage = usage.get<bool>();
    } else if (!usage.is_null()) {
      fields.fail("stream_options", "must be an object whose 'include_usage' is true or false");
    }
  }
  for (const char* name : {"n", "n_cmpl"})
    if (fields.has(name)) params.choices = static_cast<int>(fields.whole(name, 1, 1, kMaxChoices));
  params.probabilities = static_cast<int>(fields.whole("n_probs", 0, 0, tokenizer.vocab_size()));
  // Of the draw instead of all logits; as llama.cpp, in /completion alone.
  if (fields.flag("post_sampling_probs", false)) params.generate.sampler.candidates = params.probabilities;
  params.timings_per_token = fields.flag("timings_per_token", false);
  params.return_progress = fields.flag("return_progress", false);
  params.return_heads = fields.flag("return_heads", false);
  params.return_tokens = fields.flag("return_tokens", false);
  params.cache_prompt = fields.flag("cache_prompt", params.cache_prompt);
  params.slot = static_cast<int>(fields.whole("id_slot", -1, -1, limits.slots - 1));
  params.timeout_s = fields.number("timeout", 0, 0, 1e9);
  params.line_after_s = std::max(fields.number("t_max_predict_ms", 0, -1, kMostMs), 0.0) / 1e3;
  params.priority = static_cast<int>(fields.whole("priority", 0, -1000, 1000));
  params.verbose = fields.flag("verbose", params.verbose);
  params.response_fields = fields.texts("response_fields", 256);
  return params;
}

Json settings_json(const Params& params, const text::Tokenizer& tokenizer) {
  const text::SamplerOptions& sampler = params.generate.sampler;
  Json biases = Json::array();
  for (const auto& [token, bias] : sampler.logit_bias)
    biases.push_back({{"token", token}, {"bias", std::isfinite(bias) ? Json(bias) : Json(nullptr)}});
  if (sampler.ignore_eos) {
    for (text::Token token = 0; token < tokenizer.vocab_size(); ++token)
      if (tokenizer.is_end_of_generation(token)) biases.push_back({{"token", token}, {"bias", nullptr}});
  }
  Json steps = Json::array();
  for (const text::SamplerStep step : sampler.steps) steps.push_back(text::sampler_step_name(step));
  Json json = {{"seed", sampler.seed},
               {"temperature", sampler.temp},
               {"top_k", sampler.top_k},
               {"top_p", sampler.top_p},
               {"min_p", sampler.min_p},
               {"typical_p", sampler.typical_p},
               {"min_keep", sampler.min_keep},
               {"repeat_last_n", sampler.repeat_last_n},
               {"repeat_penalty", sampler.repeat_penalty},
               {"presence_penalty", sampler.presence_penalty},
               {"frequency_penalty", sampler.frequency_penalty},
               {"stop", params.generate.stop},
               {"max_tokens", params.generate.max_tokens},
               {"n_predict", params.generate.max_tokens},
               {"ignore_eos", sampler.ignore_eos},
               {"stream", params.stream},
               {"logit_bias", std::move(biases)},
               {"n_probs", params.probabilities},
               {"post_sampling_probs", sampler.candidates > 0},
               {"grammar", sampler.grammar},
               {"samplers", std::move(steps)},
               {"timings_per_token", params.timings_per_token},
               {"t_max_predict_ms", params.line_after_s * 1e3},
               {"method", params.method.method},
               {"method_options", policy::options_text(params.method)}};
  json.update(Json{{"mirostat", sampler.mirostat},
                   {"mirostat_tau", sampler.mirostat_tau},
                   {"mirostat_eta", sampler.mirostat_eta},
                   {"xtc_probability", sampler.xtc_probability},
                   {"xtc_threshold", sampler.xtc_threshold},
                   {"dry_multiplier", sampler.dry_multiplier},
                   {"dry_base", sampler.dry_base},
                   {"dry_allowed_length", sampler.dry_allowed_length},
                   {"dry_penalty_last_n", sampler.dry_penalty_last_n},
                   {"dry_sequence_breakers", sampler.dry_sequence_breakers},
                   {"dynatemp_range", sampler.dynatemp_range},
                   {"dynatemp_exponent", sampler.dynatemp_exponent},
                   {"top_n_sigma", sampler.top_n_sigma}});
  // A sampler of llama.cpp that this one has not: off.
  json.update(Json{{"adaptive_target", -1.0}, {"adaptive_decay", 0.0}});
  return json;
}

}  // namespace ei::server
