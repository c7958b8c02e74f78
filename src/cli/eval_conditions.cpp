#include "cli/eval_conditions.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <variant>

#include "cli/model_overrides.h"
#include "cli/setup.h"
#include "engine/cache_types.h"
#include "engine/memory.h"

namespace ei::cli {

namespace {
using Json = nlohmann::ordered_json;

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// Kernels and the numbers they multiply in, without what changes no result: threads and memory.
std::string kernels_and_numbers(const Engine& engine, const CacheTypes& types) {
  static const std::regex indifferent(R"(\d+ threads?, | \([^()]*\))");
  return std::regex_replace(backend_detail(engine.file(), engine.backend(), types.keys, types.values), indifferent, "");
}

Json replaced_metadata(const Settings& settings) {
  Json all = Json::object();
  for (const gguf::Override& one : model_overrides(settings))
    std::visit([&](const auto& value) { all[one.key] = value; }, one.value);
  return all;
}
}  // namespace

int64_t eval_depths(const Settings& settings) {
  if (settings.eval_depths > 0) return settings.eval_depths;
  return settings.eval_samples < 10 ? 5 : 10;
}

std::string eval_conditions(const Settings& settings, const Engine& engine) {
  const CacheTypes types = cache_types(engine.backend(), key_type(settings), value_type(settings));
  const Json object = {{"model", file_name(engine.file().path())},
                       {"model_hash", str_format("%016llx", static_cast<unsigned long long>(engine.model_hash()))},
                       {"overrides", replaced_metadata(settings)},
                       {"device", settings.device},
                       {"computes", kernels_and_numbers(engine, types)},
                       {"cache_keys", dtype_name(types.keys)},
                       {"cache_values", dtype_name(types.values)},
                       {"seed", settings.eval_seed},
                       {"depths", eval_depths(settings)},
                       {"haystack", file_name(settings.haystack)},
                       {"question", settings.question_agnostic ? "agnostic" : "aware"}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ei::cli
