// From settings to a loaded model and a session.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace ei::cli {

// A file that ships with the program: in EI_ASSETS_DIR, or in assets/ or share/entropyinfer/ beside or above the
// program.
Result<std::string> find_asset(const std::string& name);
// -m, or the model that ships with the program.
Result<std::string> model_path(const Settings& settings);
EngineOptions engine_options(const Settings& settings, const std::string& path);
std::optional<DType> key_type(const Settings& settings);
std::optional<DType> value_type(const Settings& settings);

// Without -m: which model it is then, and what it is for.
void name_default_model(const Settings& settings, const Console& console);
// Not more threads than this process has cores, which is said: they wait for each other by spinning, and one that has
// no core holds all others up.
int64_t capped_threads(int64_t threads, const Console& console, const char* flag = "--threads");
// Prompt tokens per chunk by --batch-size and --ubatch-size; 0: chosen by the engine.
int64_t chunk_tokens(const Settings& settings);
Result<std::unique_ptr<Engine>> load_engine(const Settings& settings, const Console& console);
void warn_about_context(const Engine& engine, const Settings& settings, const Console& console);
// Both, when it is known that the model will read something.
void introduce_model(const Engine& engine, const Settings& settings, const Console& console);
void warn_beyond_training(const Engine& engine, int64_t tokens, const Console& console);
// `goes_on`: more will be asked about the same text, so a compression must not lose it.
Result<std::unique_ptr<Session>> new_session(const Engine& engine, const Settings& settings, const CancelToken& cancel,
                                             bool goes_on = false);

std::string device_list(bool json);

}  // namespace ei::cli
