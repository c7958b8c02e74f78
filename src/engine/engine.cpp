#include "engine/engine.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <variant>

#include "base/clock.h"
#include "engine/cache_types.h"
#include "engine/engine_state.h"
#include "engine/memory.h"
#include "engine/session_state.h"

namespace ei {

namespace {

// Names a model by its shapes and the first bytes of every tensor: cheap at any size, and it tells fine-tunes apart.
uint64_t hash_model(const gguf::File& file, const gguf::Overrides& overrides) {
  uint64_t hash = 0xcbf29ce484222325ull;
  const auto mix = [&](const void* data, size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ from[i]) * 0x100000001b3ull;
  };
  const int64_t bytes = file.bytes();
  mix(&bytes, sizeof bytes);
  for (const gguf::Tensor& tensor : file.tensors()) {
    mix(tensor.name.data(), tensor.name.size());
    mix(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    mix(&tensor.type->id, sizeof tensor.type->id);
    mix(tensor.data, static_cast<size_t>(std::min<int64_t>(tensor.bytes, 256)));
    file.release_pages(tensor);  // touching it may have brought two megabytes along
  }
  for (const gguf::Override& override : overrides) {
    mix(override.key.data(), override.key.size());
    const auto mix_value = [&](const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
        mix(value.data(), value.size());
      } else {
        mix(&value, sizeof value);
      }
    };
    std::visit(mix_value, override.value);
  }
  return hash;
}

}  // namespace

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options) {
  const double start = now_s();
  const int64_t available = available_memory_bytes();  // before the file is mapped, which a limit counts
  EI_ASSIGN_OR_RETURN(model::ModelFile opened,
                      model::open_model(options.model_path, options.overrides, options.copy_file));
  auto& [file, config] = opened;
  EI_ASSIGN_OR_RETURN(auto tokenizer, text::Tokenizer::load(options.model_path, options.overrides));
  if (tokenizer->vocab_size() >
      config.vocab)  // read_config() has counted the tokens of the file; libllama's word counts
    return file.named(Error{ErrorKind::kModel, "invalid model: libllama reads more tokens than it has embeddings for"});
  const BackendOptions backend_options = with_packed_budget(options.backend_options, config, file);
  EI_ASSIGN_OR_RETURN(auto backend, options.make_backend ? options.make_backend(backend_options)
                                                         : create_backend(options.backend, backend_options));
  const int64_t before = current_rss_bytes();
  const bool apart = backend->free_memory() >= 0;  // weights lie in memory of the backend's own
  const int64_t weights_need =
      apart ? held_need(file, *backend) : memory_need(config, file, 0, DType::kF32, DType::kF32, 0).weights;
  const int64_t free = apart ? backend->free_memory() : available;
  if (free >= 0 && weights_need > free) {
    return file.named(make_error(ErrorKind::kMemory,
                                 "the weights need %lld MiB, but only %lld MiB of %s is available; take a smaller "
                                 "model%s",
                                 static_cast<long long>(weights_need >> 20), static_cast<long long>(free >> 20),
                                 apart ? "the device's memory" : "memory",
                                 apart ? " or --device cpu" : " or a smaller quantisation"));
  }
  Result<model::Weights> weights = model::load_weights(file, config, *backend, options.cancel);
  if (!weights.ok()) return file.named(weights.error());
  const int64_t held = std::max<int64_t>(current_rss_bytes() - before, 0);
  auto state = std::make_unique<State>(State{.file = std::move(file),
                                             .tokenizer = std::move(tokenizer),
                                             .backend = std::move(backend),
                                             .model = model::Model(std::move(config), std::move(*weights))});
  state->weight_bytes = apart ? weights_need : std::max(held, weights_need);
  state->model_hash = hash_model(state->file, options.overrides);
  state->load_s = now_s() - start;
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

const model::Config& Engine::config() const { return state_->model.config(); }
const text::Tokenizer& Engine::tokenizer() const { return *state_->tokenizer; }
const Backend& Engine::backend() const { return *state_->backend; }
const gguf::File& Engine::file() const { return state_->file; }
int64_t Engine::weight_bytes() const { return state_->weight_bytes; }
uint64_t Engine::model_hash() const { return state_->model_hash; }
double Engine::load_s() const { return state_->load_s; }

Result<std::unique_ptr<Session>> Engine::new_session(const SessionOptions& options) const {
  const policy::Method* method = policy::find_method(options.method);
  if (method == nullptr) {
    std::string names;
    for (const policy::Method& known : policy::methods())
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    return make_error(ErrorKind::kUsage, "unknown method '%s' (available: %s)", options.method.c_str(), names.c_str());
  }
  std::vector<int32_t> windows;
  for (const model::LayerFacts& facts : config().per_layer) windows.push_back(facts.window);
  const policy::PrefillOptions asked = options.prefill.value_or(method->prefill);
  EI_RETURN_IF_ERROR(policy::validate(asked));
  const policy::PrefillOptions prefill =
      policy::for_model(asked, config().layers, static_cast<int32_t>(std::count(windows.begin(), windows.end(), 0)));
  const policy::KvOptions kv_options = options.kv.value_or(method->kv);
  EI_RETURN_IF_ERROR(policy::validate(prefill));
  EI_RETURN_IF_ERROR(policy::validate(kv_options));
  if (options.context < 0 || options.batch < 0) {
    return make_error(ErrorKind::kUsage, "context and batch sizes must not be negative");
  }
  const CacheTypes types = cache_types(backend(), options.key_type, options.value_type);
  EI_RETURN_IF_ERROR(check_cache_types(backend(), config(), types));
  const kv::StoreConfig store{.layers = config().layers,
                              .kv_heads = config().kv_heads,
                              .head_dim = config().head_dim,
                              .key_type = types.keys,
                              .value_type = types.values,
                              .page_slots = types.page_slots()};
  std::optional<sparse::Planner> planner;
  if (prefill.rule != policy::PrefillRule::kDense) {
    sparse::PlannerShape shape{.heads = config().heads,
                               .kv_heads = config().kv_heads,
                               .head_dim = config().head_dim,
                               .attention_scale = config().attention_scale,
                               .products = config().products_per_token(),
                               .key_type = host_type(store.key_type),
                               .global = {}};
    for (const int32_t window : windows) shape.global.push_back(window == 0 ? 1 : 0);
    EI_RETURN_IF_ERROR(sparse::Planner::served(backend(), prefill, shape));
    planner.emplace(backend(), prefill, std::move(shape));
  }
  std::optional<kv::Compressor> compressor;
  if (kv_options.rule != policy::KvRule::kKeepAll) {
    kv::CompressorShape shape{.heads = config().heads,
                              .kv_heads = config().kv_heads,
                              .head_dim = config().head_dim,
                              .attention_scale = config().attention_scale,
                              .slot_bytes = config().kv_bytes_per_token(types.keys, types.values) /
                                            (int64_t{config().layers} * config().kv_heads),
                              .windows = windows,
                              .ropes = {}};
    for (const model::LayerFacts& facts : config().per_layer)
      shape.ropes.push_back({.rope = &config().ropes[static_cast<size_t>(facts.rope)],
                             .dims = config().rope_dims,
                             .interleaved = config().rope_interleaved});
    EI_ASSIGN_OR_RETURN(compressor, kv::Compressor::create(backend(), kv_options, std::move(shape)));
  }
  std::optional<sparse::PageReader> pages;
  if (kv_options.read > 0) {
    sparse::PageShape shape{.heads = config().heads,
                            .kv_heads = config().kv_heads,
                            .head_dim = config().head_dim,
                            .key_type = host_type(store.key_type),
                            .global = {}};
    for (const int32_t window : windows) shape.global.push_back(window == 0 ? 1 : 0);
    pages.emplace(backend(), kv_options, std::move(shape));
  }
  EI_ASSIGN_OR_RETURN(auto stream, backend().new_stream(options.cancel));
  auto state = std::make_unique<Session::State>(
      Session::State{.engine = *this,
                     .model = state_->model,
                     .cancel = options.cancel,
                     .stream = std::move(stream),
                     .store = kv::Store(backend(), store),
                     .context = options.context > 0 ? options.context : config().context,
                     .batch = options.batch > 0 ? options.batch : chunk_for(config(), backend()),
                     .planner = std::move(planner),
                     .compressor = std::move(compressor),
                     .pages = std::move(pages),
                     .windows = std::move(windows),
                     .keep_whole = options.keep_whole});
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

}  // namespace ei
