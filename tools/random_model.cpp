#include "tools/random_model.h"

#include <cmath>
#include <cstdio>
#include <functional>

#include "gguf/hyperparameters.h"
#include "gguf/writer.h"
#include "tools/random_tensor.h"
#include "tools/random_vocabulary.h"

namespace ei {
namespace {

using gguf::TensorType;

constexpr double kNormSpread = 0.05;
constexpr double kBiasSpread = 0.1;
constexpr double kPi = 3.14159265358979323846;

struct Plan {
  gguf::Writer writer;
  std::vector<RandomTensor> tensors;
};

bool has_qkv_bias(const RandomModelSpec& spec) {
  return spec.qkv_bias || spec.family == "qwen2" || spec.family == "pangu-embedded";
}
bool has_qk_norm(const RandomModelSpec& spec) { return spec.family == "qwen3" || spec.family == "gemma3"; }

Status check_counts(const RandomModelSpec& spec) {
  const struct {
    const char* name;
    int64_t value;
    int64_t low;
    int64_t high;
  } ranges[] = {{"layers", spec.layers, 1, 512},
                {"width", spec.width, 8, 1 << 17},
                {"heads", spec.heads, 1, 1024},
                {"kv-heads", spec.kv_heads, 1, 1024},
                {"head-dim", spec.head_dim, 2, 1024},
                {"ffn", spec.ffn, 8, 1 << 20},
                {"vocab", spec.vocab, kMinRandomVocabulary, 1 << 22},
                {"context", spec.context, 1, 1 << 30},
                {"window", spec.window, 1, 1 << 30},
                {"window-pattern", spec.window_pattern, 1, 512}};
  for (const auto& range : ranges) {
    if (range.value < range.low || range.value > range.high) {
      return make_error(ErrorKind::kUsage, "--%s is %lld; %lld to %lld are allowed", range.name,
                        static_cast<long long>(range.value), static_cast<long long>(range.low),
                        static_cast<long long>(range.high));
    }
  }
  return {};
}

Status check_spec(const RandomModelSpec& spec) {
  bool known = false;
  std::string list;
  for (const std::string_view name : gguf::supported_architectures()) {
    known = known || name == spec.family;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  if (!known) {
    return make_error(ErrorKind::kUsage, "family '%s' is unknown; known: %s", spec.family.c_str(), list.c_str());
  }
  EI_RETURN_IF_ERROR(check_counts(spec));
  if (spec.heads % spec.kv_heads != 0) {
    return make_error(ErrorKind::kUsage, "%lld heads cannot share %lld kv-heads evenly",
                      static_cast<long long>(spec.heads), static_cast<long long>(spec.kv_heads));
  }
  if (spec.head_dim % 2 != 0) return make_error(ErrorKind::kUsage, "--head-dim must be even: RoPE turns pairs");
  if (spec.family == "qwen2" && spec.heads * spec.head_dim != spec.width) {
    return make_error(ErrorKind::kUsage, "qwen2 needs heads x head-dim = width: %lld x %lld is not %lld",
                      static_cast<long long>(spec.heads), static_cast<long long>(spec.head_dim),
                      static_cast<long long>(spec.width));
  }
  if (spec.rope_scaling == RandomRopeScaling::kLlama3 && spec.family != "llama" && spec.family != "pangu-embedded") {
    return make_error(ErrorKind::kUsage, "--rope-scaling llama3 exists for llama and pangu-embedded only");
  }
  if (spec.scales && spec.family != "llama" && spec.family != "qwen3") {
    return make_error(ErrorKind::kUsage, "--scales exists for llama and qwen3 only");
  }
  if (!(spec.rope_base > 1.0) || !(spec.rope_factor > 0.0) || spec.rope_original_context < 1) {
    return make_error(ErrorKind::kUsage, "the RoPE base must be above 1, its factor and original context above 0");
  }
  return {};
}

void add_metadata(const RandomModelSpec& spec, gguf::Writer& writer) {
  const auto key = [&](const char* name) { return spec.family + "." + name; };
  const auto count = [&](const char* name, int64_t value) { writer.u32(key(name), static_cast<uint32_t>(value)); };
  writer.text("general.architecture", spec.family);
  writer.text("general.name", "random " + spec.family);
  writer.u32("general.quantization_version", 2);
  count("context_length", spec.context);
  count("embedding_length", spec.width);
  count("block_count", spec.layers);
  count("feed_forward_length", spec.ffn);
  count("attention.head_count", spec.heads);
  count("attention.head_count_kv", spec.kv_heads);
  count("attention.key_length", spec.head_dim);
  count("attention.value_length", spec.head_dim);
  count("rope.dimension_count", spec.head_dim);
  count("vocab_size", spec.vocab);
  writer.f32(key("attention.layer_norm_rms_epsilon"), 1e-6f);
  writer.f32(key("rope.freq_base"), static_cast<float>(spec.rope_base));
  if (spec.rope_scaling == RandomRopeScaling::kLinear || spec.rope_scaling == RandomRopeScaling::kYarn) {
    writer.text(key("rope.scaling.type"), spec.rope_scaling == RandomRopeScaling::kLinear ? "linear" : "yarn");
    writer.f32(key("rope.scaling.factor"), static_cast<float>(spec.rope_factor));
    count("rope.scaling.original_context_length", spec.rope_original_context);
  }
  if (spec.family == "gemma3") {
    count("attention.sliding_window", spec.window);
    count("attention.sliding_window_pattern", spec.window_pattern);
    writer.f32(key("rope.freq_base_swa"), 10000.0f);
  }
  add_random_vocabulary(spec.vocab, writer);
}

// Llama 3's divisors of the rotation frequencies: long waves are slowed by the factor, short ones are kept, those
// between blend. They travel as a tensor, so that no reader needs the formula.
std::vector<float> llama3_factors(const RandomModelSpec& spec) {
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  std::vector<float> factors;
  for (int64_t i = 0; i < spec.head_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(spec.head_dim);
    const double wavelength = 2.0 * kPi * std::pow(spec.rope_base, exponent);
    const double turns = static_cast<double>(spec.rope_original_context) / wavelength;  // within the original context
    double factor = 1.0;
    if (turns < kLow) {
      factor = spec.rope_factor;
    } else if (turns < kHigh) {
      const double blend = (turns - kLow) / (kHigh - kLow);
      factor = 1.0 / ((1.0 - blend) / spec.rope_factor + blend);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

class Planner {
 public:
  Planner(const RandomModelSpec& spec, std::vector<const TensorType*> types, Plan& plan)
      : spec_(spec), types_(std::move(types)), plan_(plan) {}

  Status add_all() {
    EI_RETURN_IF_ERROR(matrix("token_embd.weight", spec_.width, spec_.vocab, 2.0));
    vector("output_norm.weight", spec_.width, 1.0, kNormSpread);
    if (!spec_.tied) EI_RETURN_IF_ERROR(matrix("output.weight", spec_.width, spec_.vocab, 2.0));
    if (spec_.rope_scaling == RandomRopeScaling::kLlama3) fixed("rope_freqs.weight", llama3_factors(spec_));
    for (int64_t layer = 0; layer < spec_.layers; ++layer) EI_RETURN_IF_ERROR(add_layer(layer));
    return {};
  }

 private:
  Status add_layer(int64_t layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const int64_t q = spec_.heads * spec_.head_dim;
    const int64_t kv = spec_.kv_heads * spec_.head_dim;
    vector(block + "attn_norm.weight", spec_.width, 1.0, kNormSpread);
    EI_RETURN_IF_ERROR(matrix(block + "attn_q.weight", spec_.width, q));
    EI_RETURN_IF_ERROR(matrix(block + "attn_k.weight", spec_.width, kv));
    EI_RETURN_IF_ERROR(matrix(block + "attn_v.weight", spec_.width, kv));
    EI_RETURN_IF_ERROR(matrix(block + "attn_output.weight", q, spec_.width));
    if (has_qkv_bias(spec_)) {
      vector(block + "attn_q.bias", q, 0.0, kBiasSpread);
      vector(block + "attn_k.bias", kv, 0.0, kBiasSpread);
      vector(block + "attn_v.bias", kv, 0.0, kBiasSpread);
    }
    if (spec_.family == "pangu-embedded") vector(block + "attn_output.bias", spec_.width, 0.0, kBiasSpread);
    if (has_qk_norm(spec_)) {
      vector(block + "attn_q_norm.weight", spec_.head_dim, 1.0, kNormSpread);
      vector(block + "attn_k_norm.weight", spec_.head_dim, 1.0, kNormSpread);
    }
    if (spec_.family == "gemma3") {
      vector(block + "post_attention_norm.weight", spec_.width, 1.0, kNormSpread);
      vector(block + "post_ffw_norm.weight", spec_.width, 1.0, kNormSpread);
    }
    vector(block + "ffn_norm.weight", spec_.width, 1.0, kNormSpread);
    EI_RETURN_IF_ERROR(matrix(block + "ffn_gate.weight", spec_.width, spec_.ffn));
    EI_RETURN_IF_ERROR(matrix(block + "ffn_up.weight", spec_.width, spec_.ffn));
    return matrix(block + "ffn_down.weight", spec_.ffn, spec_.width);
  }

  // Spread `gain` / sqrt(cols), so that products keep the size of their inputs.
  Status matrix(const std::string& name, int64_t cols, int64_t rows, double gain = 1.0) {
    for (size_t tries = 0; tries < types_.size(); ++tries) {
      const TensorType* type = types_[next_type_++ % types_.size()];
      if (cols % type->block_elements != 0) continue;
      plan_.writer.tensor(name, *type, std::vector<int64_t>{cols, rows});
      plan_.tensors.push_back({type, cols, rows, 0.0, gain / std::sqrt(static_cast<double>(cols)), {}});
      const bool output = name == "output.weight" && type->name == "NVFP4";
      if (spec_.scales && (name.starts_with("blk.") || output)) {
        const std::string beside = name.substr(0, name.rfind('.'));
        fixed(beside + ".scale", {0.5f + 0.125f * static_cast<float>(plan_.tensors.size() % 9)});
        fixed(beside + ".input_scale", {1.0f});
      }
      return {};
    }
    return make_error(ErrorKind::kUsage, "%s has rows of %lld elements; %s needs a multiple of %lld", name.c_str(),
                      static_cast<long long>(cols), std::string(types_[0]->name).c_str(),
                      static_cast<long long>(types_[0]->block_elements));
  }

  void vector(const std::string& name, int64_t length, double mean, double spread) {
    const TensorType* type = gguf::find_tensor_type("F32");
    plan_.writer.tensor(name, *type, std::vector<int64_t>{length});
    plan_.tensors.push_back({type, length, 1, mean, spread, {}});
  }

  void fixed(const std::string& name, std::vector<float> values) {
    const auto length = static_cast<int64_t>(values.size());
    vector(name, length, 0.0, 0.0);
    plan_.tensors.back().fixed = std::move(values);
  }

  const RandomModelSpec& spec_;
  const std::vector<const TensorType*> types_;
  Plan& plan_;
  size_t next_type_ = 0;
};

Result<std::vector<const TensorType*>> find_types(const RandomModelSpec& spec) {
  std::vector<const TensorType*> types;
  for (const std::string& name : spec.types) {
    const TensorType* type = gguf::find_tensor_type(name);
    if (type == nullptr || !type->loadable) {
      return make_error(ErrorKind::kUsage, "type '%s' is unknown; known: %s", name.c_str(),
                        gguf::supported_tensor_types().c_str());
    }
    types.push_back(type);
  }
  if (types.empty()) return make_error(ErrorKind::kUsage, "no weight type was given");
  return types;
}

Status write_plan(const Plan& plan, uint64_t seed, std::FILE* file) {
  const ByteSink sink = [file](const void* data, size_t size) { return std::fwrite(data, 1, size, file) == size; };
  const std::string head = plan.writer.head();
  bool written = sink(head.data(), head.size());
  for (size_t i = 0; written && i < plan.tensors.size(); ++i) {
    written = write_random_tensor(plan.tensors[i], seed + i, gguf::Writer::kAlignment, sink);
  }
  if (std::fclose(file) != 0 || !written) return make_error(ErrorKind::kRuntime, "the disk is full or not writable");
  return {};
}

}  // namespace

Status make_random_model(const RandomModelSpec& spec, const std::string& path) {
  EI_RETURN_IF_ERROR(check_spec(spec));
  EI_ASSIGN_OR_RETURN(auto types, find_types(spec));
  Plan plan;
  add_metadata(spec, plan.writer);
  EI_RETURN_IF_ERROR(Planner(spec, std::move(types), plan).add_all());
  const std::string part = path + ".part";
  std::FILE* file = std::fopen(part.c_str(), "wb");
  if (file == nullptr) return make_error(ErrorKind::kRuntime, "cannot write %s", part.c_str());
  Status status = write_plan(plan, spec.seed * 0x9E3779B97F4A7C15ull, file);
  if (!status.ok() || std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    return make_error(ErrorKind::kRuntime, "cannot write %s: %s", path.c_str(),
                      status.ok() ? "renaming failed" : status.error().message.c_str());
  }
  return {};
}

}  // namespace ei
