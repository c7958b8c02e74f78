#include "model/config.h"

#include <cmath>

#include "gguf/reader.h"
#include "model/families.h"

namespace ei::model {

namespace {

constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxWidth = 1 << 20;

// Reads `<arch>.<key>` of one file with the checks every hyper-parameter needs.
class Keys {
 public:
  Keys(const gguf::File& file, std::string arch) : file_(file), arch_(std::move(arch)) {}

  std::string full(std::string_view key) const { return arch_ + "." + std::string(key); }
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }

  // A count in [1, most]; an array of equal numbers counts as that number.
  Result<int32_t> count(std::string_view key, int64_t most) const {
    const std::string name = full(key);
    std::optional<int64_t> value = file_.integer(name);
    if (const gguf::Array* array = file_.array(name); array != nullptr && array->count > 0) {
      value = gguf::File::integer_at(*array, 0);
      for (uint64_t i = 1; i < array->count; ++i) {
        if (gguf::File::integer_at(*array, i) != value) {
          return make_error(ErrorKind::kModel, "unsupported model: %s differs between layers", name.c_str());
        }
      }
    }
    if (!value) return make_error(ErrorKind::kModel, "invalid model: %s is missing or not a number", name.c_str());
    if (*value < 1 || *value > most) {
      return make_error(ErrorKind::kModel, "invalid model: %s is %lld, expected 1 to %lld", name.c_str(),
                        static_cast<long long>(*value), static_cast<long long>(most));
    }
    return static_cast<int32_t>(*value);
  }
  Result<int32_t> count_or(std::string_view key, int64_t most, int32_t fallback) const {
    if (!has(key)) return fallback;
    return count(key, most);
  }
  // A finite, positive number.
  Result<float> positive_or(std::string_view key, float fallback) const {
    EI_ASSIGN_OR_RETURN(const float value, share_or(key, fallback));
    if (value > 0 || !has(key)) return value;
    return make_error(ErrorKind::kModel, "invalid model: %s is not a positive number", full(key).c_str());
  }
  // The same, or 0.
  Result<float> share_or(std::string_view key, float fallback) const {
    if (!has(key)) return fallback;
    const std::optional<double> value = file_.number(full(key));
    if (value && std::isfinite(*value) && *value >= 0 && *value <= 1e30) return static_cast<float>(*value);
    return make_error(ErrorKind::kModel, "invalid model: %s is not a positive number", full(key).c_str());
  }

 private:
  const gguf::File& file_;
  std::string arch_;
};

float yarn_magnitude(float factor) { return factor <= 1.0f ? 1.0f : 0.1f * std::log(factor) + 1.0f; }

Status read_factors(const gguf::File& file, int32_t rope_dims, Rope& rope) {
  const gguf::Tensor* tensor = file.tensor("rope_freqs.weight");
  if (tensor == nullptr) return {};
  if (tensor->type->name != "F32" || tensor->shape.size() != 1 || tensor->shape[0] != rope_dims / 2) {
    return make_error(ErrorKind::kModel, "invalid model: rope_freqs.weight must hold %d F32 values", rope_dims / 2);
  }
  const auto* values = reinterpret_cast<const float*>(tensor->data);
  rope.factors.assign(values, values + rope_dims / 2);
  for (const float value : rope.factors) {
    if (!(value > 0) || !std::isfinite(value)) {
      return make_error(ErrorKind::kModel, "invalid model: rope_freqs.weight holds a factor that is not positive");
    }
  }
  return {};
}

// What mixes interpolated and extrapolated angles. As in libllama, a magnitude of one's own counts only where nothing
// is mixed.
Status read_yarn(const Keys& keys, Rope& rope) {
  EI_ASSIGN_OR_RETURN(rope.ext_factor, keys.share_or("rope.scaling.yarn_ext_factor",
                                                     rope.scaling == Rope::Scaling::kYarn ? 1.0f : 0.0f));
  EI_ASSIGN_OR_RETURN(rope.beta_fast, keys.positive_or("rope.scaling.yarn_beta_fast", rope.beta_fast));
  EI_ASSIGN_OR_RETURN(rope.beta_slow, keys.positive_or("rope.scaling.yarn_beta_slow", rope.beta_slow));
  EI_ASSIGN_OR_RETURN(rope.attention_factor, keys.positive_or("rope.scaling.yarn_attn_factor", 1.0f));
  if (rope.ext_factor == 0.0f) return {};
  // The table multiplies by 1 + 0.1 ln(factor) where it mixes; taken out here so that the product is the magnitude.
  // Rounded in libllama's order.
  const float stretch = 1.0f / rope.frequency_scale;
  rope.attention_factor = yarn_magnitude(stretch) * (1.0f / (1.0f + 0.1f * std::log(stretch)));
  return {};
}

Result<Rope> read_rope(const gguf::File& file, const Keys& keys, const Config& config) {
  Rope rope;
  EI_ASSIGN_OR_RETURN(rope.base, keys.positive_or("rope.freq_base", 10000.0f));
  EI_ASSIGN_OR_RETURN(rope.original_context,
                      keys.count_or("rope.scaling.original_context_length", int64_t{1} << 30, config.context));
  const std::string_view kind = file.string(keys.full("rope.scaling.type")).value_or("linear");
  // A factor of 0 means "not scaled" in files of the wild.
  std::string_view factor_key = keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  float factor = 1.0f;
  if (file.number(keys.full(factor_key)).value_or(0.0) != 0.0) {
    EI_ASSIGN_OR_RETURN(factor, keys.positive_or(factor_key, 1.0f));
  }
  EI_ASSIGN_OR_RETURN(const float attention_factor, keys.positive_or("rope.scaling.attn_factor", 1.0f));
  if (kind == "none") {
    rope.scaling = Rope::Scaling::kNone;
  } else if (kind == "linear") {
    rope.scaling = factor == 1.0f ? Rope::Scaling::kNone : Rope::Scaling::kLinear;
    rope.frequency_scale = 1.0f / factor;
  } else if (kind == "yarn") {
    rope.scaling = Rope::Scaling::kYarn;
    rope.frequency_scale = 1.0f / factor;
  } else {
    return make_error(ErrorKind::kModel, "unsupported model: rope scaling '%s' (supported: none, linear, yarn)",
                      gguf::printable(kind).c_str());
  }
  EI_RETURN_IF_ERROR(read_yarn(keys, rope));
  rope.attention_factor *= attention_factor;
  return rope;
}

// Sliding-window layers rotate by their own base and are never scaled.
Status read_windows(const gguf::File& file, const Keys& keys, const Family& family, Config& config) {
  config.per_layer.assign(static_cast<size_t>(config.layers), LayerFacts{});
  if (family.window_pattern == 0) return {};
  const int64_t window = file.integer(keys.full("attention.sliding_window")).value_or(0);
  if (window == 0) return {};
  if (window < 0 || window > (int64_t{1} << 30)) {
    return make_error(ErrorKind::kModel, "invalid model: sliding window of %lld tokens",
                      static_cast<long long>(window));
  }
  Rope local;
  EI_ASSIGN_OR_RETURN(local.base, keys.positive_or("rope.freq_base_swa", 10000.0f));
  local.original_context = config.ropes[0].original_context;
  local.ext_factor = config.ropes[0].ext_factor;
  local.beta_fast = config.ropes[0].beta_fast;
  local.beta_slow = config.ropes[0].beta_slow;
  local.attention_factor = config.ropes[0].attention_factor;
  local.scaling = config.ropes[0].scaling;
  config.ropes.push_back(local);
  const std::string pattern_key = keys.full("attention.sliding_window_pattern");
  const gguf::Array* listed = file.array(pattern_key);
  if (listed != nullptr && listed->count < static_cast<uint64_t>(config.layers)) {
    return make_error(ErrorKind::kModel, "invalid model: %s names %llu of %d layers", pattern_key.c_str(),
                      static_cast<unsigned long long>(listed->count), config.layers);
  }
  const int64_t pattern = file.integer(pattern_key).value_or(family.window_pattern);
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    const bool local_layer = listed != nullptr
                                 ? gguf::File::integer_at(*listed, static_cast<uint64_t>(layer)).value_or(0) != 0
                                 : pattern <= 0 || layer % pattern < pattern - 1;
    if (local_layer) config.per_layer[static_cast<size_t>(layer)] = {static_cast<int32_t>(window), 1};
  }
  return {};
}

Status check_heads(const Config& config) {
  if (config.heads % config.kv_heads != 0) {
    return make_error(ErrorKind::kModel, "invalid model: %d heads are not a multiple of %d kv heads", config.heads,
                      config.kv_heads);
  }
  if (config.head_dim < 8 || config.head_dim > 256 || config.head_dim % 8 != 0) {
    return make_error(ErrorKind::kModel, "unsupported model: head size %d (supported: multiples of 8 up to 256)",
                      config.head_dim);
  }
  if (config.rope_dims > config.head_dim || config.rope_dims % 2 != 0) {
    return make_error(ErrorKind::kModel, "invalid model: %d rotated dimensions in heads of %d", config.rope_dims,
                      config.head_dim);
  }
  return {};
}

}  // namespace

double Config::products_per_token() const {
  const double attention = 2.0 * (heads + kv_heads) * head_dim;  // queries and output, keys and values
  return static_cast<double>(layers) * width * (attention + 3.0 * ffn_width);
}

int64_t Config::kv_bytes_per_token(DType key_type, DType value_type) const {
  return static_cast<int64_t>(layers) * kv_heads *
         static_cast<int64_t>(dtype_row_bytes(key_type, head_dim) + dtype_row_bytes(value_type, head_dim));
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.arch);
  return names;
}

std::string supported_architectures() {
  std::string text;
  for (const std::string_view name : architecture_names()) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

Result<Config> read_config(const gguf::File& file) {
  const std::optional<std::string_view> arch = file.string("general.architecture");
  if (!arch) return make_error(ErrorKind::kModel, "invalid model: general.architecture is missing");
  const Family* family = nullptr;
  for (const Family& candidate : families()) {
    if (candidate.arch == *arch) family = &candidate;
  }
  if (family == nullptr) {
    return make_error(ErrorKind::kModel, "unsupported architecture '%.64s' (supported: %s)", std::string(*arch).c_str(),
                      supported_architectures().c_str());
  }
  const Keys keys(file, std::string(*arch));
  if (file.integer(keys.full("expert_count")).value_or(0) > 0) {
    return make_error(ErrorKind::kModel, "unsupported model: '%s' with experts (mixture of experts is not supported)",
                      family->arch.data());
  }
  Config config;
  config.arch = std::string(*arch);
  config.name = std::string(file.string("general.name").value_or(*arch));
  EI_ASSIGN_OR_RETURN(config.layers, keys.count("block_count", kMaxLayers));
  EI_ASSIGN_OR_RETURN(config.width, keys.count("embedding_length", kMaxWidth));
  EI_ASSIGN_OR_RETURN(config.heads, keys.count("attention.head_count", 65536));
  EI_ASSIGN_OR_RETURN(config.kv_heads, keys.count_or("attention.head_count_kv", 65536, config.heads));
  EI_ASSIGN_OR_RETURN(config.ffn_width, keys.count("feed_forward_length", kMaxWidth));
  EI_ASSIGN_OR_RETURN(config.context, keys.count("context_length", int64_t{1} << 30));
  EI_ASSIGN_OR_RETURN(config.head_dim, keys.count_or("attention.key_length", 4096, config.width / config.heads));
  EI_ASSIGN_OR_RETURN(const int32_t value_dim, keys.count_or("attention.value_length", 4096, config.head_dim));
  if (value_dim != config.head_dim) {
    return make_error(ErrorKind::kModel, "unsupported model: keys of %d and values of %d dimensions", config.head_dim,
                      value_dim);
  }
  EI_ASSIGN_OR_RETURN(config.rope_dims, keys.count_or("rope.dimension_count", 4096, config.head_dim));
  EI_RETURN_IF_ERROR(check_heads(config));
  if (family->whole_rotation && config.rope_dims != config.head_dim) {
    return make_error(ErrorKind::kModel, "invalid model: %d rotated dimensions in heads of %d", config.rope_dims,
                      config.head_dim);
  }
  EI_ASSIGN_OR_RETURN(config.norm_eps, keys.positive_or("attention.layer_norm_rms_epsilon", 0.0f));
  if (config.norm_eps == 0.0f) {
    return make_error(ErrorKind::kModel, "invalid model: %s is missing",
                      keys.full("attention.layer_norm_rms_epsilon").c_str());
  }
  const gguf::Tensor* embedding = file.tensor("token_embd.weight");
  if (embedding == nullptr) return make_error(ErrorKind::kModel, "invalid model: token_embd.weight is missing");
  config.vocab = static_cast<int32_t>(embedding->rows());
  const gguf::Array* tokens = file.array("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->count > static_cast<uint64_t>(embedding->rows())) {
    return make_error(ErrorKind::kModel, "invalid model: a vocabulary of %llu tokens but embeddings for %lld",
                      static_cast<unsigned long long>(tokens->count), static_cast<long long>(embedding->rows()));
  }
  config.rope_interleaved = family->rope_interleaved;
  config.scaled_queries = family->scaled_queries;
  config.activation = family->activation;
  config.qk_norm = family->qk_norm;
  config.post_norms = family->post_norms;
  config.scales = family->scales;
  config.ignores_factors = family->ignores_factors;
  config.embedding_scale = family->scaled_embedding ? std::sqrt(static_cast<float>(config.width)) : 1.0f;
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  // Gemma 3 27B (62 layers) divides by the square root of width / heads instead; its file does not say so.
  if (config.post_norms && config.layers == 62) {
    const int32_t per_head = config.width / config.heads;
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(per_head));
  }
  if (family->post_norms && file.number(keys.full("final_logit_softcapping")) != 0.0) {  // 0: none
    EI_ASSIGN_OR_RETURN(config.logit_softcap, keys.positive_or("final_logit_softcapping", 0.0f));
  }
  EI_ASSIGN_OR_RETURN(Rope rope, read_rope(file, keys, config));
  if (family->frequency_factors) EI_RETURN_IF_ERROR(read_factors(file, config.rope_dims, rope));
  config.ropes.push_back(std::move(rope));
  EI_RETURN_IF_ERROR(read_windows(file, keys, *family, config));
  return config;
}

}  // namespace ei::model
