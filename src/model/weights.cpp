#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace ei::model {

namespace {

// Without a backend it only looks whether everything is there; the weights are null then.
class Loader {
 public:
  Loader(const gguf::File& file, const Backend* backend, const CancelToken* cancel = nullptr)
      : file_(file), backend_(backend), cancel_(cancel) {}

  struct Wanted {
    std::string name;
    int64_t rows = 1;
    int64_t cols = 0;
  };

  // All parts stacked into one matrix.
  Result<WeightPtr> matrix(const std::vector<Wanted>& wanted, MatrixUse use = MatrixUse::kEveryToken) const {
    EI_ASSIGN_OR_RETURN(const std::vector<HostTensor> parts, find(wanted));
    if (backend_ == nullptr) return WeightPtr();
    if (cancel_ != nullptr && cancel_->cancelled()) return Error{ErrorKind::kInterrupted, "interrupted"};
    EI_ASSIGN_OR_RETURN(WeightPtr weight, backend_->load_matrix(parts, use));
    // What was copied need not stay in memory twice; what is read in place comes back at the first use.
    for (const Wanted& part : wanted) file_.release_pages(*file_.tensor(part.name));
    return weight;
  }
  Result<WeightPtr> vector(const std::vector<Wanted>& wanted) const {
    EI_ASSIGN_OR_RETURN(const std::vector<HostTensor> parts, find(wanted));
    if (backend_ == nullptr) return WeightPtr();
    return backend_->load_vector(parts);
  }
  // Null when none of the parts is in the file; all or none must be.
  Result<WeightPtr> optional_vector(const std::vector<Wanted>& wanted) const {
    size_t present = 0;
    for (const Wanted& part : wanted) present += file_.tensor(part.name) != nullptr ? 1 : 0;
    if (present == 0) return WeightPtr();
    return vector(wanted);
  }
  Result<WeightPtr> table(const Wanted& wanted) const {
    EI_ASSIGN_OR_RETURN(const std::vector<HostTensor> parts, find({wanted}));
    if (backend_ == nullptr) return WeightPtr();
    return backend_->load_table(parts.front());
  }
  bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }

 private:
  // Of "x.weight" what "x.scale" says; 1 where there is none.
  Result<float> scale_of(const std::string& name) const {
    constexpr std::string_view kSuffix = "weight";
    if (!name.ends_with(kSuffix)) return 1.0f;
    const std::string beside = name.substr(0, name.size() - kSuffix.size()) + "scale";
    const gguf::Tensor* tensor = file_.tensor(beside);
    if (tensor == nullptr) return 1.0f;
    float scale = 0;
    if (tensor->type->name == "F32" && tensor->shape.size() == 1 && tensor->shape[0] == 1)
      std::memcpy(&scale, tensor->data, sizeof scale);
    if (!std::isfinite(scale) || scale == 0)
      return make_error(ErrorKind::kModel, "invalid model: tensor '%s' is not one number", beside.c_str());
    return scale;
  }

  Result<std::vector<HostTensor>> find(const std::vector<Wanted>& wanted) const {
    std::vector<HostTensor> parts;
    for (const Wanted& part : wanted) {
      const gguf::Tensor* tensor = file_.tensor(part.name);
      if (tensor == nullptr) {
        return make_error(ErrorKind::kModel, "invalid model: tensor '%s' is missing", part.name.c_str());
      }
      if (tensor->cols() != part.cols || tensor->rows() != part.rows) {
        return make_error(ErrorKind::kModel, "invalid model: tensor '%s' is %lld x %lld, expected %lld x %lld",
                          part.name.c_str(), static_cast<long long>(tensor->rows()),
                          static_cast<long long>(tensor->cols()), static_cast<long long>(part.rows),
                          static_cast<long long>(part.cols));
      }
      if (!tensor->type->loadable) {
        return make_error(ErrorKind::kModel, "unsupported tensor type %s of '%s' (supported: %s)",
                          std::string(tensor->type->name).c_str(), part.name.c_str(),
                          gguf::supported_tensor_types().c_str());
      }
      EI_ASSIGN_OR_RETURN(const float scale, scale_of(part.name));
      parts.push_back({tensor->name, tensor->type->id, part.rows, part.cols, tensor->data, file_.mapping(), scale});
    }
    return parts;
  }

  const gguf::File& file_;
  const Backend* backend_;
  const CancelToken* cancel_;  // may be null
};

// A tensor that nothing here reads would change what the model computes (a scale, a further projection): better no
// model than another one.
Status check_names(const gguf::File& file, const Config& config) {
  static constexpr std::string_view kLayer[] = {
      "attn_norm.weight", "attn_qkv.weight", "attn_qkv.bias",   "attn_q.weight",       "attn_q.bias",
      "attn_k.weight",    "attn_k.bias",     "attn_v.weight",   "attn_v.bias",         "attn_output.weight",
      "attn_output.bias", "ffn_norm.weight", "ffn_gate.weight", "ffn_gate.bias",       "ffn_up.weight",
      "ffn_up.bias",      "ffn_down.weight", "ffn_down.bias",   "attn_rot_embd.weight"};
  // Of matrices; input_scale is for devices that multiply such weights in four bits.
  static constexpr std::string_view kScaled[] = {"attn_qkv",    "attn_q",   "attn_k", "attn_v",
                                                 "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
  static constexpr std::string_view kQkNorms[] = {"attn_q_norm.weight", "attn_k_norm.weight"};
  static constexpr std::string_view kPostNorms[] = {"post_attention_norm.weight", "post_ffw_norm.weight"};
  static constexpr std::string_view kModel[] = {"token_embd.weight", "output_norm.weight", "output.weight",
                                                "output.bias"};
  const auto among = [](std::span<const std::string_view> names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const gguf::Tensor& tensor : file.tensors()) {
    std::string_view name = tensor.name;
    bool known = among(kModel, name) || name.starts_with("cls.") ||  // cls: heads of classifiers, beside the model
                 (name == "rope_freqs.weight" && (!config.ropes[0].factors.empty() || config.ignores_factors));
    const gguf::Tensor* output = file.tensor("output.weight");
    if (config.scales && output != nullptr && output->type->name == "NVFP4")
      known = known || name == "output.scale" || name == "output.input_scale";
    if (name.starts_with("blk.")) {
      const size_t dot = name.find('.', 4);
      const std::string number(name.substr(4, dot == std::string_view::npos ? dot : dot - 4));
      name = dot == std::string_view::npos ? "" : name.substr(dot + 1);
      const long layer = std::strtol(number.c_str(), nullptr, 10);
      const bool inside = layer >= 0 && layer < config.layers && std::to_string(layer) == number;
      const std::string_view beside = name.substr(0, name.find('.'));
      const bool scale = config.scales && among(kScaled, beside) &&
                         (name.substr(beside.size()) == ".scale" || name.substr(beside.size()) == ".input_scale");
      known = inside && (among(kLayer, name) || scale || (config.qk_norm && among(kQkNorms, name)) ||
                         (config.post_norms && among(kPostNorms, name)));
    }
    if (!known) {
      return make_error(ErrorKind::kModel, "unsupported model: nothing here uses its tensor '%s'",
                        std::string(tensor.name).c_str());
    }
  }
  return {};
}

Result<LayerWeights> load_layer(const Loader& load, const Config& config, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const int64_t width = config.width;
  const int64_t ffn = config.ffn_width;
  const int64_t q = static_cast<int64_t>(config.heads) * config.head_dim;
  const int64_t kv = static_cast<int64_t>(config.kv_heads) * config.head_dim;
  LayerWeights weights;
  EI_ASSIGN_OR_RETURN(weights.attention_norm, load.vector({{prefix + "attn_norm.weight", 1, width}}));
  if (load.has(prefix + "attn_qkv.weight")) {
    EI_ASSIGN_OR_RETURN(weights.qkv, load.matrix({{prefix + "attn_qkv.weight", q + 2 * kv, width}}));
  } else {
    EI_ASSIGN_OR_RETURN(weights.qkv, load.matrix({{prefix + "attn_q.weight", q, width},
                                                  {prefix + "attn_k.weight", kv, width},
                                                  {prefix + "attn_v.weight", kv, width}}));
  }
  if (load.has(prefix + "attn_qkv.bias")) {
    EI_ASSIGN_OR_RETURN(weights.qkv_bias, load.vector({{prefix + "attn_qkv.bias", 1, q + 2 * kv}}));
  } else {
    EI_ASSIGN_OR_RETURN(weights.qkv_bias, load.optional_vector({{prefix + "attn_q.bias", 1, q},
                                                                {prefix + "attn_k.bias", 1, kv},
                                                                {prefix + "attn_v.bias", 1, kv}}));
  }
  if (config.qk_norm) {
    EI_ASSIGN_OR_RETURN(weights.q_norm, load.vector({{prefix + "attn_q_norm.weight", 1, config.head_dim}}));
    EI_ASSIGN_OR_RETURN(weights.k_norm, load.vector({{prefix + "attn_k_norm.weight", 1, config.head_dim}}));
  }
  EI_ASSIGN_OR_RETURN(weights.attention_out, load.matrix({{prefix + "attn_output.weight", width, q}}));
  EI_ASSIGN_OR_RETURN(weights.attention_out_bias, load.optional_vector({{prefix + "attn_output.bias", 1, width}}));
  EI_ASSIGN_OR_RETURN(weights.ffn_norm, load.vector({{prefix + "ffn_norm.weight", 1, width}}));
  EI_ASSIGN_OR_RETURN(weights.gate_up,
                      load.matrix({{prefix + "ffn_gate.weight", ffn, width}, {prefix + "ffn_up.weight", ffn, width}},
                                  MatrixUse::kActivated));
  EI_ASSIGN_OR_RETURN(weights.gate_up_bias,
                      load.optional_vector({{prefix + "ffn_gate.bias", 1, ffn}, {prefix + "ffn_up.bias", 1, ffn}}));
  EI_ASSIGN_OR_RETURN(weights.down, load.matrix({{prefix + "ffn_down.weight", width, ffn}}));
  EI_ASSIGN_OR_RETURN(weights.down_bias, load.optional_vector({{prefix + "ffn_down.bias", 1, width}}));
  if (config.post_norms) {
    EI_ASSIGN_OR_RETURN(weights.attention_post_norm, load.vector({{prefix + "post_attention_norm.weight", 1, width}}));
    EI_ASSIGN_OR_RETURN(weights.ffn_post_norm, load.vector({{prefix + "post_ffw_norm.weight", 1, width}}));
  }
  return weights;
}

Result<Weights> load_all(const Loader& load, const Config& config) {
  Weights weights;
  EI_ASSIGN_OR_RETURN(weights.embedding, load.table({"token_embd.weight", config.vocab, config.width}));
  EI_ASSIGN_OR_RETURN(weights.output_norm, load.vector({{"output_norm.weight", 1, config.width}}));
  const std::string output = load.has("output.weight") ? "output.weight" : "token_embd.weight";
  EI_ASSIGN_OR_RETURN(weights.output, load.matrix({{output, config.vocab, config.width}}, MatrixUse::kFewRows));
  EI_ASSIGN_OR_RETURN(weights.output_bias, load.optional_vector({{"output.bias", 1, config.vocab}}));
  for (int layer = 0; layer < config.layers; ++layer) {
    EI_ASSIGN_OR_RETURN(LayerWeights layer_weights, load_layer(load, config, layer));
    weights.layers.push_back(std::move(layer_weights));
  }
  return weights;
}

}  // namespace

Status check_tensors(const gguf::File& file, const Config& config) {
  EI_RETURN_IF_ERROR(check_names(file, config));
  EI_RETURN_IF_ERROR(load_all(Loader(file, nullptr), config));
  return {};
}

Result<Weights> load_weights(const gguf::File& file, const Config& config, const Backend& backend,
                             const CancelToken* cancel) {
  EI_RETURN_IF_ERROR(check_names(file, config));
  return load_all(Loader(file, &backend, cancel), config);
}

}  // namespace ei::model
