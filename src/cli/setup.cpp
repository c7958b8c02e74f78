#include "cli/setup.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/cores.h"
#include "base/units.h"
#include "cli/kv_options.h"
#include "cli/method_options.h"
#include "cli/model_overrides.h"
#include "engine/cache_types.h"
#include "engine/fits.h"
#include "engine/memory.h"

namespace ei::cli {

namespace {
constexpr const char* kDefaultModel = "needle-14m-128k-q8_0.gguf";
constexpr int kParentsSearched = 4;

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
}  // namespace

Result<std::string> find_asset(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const std::string folder = environment_text("EI_ASSETS_DIR"); !folder.empty()) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path, error)) return path.string();
    return make_error(ErrorKind::kUsage, "EI_ASSETS_DIR holds no %s: %s", name.c_str(), folder.c_str());
  }
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level <= kParentsSearched; ++level, folder = folder.parent_path()) {
    for (const char* place : {"assets", "share/entropyinfer"}) {  // in a checkout, and where it was installed
      const fs::path path = folder / place / name;
      if (fs::exists(path, error)) return path.string();
    }
  }
  return make_error(ErrorKind::kUsage, "cannot find assets/%s near the program; set EI_ASSETS_DIR or give -m FILE",
                    name.c_str());
}

Result<std::string> model_path(const Settings& settings) {
  if (!settings.model.empty()) return settings.model;
  return find_asset(kDefaultModel);
}

EngineOptions engine_options(const Settings& settings, const std::string& path) {
  EngineOptions options;
  options.model_path = path;
  options.backend = settings.device;
  options.overrides = model_overrides(settings);
  const auto threads = [](int64_t asked) { return static_cast<int>(std::clamp<int64_t>(asked, 0, usable_cores())); };
  options.backend_options.threads = threads(settings.threads);
  options.backend_options.prompt_threads = threads(settings.prompt_threads);
  options.copy_file = settings.no_mmap;
  options.backend_options.isa = environment_text("EI_CPU_ISA");
  options.backend_options.dense = environment_text("EI_DENSE");
  if (settings.packed_memory >= 0) options.backend_options.packed_budget = settings.packed_memory << 20;
  return options;
}

std::optional<DType> key_type(const Settings& settings) { return dtype_from_name(settings.cache_type_k); }
std::optional<DType> value_type(const Settings& settings) { return dtype_from_name(settings.cache_type_v); }

void name_default_model(const Settings& settings, const Console& console) {
  if (!settings.model.empty()) return;
  console.note(
      str_format("no -m FILE: taking the model that ships with the program, %s, which finds facts in long texts "
                 "and is no chat model",
                 kDefaultModel));
}

int64_t capped_threads(int64_t threads, const Console& console, const char* flag) {
  const int64_t cores = usable_cores();
  if (threads <= cores) return threads;
  console.warn(str_format("%s %lld is more than the cores there are: taking %lld", flag,
                          static_cast<long long>(threads), static_cast<long long>(cores)));
  return cores;
}

int64_t chunk_tokens(const Settings& settings) {
  if (settings.ubatch_size == 0 || settings.batch_size == 0) return std::max(settings.batch_size, settings.ubatch_size);
  return std::min(settings.batch_size, settings.ubatch_size);
}

namespace {
// All that the program holds by now: the mapped file and what was made of it.
void lock_memory(const Console& console) {
  if (::mlockall(MCL_CURRENT) == 0) return;
  console.warn(str_format("--mlock: cannot keep the model in memory: %s; raise ulimit -l", std::strerror(errno)));
}
}  // namespace

Result<std::unique_ptr<Engine>> load_engine(const Settings& settings, const Console& console) {
  capped_threads(settings.threads, console);
  capped_threads(settings.prompt_threads, console, "--threads-batch");
  EI_ASSIGN_OR_RETURN(const std::string path, model_path(settings));
  console.detail("loading " + one_line(path));
  EI_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::load(engine_options(settings, path)));
  if (settings.mlock) lock_memory(console);
  const CacheTypes types = cache_types(engine->backend(), key_type(settings), value_type(settings));
  EI_RETURN_IF_ERROR(check_cache_types(engine->backend(), engine->config(), types));
  const std::string computes = backend_detail(engine->file(), engine->backend(), types.keys, types.values);
  console.detail(str_format("loaded in %s: %s, %s of weights; %s", format_seconds(engine->load_s()).c_str(),
                            engine->config().arch.c_str(),
                            format_bytes(static_cast<double>(engine->weight_bytes())).c_str(), computes.c_str()));
  return engine;
}

void warn_about_context(const Engine& engine, const Settings& settings, const Console& console) {
  if (!beyond_training(engine, settings.ctx_size)) return;
  console.warn(str_format("--ctx-size %lld is beyond the %d tokens that this model was trained for",
                          static_cast<long long>(settings.ctx_size), engine.config().context));
}

void introduce_model(const Engine& engine, const Settings& settings, const Console& console) {
  name_default_model(settings, console);
  warn_about_context(engine, settings, console);
  for (const auto& [token, bias] : settings.sampling.logit_bias)
    if (!engine.tokenizer().contains(token))
      console.warn(str_format("--logit-bias: this model has no token %d, its last is %d", token,
                              engine.tokenizer().vocab_size() - 1));
}

void warn_beyond_training(const Engine& engine, int64_t tokens, const Console& console) {
  if (!beyond_training(engine, tokens)) return;
  console.warn(str_format("a text of %lld tokens is longer than the %lld this model was trained for",
                          static_cast<long long>(tokens), static_cast<long long>(engine.config().context)));
}

Result<std::unique_ptr<Session>> new_session(const Engine& engine, const Settings& settings, const CancelToken& cancel,
                                             bool goes_on) {
  SessionOptions options;
  options.keep_whole = goes_on;
  options.context = settings.ctx_size;
  options.batch = chunk_tokens(settings);
  options.key_type = key_type(settings);
  options.value_type = value_type(settings);
  options.method = settings.method;
  EI_ASSIGN_OR_RETURN(options.prefill, prefill_options(settings));
  EI_ASSIGN_OR_RETURN(options.kv, kv_options(settings));
  options.cancel = &cancel;
  return engine.new_session(options);
}

std::string device_list(bool json) {
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const BackendEntry& entry : backends()) list.push_back({{"name", entry.name}, {"summary", entry.summary}});
    return list.dump() + "\n";
  }
  std::string list;
  for (const BackendEntry& entry : backends()) {
    list += str_format("%-12s %s\n", std::string(entry.name).c_str(), std::string(entry.summary).c_str());
  }
  return list;
}

}  // namespace ei::cli
