#include "text/sampler_chain.h"

#include <llama.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/sampler.h"

namespace ei::text {
namespace {

constexpr int kWholeHistory = 131072;

struct StepName {
  std::string_view name;
  SamplerStep step;
};
constexpr std::array<StepName, 9> kSteps = {{{"penalties", SamplerStep::kPenalties},
                                             {"dry", SamplerStep::kDry},
                                             {"top_n_sigma", SamplerStep::kTopNSigma},
                                             {"top_k", SamplerStep::kTopK},
                                             {"typ_p", SamplerStep::kTypicalP},
                                             {"top_p", SamplerStep::kTopP},
                                             {"min_p", SamplerStep::kMinP},
                                             {"xtc", SamplerStep::kXtc},
                                             {"temperature", SamplerStep::kTemperature}}};

// Other spellings that people know from llama.cpp.
constexpr std::array<StepName, 9> kOtherNames = {{{"top-n-sigma", SamplerStep::kTopNSigma},
                                                  {"top-k", SamplerStep::kTopK},
                                                  {"typ-p", SamplerStep::kTypicalP},
                                                  {"typical", SamplerStep::kTypicalP},
                                                  {"typical-p", SamplerStep::kTypicalP},
                                                  {"typical_p", SamplerStep::kTypicalP},
                                                  {"top-p", SamplerStep::kTopP},
                                                  {"min-p", SamplerStep::kMinP},
                                                  {"temp", SamplerStep::kTemperature}}};

int history_of(int last_n) { return last_n == -1 ? kWholeHistory : last_n; }

Status check_range(const char* name, float value, float low, float high) {
  if (value >= low && value <= high) return {};  // false for NaN
  return make_error(ErrorKind::kUsage, "%s must be between %g and %g: %g", name, static_cast<double>(low),
                    static_cast<double>(high), static_cast<double>(value));
}

Status check_history(const char* name, int last_n) {
  if (last_n >= -1 && last_n <= kWholeHistory) return {};
  return make_error(ErrorKind::kUsage, "%s must be between -1 and %d: %d", name, kWholeHistory, last_n);
}

llama_sampler* make_penalties(const SamplerOptions& options, int32_t vocab_size) {
  const bool penalised =
      options.repeat_penalty != 1.0f || options.frequency_penalty != 0.0f || options.presence_penalty != 0.0f;
  if (!penalised || options.repeat_last_n == 0) return nullptr;
  return llama_sampler_init_penalties(vocab_size, history_of(options.repeat_last_n), options.repeat_penalty,
                                      options.frequency_penalty, options.presence_penalty);
}

llama_sampler* make_dry(const SamplerOptions& options, const llama_vocab* vocab) {
  if (options.dry_multiplier == 0.0f || options.dry_base < 1.0f || options.dry_penalty_last_n == 0) return nullptr;
  std::vector<const char*> breakers;
  breakers.reserve(options.dry_sequence_breakers.size());
  for (const std::string& breaker : options.dry_sequence_breakers) breakers.push_back(breaker.c_str());
  return llama_sampler_init_dry(vocab, options.dry_multiplier, options.dry_base, options.dry_allowed_length,
                                history_of(options.dry_penalty_last_n), breakers.data(), breakers.size());
}

}  // namespace

void SamplerDeleter::operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }

const std::vector<SamplerStep>& default_sampler_steps() {
  static const std::vector<SamplerStep> steps = [] {
    std::vector<SamplerStep> all;
    all.reserve(kSteps.size());
    for (const StepName& one : kSteps) all.push_back(one.step);
    return all;
  }();
  return steps;
}

std::string_view sampler_step_name(SamplerStep step) {
  return std::find_if(kSteps.begin(), kSteps.end(), [&](const StepName& one) { return one.step == step; })->name;
}

std::string sampler_step_names() {
  std::string names;
  for (const StepName& one : kSteps) {
    if (!names.empty()) names += ';';
    names += one.name;
  }
  return names;
}

Result<std::vector<SamplerStep>> parse_sampler_steps(std::string_view text) {
  std::vector<SamplerStep> steps;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view name = text.substr(0, end);
    const auto named = [&](const StepName& one) { return one.name == name; };
    const auto* found = std::find_if(kSteps.begin(), kSteps.end(), named);
    if (found == kSteps.end()) {
      found = std::find_if(kOtherNames.begin(), kOtherNames.end(), named);
      if (found == kOtherNames.end())
        return make_error(ErrorKind::kUsage, "'%s' is not a sampler; there are %s", std::string(name).c_str(),
                          sampler_step_names().c_str());
    }
    steps.push_back(found->step);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

Status check_sampler_options(const SamplerOptions& options) {
  constexpr float kMost = 1000.0f;
  EI_RETURN_IF_ERROR(check_range("temp", options.temp, -kMost, kMost));
  EI_RETURN_IF_ERROR(check_range("top-p", options.top_p, 0.0f, 1.0f));
  EI_RETURN_IF_ERROR(check_range("min-p", options.min_p, 0.0f, 1.0f));
  EI_RETURN_IF_ERROR(check_range("typical-p", options.typical_p, 0.0f, 1.0f));
  EI_RETURN_IF_ERROR(check_range("top-n-sigma", options.top_n_sigma, -1.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("xtc-probability", options.xtc_probability, 0.0f, 1.0f));
  EI_RETURN_IF_ERROR(check_range("xtc-threshold", options.xtc_threshold, 0.0f, 1.0f));
  EI_RETURN_IF_ERROR(check_range("dynatemp-range", options.dynatemp_range, 0.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("dynatemp-exp", options.dynatemp_exponent, 0.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("mirostat-ent", options.mirostat_tau, 0.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("mirostat-lr", options.mirostat_eta, 0.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("dry-multiplier", options.dry_multiplier, 0.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("dry-base", options.dry_base, 0.0f, kMost));
  EI_RETURN_IF_ERROR(check_range("repeat-penalty", options.repeat_penalty, 0.001f, kMost));
  EI_RETURN_IF_ERROR(check_range("frequency-penalty", options.frequency_penalty, -kMost, kMost));
  EI_RETURN_IF_ERROR(check_range("presence-penalty", options.presence_penalty, -kMost, kMost));
  if (options.top_k < 0) return make_error(ErrorKind::kUsage, "top-k must be 0 (all) or more: %d", options.top_k);
  if (options.min_keep < 0) return make_error(ErrorKind::kUsage, "min-keep must be 0 or more: %d", options.min_keep);
  if (options.mirostat < 0 || options.mirostat > 2)
    return make_error(ErrorKind::kUsage, "mirostat must be 0 (off), 1 or 2: %d", options.mirostat);
  if (options.dry_allowed_length < 0)
    return make_error(ErrorKind::kUsage, "dry-allowed-length must be 0 or more: %d", options.dry_allowed_length);
  EI_RETURN_IF_ERROR(check_history("repeat-last-n", options.repeat_last_n));
  EI_RETURN_IF_ERROR(check_history("dry-penalty-last-n", options.dry_penalty_last_n));
  for (const auto& [token, bias] : options.logit_bias) {
    constexpr float kMostBias = 1e6f;
    if (!(bias <= kMostBias))  // true for NaN
      return make_error(ErrorKind::kUsage, "logit-bias of token %d is no finite number", token);
  }
  if (!options.grammar.empty() && !options.json_schema.empty())
    return make_error(ErrorKind::kUsage, "grammar and json-schema exclude each other: give one of them");
  return {};
}

SamplerChain make_sampler_chain(const SamplerOptions& options, const llama_vocab* vocab, int32_t vocab_size,
                                uint32_t seed) {
  SamplerChain chain;
  chain.draws = options.temp > 0.0f;
  chain.steps.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto min_keep = static_cast<size_t>(options.min_keep);
  const auto add = [&](llama_sampler* sampler) {
    if (sampler != nullptr) llama_sampler_chain_add(chain.steps.get(), sampler);
  };
  const auto add_looking_back = [&](llama_sampler* sampler, int last_n) {
    if (sampler == nullptr) return;
    add(sampler);
    chain.history.push_back(sampler);
    chain.last_n = std::max(chain.last_n, static_cast<size_t>(history_of(last_n)));
  };
  for (const SamplerStep step : options.steps) {
    // The likeliest token stays the likeliest behind all other steps.
    if (step == SamplerStep::kPenalties) add_looking_back(make_penalties(options, vocab_size), options.repeat_last_n);
    if (step == SamplerStep::kDry) add_looking_back(make_dry(options, vocab), options.dry_penalty_last_n);
    if (!chain.draws || options.mirostat > 0) continue;  // mirostat has the temperature alone beside it
    switch (step) {
      case SamplerStep::kPenalties:
      case SamplerStep::kDry: break;
      case SamplerStep::kTopNSigma:
        if (options.top_n_sigma > 0.0f) add(llama_sampler_init_top_n_sigma(options.top_n_sigma));
        break;
      case SamplerStep::kTopK:
        if (options.top_k > 0) add(llama_sampler_init_top_k(options.top_k));
        break;
      case SamplerStep::kTypicalP:
        if (options.typical_p < 1.0f) add(llama_sampler_init_typical(options.typical_p, min_keep));
        break;
      case SamplerStep::kTopP:
        if (options.top_p < 1.0f) add(llama_sampler_init_top_p(options.top_p, min_keep));
        break;
      case SamplerStep::kMinP:
        if (options.min_p > 0.0f) add(llama_sampler_init_min_p(options.min_p, min_keep));
        break;
      case SamplerStep::kXtc:
        if (options.xtc_probability > 0.0f)
          add(llama_sampler_init_xtc(options.xtc_probability, options.xtc_threshold, min_keep, seed));
        break;
      case SamplerStep::kTemperature:
        add(llama_sampler_init_temp_ext(options.temp, options.dynatemp_range, options.dynatemp_exponent));
        break;
    }
  }
  if (!chain.draws) return chain;
  constexpr int kMirostatTokens = 100;
  if (options.mirostat > 0) add(llama_sampler_init_temp(options.temp));
  if (options.mirostat == 1)
    add(llama_sampler_init_mirostat(vocab_size, seed, options.mirostat_tau, options.mirostat_eta, kMirostatTokens));
  if (options.mirostat == 2) add(llama_sampler_init_mirostat_v2(seed, options.mirostat_tau, options.mirostat_eta));
  if (options.mirostat == 0) add(llama_sampler_init_dist(seed));
  return chain;
}

}  // namespace ei::text
