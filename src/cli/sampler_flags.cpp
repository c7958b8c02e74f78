#include "cli/sampler_flags.h"

#include <limits>

namespace ei::cli {
namespace {

using text::SamplerOptions;
constexpr unsigned kTakesSamplers = kRun | kChat | kServe | kInspect;
constexpr int64_t kMaxHistory = 131072;  // as the sampler
constexpr double kMost = 1000;

Option flag(std::string_view spellings, std::string_view value, std::string_view help, Binding binding) {
  return {
      .spellings = spellings, .value = value, .help = help, .commands = kTakesSamplers, .binding = std::move(binding)};
}

Binding real_of(float SamplerOptions::*field, double low, double high = kMost) {
  return {
      .set = [=](Settings& settings, const std::string& value) -> Status {
        EI_ASSIGN_OR_RETURN(const double parsed, parse_real(value, low, high));
        settings.sampling.*field = static_cast<float>(parsed);
        return {};
      },
      .show =
          [=](const Settings& settings) { return str_format("%g", static_cast<double>(settings.sampling.*field)); }};
}

Binding whole_of(int SamplerOptions::*field, int64_t low, int64_t high) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(const int64_t parsed, parse_whole(value, low, high));
            settings.sampling.*field = static_cast<int>(parsed);
            return {};
          },
          .show = [=](const Settings& settings) { return std::to_string(settings.sampling.*field); }};
}

Binding steps() {
  return {.set = [](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(settings.sampling.steps, text::parse_sampler_steps(value));
            return {};
          },
          .show = [](const Settings&) { return text::sampler_step_names(); }};
}

// "15043+1", "15043-1", "15043-inf".
Result<std::pair<text::Token, float>> parse_bias(const std::string& text) {
  const size_t sign = text.find_first_of("+-", 1);
  if (sign == std::string::npos)
    return make_error(ErrorKind::kUsage, "'%s' is not a token and a bias, as in 15043+1 or 15043-inf", text.c_str());
  EI_ASSIGN_OR_RETURN(const int64_t token,
                      parse_whole(text.substr(0, sign), 0, std::numeric_limits<text::Token>::max()));
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::string number = text.substr(text[sign] == '+' ? sign + 1 : sign);
  if (number == "-inf") return std::pair{static_cast<text::Token>(token), kNever};
  EI_ASSIGN_OR_RETURN(const double bias, parse_real(number, -kMost, kMost));
  return std::pair{static_cast<text::Token>(token), static_cast<float>(bias)};
}

Binding biases() {
  return {.set = [](Settings& settings, const std::string& value) -> Status {
            settings.sampling.logit_bias.clear();
            for (const std::string& one : split(value, ',')) {
              EI_ASSIGN_OR_RETURN(const auto bias, parse_bias(one));
              settings.sampling.logit_bias.push_back(bias);
            }
            return {};
          },
          .show = [](const Settings&) { return std::string(); },
          .repeats = true};
}

// llama.cpp: the first one clears the defaults, "none" leaves none.
Binding breakers() {
  return {.set = [](Settings& settings, const std::string& value) -> Status {
            settings.sampling.dry_sequence_breakers.clear();
            for (std::string& one : split(value, kUnitSeparator))
              if (one != "none") settings.sampling.dry_sequence_breakers.push_back(std::move(one));
            return {};
          },
          .show = [](const Settings&) { return std::string("\\n : \" *"); },
          .repeats = true,
          .joint = kUnitSeparator};
}

}  // namespace

std::vector<Option> sampler_flags() {
  using O = SamplerOptions;
  return {
      flag("--samplers", "LIST", "the samplers in their order, separated by ;", steps()),
      flag("--typical --typical-p", "P", "locally typical sampling; 1: off", real_of(&O::typical_p, 0, 1)),
      flag("--top-nsigma --top-n-sigma", "N", "drop tokens N standard deviations below the likeliest; -1: off",
           real_of(&O::top_n_sigma, -1)),
      flag("--xtc-probability", "P", "with this probability drop the likeliest tokens; 0: off",
           real_of(&O::xtc_probability, 0, 1)),
      flag("--xtc-threshold", "P", "all but the last of those that are likelier than P",
           real_of(&O::xtc_threshold, 0, 1)),
      flag("--dynatemp-range", "X", "the temperature moves by as much with the entropy; 0: it stays",
           real_of(&O::dynatemp_range, 0)),
      flag("--dynatemp-exp", "X", "exponent of that", real_of(&O::dynatemp_exponent, 0)),
      flag("--mirostat", "N", "mirostat 1 or 2 in place of the samplers above; 0: off", whole_of(&O::mirostat, 0, 2)),
      flag("--mirostat-ent", "X", "the surprise it aims at, tau", real_of(&O::mirostat_tau, 0)),
      flag("--mirostat-lr", "X", "how fast it learns, eta", real_of(&O::mirostat_eta, 0)),
      flag("--dry-multiplier", "X", "penalty of repeated sequences (DRY); 0: off", real_of(&O::dry_multiplier, 0)),
      flag("--dry-base", "X", "it grows by this with their length", real_of(&O::dry_base, 0)),
      flag("--dry-allowed-length", "N", "sequences up to this length are free",
           whole_of(&O::dry_allowed_length, 0, kMaxHistory)),
      flag("--dry-penalty-last-n", "N", "tokens it looks back on; 0: off, -1: all",
           whole_of(&O::dry_penalty_last_n, -1, kMaxHistory)),
      flag("--dry-sequence-breaker", "TEXT", "ends a sequence; may be given more than once; none: nothing does",
           breakers()),
      flag("-l --logit-bias", "TOKEN+BIAS", "add to the logit of a token, as in 15043+1, 15043-1 or 15043-inf",
           biases()),
  };
}

}  // namespace ei::cli
