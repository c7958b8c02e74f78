#include "engine/acted.h"

#include "engine/session_state.h"

namespace ei {

std::string Session::State::why_all_was_read() const {
  const policy::PrefillOptions& options = planner->options();
  const int64_t tokens = planner->prompt_end();
  bool plans = false;
  for (int layer = 0; layer < model.num_layers(); ++layer) plans = plans || planner->plans(layer);
  if (!plans) return "the prompt was read whole: no layer of this model attends beyond a sliding window";
  if (tokens <= int64_t{options.threshold} + options.segment) {
    return str_format(
        "the prompt was read whole: %lld tokens, and the first %d of a text (--threshold) and the last "
        "segment of %d are always",
        static_cast<long long>(tokens), options.threshold, options.segment);
  }
  return "the prompt was read whole: nothing was over the budget";
}

std::string Session::State::why_all_was_kept() const {
  const policy::KvOptions& options = compressor->options();
  const int64_t most = compressor->most_held(store);
  const int64_t budget = compressor->budget(store);
  if (most <= budget) {
    return str_format("the cache was not compressed: %lld tokens are within its budget of %lld (--kv-budget)",
                      static_cast<long long>(most), static_cast<long long>(budget));
  }
  if (stats.generated_tokens < options.gap) {
    return str_format(
        "the cache was not compressed: that comes after %d generated tokens (--kv-gap), and %lld were fed", options.gap,
        static_cast<long long>(stats.generated_tokens));
  }
  return "the cache was not compressed: it was not due";
}

void Acted::add(const Acted& other) {
  prefill = prefill || other.prefill;
  kv = kv || other.kv;
  idle = other.idle;
}

Status check_comparison(const Acted& acted, const std::string& method, double divergence) {
  if (acted.any() || acted.idle.empty() || divergence != 0) return {};
  std::string why;
  for (const std::string& reason : acted.idle) why += (why.empty() ? "" : "; ") + reason;
  return make_error(ErrorKind::kUsage, "method '%s' never acted, so there is nothing to compare: %s", method.c_str(),
                    why.c_str());
}

Acted Session::acted() const {
  const State& state = *state_;
  const SessionStats& stats = state.stats;
  Acted acted{.prefill = stats.pairs<stats.pairs_dense, .kv = stats.compressions + stats.paged_tokens> 0, .idle = {}};
  if (state.planner && !acted.prefill) acted.idle.push_back(state.why_all_was_read());
  if (state.compressor && !acted.kv) acted.idle.push_back(state.why_all_was_kept());
  if (state.pages && !acted.kv)
    acted.idle.push_back(str_format("all of the cache was read: %lld tokens are within --kv-read",
                                    static_cast<long long>(state.store.next_position())));
  return acted;
}

}  // namespace ei
