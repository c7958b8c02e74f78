// Params: what a request for text may say beside its prompt, from JSON and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "policy/method_choice.h"
#include "server/api/answer_parser.h"
#include "server/api/fields.h"
#include "server/api/json.h"

namespace ei::server {

struct Params {
  GenerateOptions generate{};
  policy::MethodChoice method{};
  bool stream = false;
  bool include_usage = false;
  int choices = 1;
  int probabilities = 0;
  std::string probabilities_by = "n_probs";  // the field that asked for them
  bool timings_per_token = false;
  bool return_progress = false;
  bool return_heads = false;
  bool return_tokens = false;
  bool cache_prompt = true;
  int slot = -1;
  double timeout_s = 0;     // 0: none
  double line_after_s = 0;  // llama.cpp's t_max_predict_ms; 0: none
  int priority = 0;         // lower is more urgent
  bool verbose = false;
  AnswerStyle style{};  // of a chat's answer
  bool echo = false;
  bool scores_prompt = false;
  std::vector<std::string> response_fields{};
  std::string shaped_by{};  // the field that the sampler's grammar or schema came from

  // For shapes that have no place for them.
  void forget_probabilities() {
    probabilities = 0;
    generate.sampler.candidates = 0;
  }
  // Is something other than full attention and the whole cache asked for?
  bool may_lose() const { return method.method != policy::MethodChoice{}.method || !method.options.empty(); }
};

// Where a request's fields are read and what they may say.
struct ParamLimits {
  Params defaults{};
  int slots = 1;
  bool request_methods = true;  // may a request choose a method?
  double most_s = 0;            // for a request, whatever it says; 0: as long as it takes
  // Log-probabilities that are kept until a request's end: those of prompts, and of answers that are not streamed. Each
  // takes a kilobyte as JSON, and some two microseconds of the compute thread.
  int64_t most_probabilities = int64_t{1} << 20;
  int most_streamed = 4096;  // for each token of a stream: its event is made between the steps of all others
  // Of an answer of /tokenize: JSON takes 16 bytes for a number, and some 200 for a token with its piece.
  int64_t most_tokens = int64_t{16} << 20;
  int64_t most_pieces = int64_t{1} << 20;
};

// Errors are left in `fields`.
Params read_params(Fields& fields, const ParamLimits& limits, const text::Tokenizer& tokenizer);

// What is in force, by llama.cpp's names.
Json settings_json(const Params& params, const text::Tokenizer& tokenizer);

}  // namespace ei::server
