// Sampler: picks the next token from logits through libllama's samplers, reproducibly by seed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/sampler_chain.h"
#include "text/tokenizer.h"

namespace ei::text {

inline constexpr uint32_t kRandomSeed = 0xFFFFFFFFu;  // draw a seed; Sampler::seed() says which

struct SamplerOptions {
  uint32_t seed = kRandomSeed;
  float temp = 0.8f;  // <= 0: the token with the highest logit, the lowest id on ties
  int top_k = 40;     // 0: all
  float top_p = 0.95f;
  float min_p = 0.05f;
  float typical_p = 1.0f;
  int min_keep = 0;              // candidates that top_p, min_p, typical_p and xtc leave at least; 0: one
  float top_n_sigma = -1.0f;     // <= 0: off
  float xtc_probability = 0.0f;  // 0: off
  float xtc_threshold = 0.1f;
  float dynatemp_range = 0.0f;  // 0: the temperature does not move
  float dynatemp_exponent = 1.0f;
  int mirostat = 0;  // 1, 2: instead of all steps but penalties, dry and temperature
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  float dry_multiplier = 0.0f;  // 0: off
  float dry_base = 1.75f;
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;  // as repeat_last_n
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  float repeat_penalty = 1.0f;  // 1: off
  int repeat_last_n = 64;       // 0: off, -1: as far back as possible (131072)
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::vector<std::pair<Token, float>> logit_bias{};  // added before anything else; -infinity: never.
                                                      // Tokens outside the vocabulary are passed over
  std::vector<SamplerStep> steps = default_sampler_steps();
  bool ignore_eos = false;  // never pick a token that ends the generation
  std::string grammar{};    // GBNF with a `root` rule
  Token grammar_from =
      kNoToken;               // the grammar holds from this token on, which it begins with; kNoToken: from the start
  std::string json_schema{};  // turned into a grammar; not together with `grammar`
  int candidates = 0;         // how many of the last draw Sampler::candidates() shows
};

// Order: biases, grammar, the steps (llama.cpp's chain), draw.
// For one thread at a time. The tokenizer must outlive it.
class Sampler {
 public:
  // Values out of range, NaN, a bad grammar or schema: an Error (kUsage) before anything is generated.
  static Result<std::unique_ptr<Sampler>> create(const Tokenizer& tokenizer, const SamplerOptions& options);
  ~Sampler();

  // The next token, already accepted (grammar and penalties have moved on). `logits` has one value per token; NaN
  // counts as impossible. When nothing is possible (the grammar allows no token, all logits are NaN) or the grammar
  // has become too ambiguous to follow, it returns the end-of-generation token and status() says why.
  Token sample(std::span<const float> logits);
  // Among what the last token was drawn: the likeliest, in descending order, with their probabilities in that draw. The
  // first `SamplerOptions::candidates` that had any chance, and the chosen one wherever it stands.
  struct Candidate {
    Token token = kNoToken;
    float probability = 0;
  };
  const std::vector<Candidate>& candidates() const;
  Candidate chosen() const;
  // Counts prompt tokens towards the penalties, the last `repeat_last_n` of them; the grammar does not see them. Not
  // needed for sampled tokens.
  void accept(std::span<const Token> prompt);
  // As just created: same seed, start of the grammar, no history.
  void reset();

  uint32_t seed() const;
  const Status& status() const;

 private:
  struct Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ei::text
