// make_gguf: writes a random-weight model file (random_model.h) from the command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>

#include "tools/random_model.h"

namespace {

const std::map<std::string, ei::RandomRopeScaling> kScalings = {{"none", ei::RandomRopeScaling::kNone},
                                                                {"linear", ei::RandomRopeScaling::kLinear},
                                                                {"yarn", ei::RandomRopeScaling::kYarn},
                                                                {"llama3", ei::RandomRopeScaling::kLlama3}};

void add_options(CLI::App& app, ei::RandomModelSpec& spec) {
  app.add_option("--family", spec.family, "llama, qwen2, qwen3, pangu-embedded or gemma3")->capture_default_str();
  app.add_option("--layers", spec.layers)->capture_default_str();
  app.add_option("--width", spec.width, "length of the hidden state")->capture_default_str();
  app.add_option("--heads", spec.heads)->capture_default_str();
  app.add_option("--kv-heads", spec.kv_heads)->capture_default_str();
  app.add_option("--head-dim", spec.head_dim)->capture_default_str();
  app.add_option("--ffn", spec.ffn, "length of the feed-forward state")->capture_default_str();
  app.add_option("--vocab", spec.vocab, "number of tokens")->capture_default_str();
  app.add_option("--context", spec.context, "tokens the model claims to read")->capture_default_str();
  app.add_flag("--scales", spec.scales, "a scale beside each matrix of a layer, as NVFP4 files have (llama, qwen3)");
  app.add_flag("--tied,!--untied", spec.tied, "share the token embedding with the output");
  app.add_flag("--qkv-bias", spec.qkv_bias, "biases of q, k and v (qwen2 and pangu-embedded always have them)");
  app.add_option("--rope-base", spec.rope_base)->capture_default_str();
  app.add_option("--rope-scaling", spec.rope_scaling, "none, linear, yarn or llama3")
      ->transform(CLI::CheckedTransformer(kScalings, CLI::ignore_case));
  app.add_option("--rope-factor", spec.rope_factor)->capture_default_str();
  app.add_option("--rope-original-context", spec.rope_original_context)->capture_default_str();
  app.add_option("--window", spec.window, "gemma3: sliding window in tokens")->capture_default_str();
  app.add_option("--window-pattern", spec.window_pattern, "gemma3: every n-th layer is global")->capture_default_str();
  app.add_option("--type", spec.types, "weight type; several, separated by commas, are taken in turn")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seed", spec.seed)->capture_default_str();
}

// The exit code when that is all: help was asked for, or something is wrong.
std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "make_gguf: %s (see make_gguf --help)\n", error.what());
    return ei::exit_code(ei::ErrorKind::kUsage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes a random-weight GGUF model for tests and benchmarks.");
  std::string path;
  std::string preset;
  bool mix = false;
  std::string presets;
  for (const std::string_view name : ei::random_model_presets()) presets += " " + std::string(name);
  app.add_option("path", path, "the file to write")->required();
  app.add_option("--preset", preset, "shape of a known model, other options change it:" + presets);
  app.add_flag("--mix", mix, "mix many weight types in one file");
  ei::RandomModelSpec spec;
  add_options(app, spec);
  if (const std::optional<int> code = parse(app, argc, argv)) return *code;
  if (!preset.empty()) {
    const auto found = ei::random_model_preset(preset);
    if (!found.has_value()) {
      std::fprintf(stderr, "make_gguf: preset '%s' is unknown; known:%s\n", preset.c_str(), presets.c_str());
      return 2;
    }
    // The second pass puts what was asked for on top of the preset.
    const std::vector<std::string> types = spec.types;
    spec = *found;
    spec.types = types;
    app.clear();
    if (const std::optional<int> code = parse(app, argc, argv)) return *code;
  }
  if (mix) spec.types = {"F32", "Q8_0", "Q4_K", "F16", "Q4_0", "Q6_K", "BF16", "Q5_1"};
  const ei::Status status = ei::make_random_model(spec, path);
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_gguf: %s\n", status.error().message.c_str());
  return ei::exit_code(status.error().kind);
}
