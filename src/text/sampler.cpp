#include "text/sampler.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "text/grammar_check.h"
#include "text/json_schema.h"

namespace ei::text {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
// An ambiguous grammar can double its open alternatives with every token; one step this slow is the last.
constexpr double kMaxGrammarStepS = 0.5;

}  // namespace

struct Sampler::Impl {
  const llama_vocab* vocab = nullptr;
  size_t vocab_size = 0;
  Token end_token = kNoToken;
  uint32_t seed = 0;
  std::vector<Token> banned;
  std::vector<std::pair<Token, float>> biases;
  SamplerPtr grammar;  // null without one
  SamplerChain chain;
  std::vector<llama_token_data> candidates;
  size_t shown = 0;  // of a draw
  std::vector<Candidate> drawn;
  Candidate chosen;
  Status status;

  void load(std::span<const float> logits);
  void apply_grammar();
  Token pick();
  void show(const llama_token_data_array& array, Token token);
  bool grammar_allows(Token token);
  void accept_sampled(Token token);
  Token sample(std::span<const float> logits);
  Token give_up(const char* why);
};

void Sampler::Impl::load(std::span<const float> logits) {
  candidates.resize(std::min(logits.size(), vocab_size));
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i] = {static_cast<Token>(i), std::isnan(logits[i]) ? kImpossible : logits[i], 0.0f};
  }
  for (const auto& [token, bias] : biases)
    if (static_cast<size_t>(token) < candidates.size()) candidates[static_cast<size_t>(token)].logit += bias;
  for (const Token token : banned) {
    if (static_cast<size_t>(token) < candidates.size()) candidates[static_cast<size_t>(token)].logit = kImpossible;
  }
}

void Sampler::Impl::apply_grammar() {
  llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
  llama_sampler_apply(grammar.get(), &array);
}

// The choice among `candidates`, or kNoToken when none is possible.
Token Sampler::Impl::pick() {
  llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
  const bool possible =
      std::any_of(array.data, array.data + array.size, [](const auto& c) { return c.logit > kImpossible; });
  if (!possible) return kNoToken;
  llama_sampler_apply(chain.steps.get(), &array);
  if (!chain.draws) {
    const llama_token_data* best = nullptr;
    for (size_t i = 0; i < array.size; ++i) {
      const llama_token_data& candidate = array.data[i];
      if (candidate.logit == kImpossible) continue;
      if (best == nullptr || candidate.logit > best->logit) best = &candidate;  // ids ascend: ties keep the lowest
    }
    if (best == nullptr) return kNoToken;
    chosen = {.token = best->id, .probability = 1};
    if (shown > 0) drawn = {chosen};
    return best->id;
  }
  if (array.selected < 0 || static_cast<size_t>(array.selected) >= array.size) return kNoToken;
  const llama_token_data& drawn_one = array.data[array.selected];
  if (drawn_one.logit == kImpossible) return kNoToken;
  show(array, drawn_one.id);
  return drawn_one.id;
}

// The last step of the chain has left probabilities.
void Sampler::Impl::show(const llama_token_data_array& array, Token token) {
  if (shown == 0) return;
  drawn.clear();
  for (size_t i = 0; i < array.size; ++i) {
    const Candidate one{.token = array.data[i].id, .probability = array.data[i].p};
    if (one.token == token) chosen = one;
    if (one.probability > 0) drawn.push_back(one);
  }
  const auto end = drawn.begin() + static_cast<std::ptrdiff_t>(std::min(shown, drawn.size()));
  std::partial_sort(drawn.begin(), end, drawn.end(), [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  });
  drawn.erase(end, drawn.end());
}

bool Sampler::Impl::grammar_allows(Token token) {
  llama_token_data one{token, 1.0f, 0.0f};
  llama_token_data_array array{&one, 1, -1, false};
  llama_sampler_apply(grammar.get(), &array);
  return one.logit > kImpossible;
}

void Sampler::Impl::accept_sampled(Token token) {
  if (grammar) llama_sampler_accept(grammar.get(), token);
  llama_sampler_accept(chain.steps.get(), token);
}

Token Sampler::Impl::give_up(const char* why) {
  if (status.ok()) status = make_error(ErrorKind::kRuntime, "sampling stopped: %s", why);
  return end_token;
}

Token Sampler::Impl::sample(std::span<const float> logits) {
  if (!status.ok()) return end_token;
  const double start_s = thread_cpu_s();
  load(logits);
  Token token = pick();
  if (token == kNoToken) return give_up("no token has a finite logit");
  if (grammar && !grammar_allows(token)) {
    // Testing one token is cheap, testing all is not: only a refused choice is drawn again among what is allowed.
    load(logits);
    apply_grammar();
    token = pick();
    if (token == kNoToken) return give_up("the grammar allows no token of this vocabulary here");
  }
  accept_sampled(token);
  if (grammar && thread_cpu_s() - start_s > kMaxGrammarStepS) {
    return give_up("the grammar is too ambiguous to follow");
  }
  return token;
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::create(const Tokenizer& tokenizer, const SamplerOptions& options) {
  EI_RETURN_IF_ERROR(check_sampler_options(options));
  std::string grammar = options.grammar;
  if (!options.json_schema.empty()) {
    EI_ASSIGN_OR_RETURN(grammar, json_schema_to_gbnf(options.json_schema));
  }
  if (!grammar.empty()) EI_RETURN_IF_ERROR(check_grammar(grammar, tokenizer));
  try {
    auto impl = std::make_unique<Impl>();
    impl->vocab = static_cast<const llama_vocab*>(tokenizer.raw());
    impl->vocab_size = static_cast<size_t>(tokenizer.vocab_size());
    impl->end_token = tokenizer.eos() != kNoToken ? tokenizer.eos() : std::max(tokenizer.eot(), Token{0});
    impl->seed = options.seed == kRandomSeed ? std::random_device{}() & 0x7FFFFFFFu : options.seed;
    impl->shown = static_cast<size_t>(std::max(options.candidates, 0));
    impl->banned = tokenizer.suppressed();
    for (const auto& [token, bias] : options.logit_bias) {
      if (tokenizer.contains(token)) impl->biases.emplace_back(token, bias);
    }
    for (Token token = 0; options.ignore_eos && token < tokenizer.vocab_size(); ++token) {
      if (tokenizer.is_end_of_generation(token)) impl->banned.push_back(token);
    }
    if (!grammar.empty()) {
      impl->grammar.reset(options.grammar_from == kNoToken
                              ? llama_sampler_init_grammar(impl->vocab, grammar.c_str(), "root")
                              : llama_sampler_init_grammar_lazy_patterns(impl->vocab, grammar.c_str(), "root", nullptr,
                                                                         0, &options.grammar_from, 1));
      if (!impl->grammar) return make_error(ErrorKind::kUsage, "grammar: libllama refuses it");
    }
    impl->chain = make_sampler_chain(options, impl->vocab, tokenizer.vocab_size(), impl->seed);
    return std::unique_ptr<Sampler>(new Sampler(std::move(impl)));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::kMemory, "out of memory for the sampler");
  } catch (const std::exception& error) {
    return make_error(ErrorKind::kRuntime, "the sampler cannot be set up: %s", error.what());
  }
}

Token Sampler::sample(std::span<const float> logits) {
  try {
    return impl_->sample(logits);
  } catch (const std::exception& error) {
    return impl_->give_up(error.what());
  }
}

void Sampler::accept(std::span<const Token> prompt) {
  const SamplerChain& chain = impl_->chain;
  for (const Token token : prompt.last(std::min(prompt.size(), chain.last_n))) {
    const bool known = token >= 0 && static_cast<size_t>(token) < impl_->vocab_size;
    for (llama_sampler* sampler : chain.history)
      if (known) llama_sampler_accept(sampler, token);
  }
}

void Sampler::reset() {
  for (llama_sampler* sampler : {impl_->grammar.get(), impl_->chain.steps.get()}) {
    if (sampler != nullptr) llama_sampler_reset(sampler);
  }
  impl_->status = {};
}

uint32_t Sampler::seed() const { return impl_->seed; }
const Status& Sampler::status() const { return impl_->status; }
const std::vector<Sampler::Candidate>& Sampler::candidates() const { return impl_->drawn; }
Sampler::Candidate Sampler::chosen() const { return impl_->chosen; }

}  // namespace ei::text
