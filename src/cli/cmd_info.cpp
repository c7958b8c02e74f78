// info: what a model file holds and what a run would need. Reads metadata only; allocates nothing for weights or cache.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/model_overrides.h"
#include "cli/setup.h"
#include "cli/version.h"
#include "engine/cache_types.h"
#include "engine/memory.h"
#include "kernels/simd/cpu_target.h"

namespace ei::cli {

namespace {
using Json = nlohmann::ordered_json;

struct Facts {
  gguf::File file;
  model::Config config;
  std::unique_ptr<Backend> backend;
  int64_t tokens = 0;
  DType key_type = DType::kF16;
  DType value_type = DType::kF16;
  MemoryNeed need{};
  int64_t parameters = 0;
  std::map<std::string, int64_t> bytes_by_type{};

  std::string computes() const { return backend_detail(file, *backend, key_type, value_type); }
};

Result<Facts> collect(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  EI_ASSIGN_OR_RETURN(model::ModelFile opened, model::open_model(path, model_overrides(settings)));
  EI_ASSIGN_OR_RETURN(auto backend,
                      create_backend(settings.device, with_packed_budget(engine_options(settings, path).backend_options,
                                                                         opened.config, opened.file)));
  Facts facts{.file = std::move(opened.file), .config = std::move(opened.config), .backend = std::move(backend)};
  facts.tokens = settings.ctx_size > 0 ? settings.ctx_size : facts.config.context;
  const CacheTypes types = cache_types(*facts.backend, key_type(settings), value_type(settings));
  EI_RETURN_IF_ERROR(check_cache_types(*facts.backend, facts.config, types));
  facts.key_type = types.keys;
  facts.value_type = types.values;
  facts.need =
      memory_need(facts.config, facts.file, facts.tokens, facts.key_type, facts.value_type, chunk_tokens(settings));
  facts.need.packed = packed_need(facts.file, *facts.backend);
  for (const gguf::Tensor& tensor : facts.file.tensors()) {
    facts.parameters += tensor.rows() * tensor.cols();
    facts.bytes_by_type[std::string(tensor.type->name)] += tensor.bytes;
  }
  return facts;
}

const char* scaling_name(Rope::Scaling scaling) {
  switch (scaling) {
    case Rope::Scaling::kNone: return "none";
    case Rope::Scaling::kLinear: return "linear";
    case Rope::Scaling::kYarn: return "yarn";
  }
  return "none";
}

Json rope_json(const Rope& rope) {
  return {{"base", rope.base},
          {"scaling", scaling_name(rope.scaling)},
          {"frequency_scale", rope.frequency_scale},
          {"original_context", rope.original_context},
          {"factors", !rope.factors.empty()}};
}

int64_t kv_bytes_per_layer(const Facts& facts) {
  return facts.config.kv_bytes_per_token(facts.key_type, facts.value_type) / facts.config.layers;
}

Json layers_json(const Facts& facts) {
  Json layers = Json::array();
  for (size_t layer = 0; layer < facts.config.per_layer.size(); ++layer) {
    const model::LayerFacts& per_layer = facts.config.per_layer[layer];
    layers.push_back({{"layer", layer},
                      {"window", per_layer.window},
                      {"rope", per_layer.rope},
                      {"kv_bytes_per_token", kv_bytes_per_layer(facts)}});
  }
  return layers;
}

std::string to_json(const Facts& facts) {
  const model::Config& config = facts.config;
  Json object;
  object["model"] = facts.file.path();
  object["name"] = config.name;
  object["arch"] = config.arch;
  object["supported_archs"] = model::architecture_names();
  object["file_bytes"] = facts.file.bytes();
  object["parameters"] = facts.parameters;
  object["tensor_bytes"] = facts.bytes_by_type;
  object["config"] = {{"layers", config.layers},       {"width", config.width},
                      {"heads", config.heads},         {"kv_heads", config.kv_heads},
                      {"head_dim", config.head_dim},   {"ffn_width", config.ffn_width},
                      {"vocab", config.vocab},         {"context", config.context},
                      {"rope_dims", config.rope_dims}, {"rope_interleaved", config.rope_interleaved},
                      {"norm_eps", config.norm_eps},   {"attention_scale", config.attention_scale},
                      {"qk_norm", config.qk_norm},     {"post_norms", config.post_norms}};
  object["ropes"] = Json::array();
  for (const Rope& rope : config.ropes) object["ropes"].push_back(rope_json(rope));
  object["layers"] = layers_json(facts);
  object["kv"] = {{"tokens", facts.tokens},
                  {"type_k", dtype_name(facts.key_type)},
                  {"type_v", dtype_name(facts.value_type)},
                  {"bytes_per_token", config.kv_bytes_per_token(facts.key_type, facts.value_type)},
                  {"bytes", facts.need.kv}};
  object["memory"] = {{"weights_bytes", facts.need.weights}, {"packed_bytes", facts.need.packed},
                      {"kv_bytes", facts.need.kv},           {"scratch_bytes", facts.need.scratch},
                      {"total_bytes", facts.need.total()},   {"available_bytes", available_memory_bytes()}};
  object["backend"] = {{"name", facts.backend->name()}, {"describe", facts.computes()}};
  object["machine"] = cpu_name();
  object["cpu_target"] = kernels::cpu_target();
  object["version"] = version();
  object["commit"] = build_commit();
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

// "0-4, 6-10: window 512" and "5, 11: global", runs of layers with the same facts together.
std::vector<std::string> layer_lines(const model::Config& config) {
  std::map<std::string, std::string> layers_by_facts;
  for (size_t first = 0; first < config.per_layer.size();) {
    const model::LayerFacts& facts = config.per_layer[first];
    size_t last = first;
    while (last + 1 < config.per_layer.size() && config.per_layer[last + 1].window == facts.window &&
           config.per_layer[last + 1].rope == facts.rope) {
      ++last;
    }
    const std::string kind =
        (facts.window > 0 ? str_format("window of %d tokens", facts.window) : "global attention") +
        str_format(", rope base %g", static_cast<double>(config.ropes[static_cast<size_t>(facts.rope)].base));
    std::string& layers = layers_by_facts[kind];
    if (!layers.empty()) layers += ", ";
    layers += first == last ? str_format("%zu", first) : str_format("%zu-%zu", first, last);
    first = last + 1;
  }
  std::vector<std::string> lines;
  lines.reserve(layers_by_facts.size());
  for (const auto& [kind, layers] : layers_by_facts) lines.push_back(layers + ": " + kind);
  return lines;
}

std::string to_text(const Facts& facts) {
  const model::Config& config = facts.config;
  const auto size = [](int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  std::string text;
  const auto row = [&](const char* label, const std::string& value) {
    text += str_format("%-10s %s\n", label, one_line(value).c_str());
  };
  row("model", facts.file.path());
  row("name", config.name.empty() ? "(none)" : config.name);
  row("family", config.arch + " (supported: " + model::supported_architectures() + ")");
  row("size", str_format("%.1f M parameters, %s", static_cast<double>(facts.parameters) / 1e6,
                         size(facts.file.bytes()).c_str()));
  for (const auto& [type, bytes] : facts.bytes_by_type) row("", type + ": " + size(bytes));
  row("shape", str_format("%s, width %d, %s x %d, %s, ffn %d, vocab %d", counted(config.layers, "layer").c_str(),
                          config.width, counted(config.heads, "head").c_str(), config.head_dim,
                          counted(config.kv_heads, "kv_head").c_str(), config.ffn_width, config.vocab));
  row("context", str_format("%d tokens", config.context));
  bool first = true;
  for (const std::string& line : layer_lines(config)) {
    row(first ? "layers" : "", line);
    first = false;
  }
  row("KV cache",
      str_format("%s for %lld tokens (%s keys, %s values, %s a token)", size(facts.need.kv).c_str(),
                 static_cast<long long>(facts.tokens), dtype_name(facts.key_type), dtype_name(facts.value_type),
                 size(config.kv_bytes_per_token(facts.key_type, facts.value_type)).c_str()));
  row("memory", str_format("%s needed: weights %s, packed copies %s, KV cache %s, scratch %s; %s available",
                           size(facts.need.total()).c_str(), size(facts.need.weights).c_str(),
                           size(facts.need.packed).c_str(), size(facts.need.kv).c_str(),
                           size(facts.need.scratch).c_str(), size(available_memory_bytes()).c_str()));
  row("backend", facts.computes());
  const std::string target(kernels::cpu_target());
  row("machine", cpu_name() + (target.empty() ? "" : ", used as " + target + " (EI_CPU_TARGET)"));
  return text;
}
}  // namespace

Result<int> command_info(const CommandContext& context) {
  EI_ASSIGN_OR_RETURN(const Facts facts, collect(context.settings));
  const bool printed =
      context.settings.json ? context.console.print_line(to_json(facts)) : context.console.print(to_text(facts));
  return printed ? 0 : exit_code(ErrorKind::kRuntime);
}

}  // namespace ei::cli
