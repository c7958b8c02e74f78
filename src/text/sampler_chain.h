// The steps between logits and a token, as libllama has them: which there are, in which order, and how they are made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

struct llama_sampler;
struct llama_vocab;

namespace ei::text {

struct SamplerOptions;

enum class SamplerStep : uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
};
const std::vector<SamplerStep>& default_sampler_steps();
// "penalties;dry;top_k;…" as llama.cpp names them; empty: no step but the draw.
Result<std::vector<SamplerStep>> parse_sampler_steps(std::string_view text);
std::string_view sampler_step_name(SamplerStep step);
// The names, in the default order.
std::string sampler_step_names();

struct SamplerDeleter {
  void operator()(llama_sampler* sampler) const;
};
using SamplerPtr = std::unique_ptr<llama_sampler, SamplerDeleter>;

struct SamplerChain {
  SamplerPtr steps;                     // null: there are none
  std::vector<llama_sampler*> history;  // those of the steps that look back on earlier tokens
  size_t last_n = 0;                    // how far
  bool draws = false;                   // the last step chooses a token; otherwise the likeliest is to be taken
};

// Those that change nothing are left out.
SamplerChain make_sampler_chain(const SamplerOptions& options, const llama_vocab* vocab, int32_t vocab_size,
                                uint32_t seed);

// Values out of range, NaN: one line that says which.
Status check_sampler_options(const SamplerOptions& options);

}  // namespace ei::text
