// What can be asked of engines, sessions and answers, with the defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "entropyinfer/c_api.h"

namespace entropyinfer {

using Tokens = std::vector<int32_t>;

struct EngineOptions {
  std::string model{};  // path of a GGUF file
  std::string device = "cpu";
  int threads = 0;  // 0: all cores
};

struct SessionOptions {
  int64_t context = 0;  // most tokens; 0: what the model was trained for
  int64_t batch = 0;    // prompt tokens per chunk; 0: chosen
  std::string method = "full";
  std::string method_options{};  // "base-budget=512,kv-budget=1024": changes to the method
  std::string key_type{};        // "f32", "f16", "bf16", on a CPU "q8_0", on a GPU "fp8"; empty: the device's choice
  std::string value_type{};
  bool kv_free = false;    // a compression gives memory back, and later questions find only what it kept
  bool keep_plan = false;  // plan() names the blocks that were chosen
};

struct Message {
  std::string role{};  // "system", "user", "assistant"
  std::string content{};
};

struct GenerateOptions {
  int64_t max_tokens = 0;  // 0: until the end of generation, or the context is full
  float temp = 0;          // 0: always the most likely token, and the next five say nothing
  uint32_t seed = EI_RANDOM_SEED;
  int top_k = 0;                    // 0: all
  float top_p = 0;                  // 0: off
  float min_p = 0;                  // 0: off
  float repeat_penalty = 0;         // 0: off
  std::vector<std::string> stop{};  // ends in front of any of these
  std::string grammar{};            // GBNF
  std::string json_schema{};        // instead of it
  bool ignore_eos = false;
  // The prompt is the text from its beginning: what the session holds of it is not read again, the rest is forgotten.
  bool whole_prompt = false;
  // False ends the answer. What they throw comes out of generate().
  std::function<bool(std::string_view text)> on_text{};
  std::function<bool(int64_t done, int64_t total)> on_progress{};
};

struct Answer {
  std::string text{};
  Tokens tokens{};
  std::string finish_reason{};  // "stop", "length", "interrupted", "memory"
  int64_t cached_tokens = 0;    // of the prompt: were there already
  double ttft_s = 0;            // start of the prompt to the first token
  uint32_t seed = 0;
};

struct Named {
  std::string name{};
  std::string summary{};
};

}  // namespace entropyinfer
