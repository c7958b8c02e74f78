#include "engine/acted.h"

#include "base/units.h"
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
        "the prompt was read whole: %s, and the first %d of a text (--threshold) and the last segment of %d are always",
        counted(tokens, "token").c_str(), options.threshold, options.segment);
  }
  return "the prompt was read whole: nothing was over the budget";
}

std::string Session::State::why_all_was_kept() const {
  const policy::KvOptions& options = compressor->options();
  const int64_t most = compressor->most_held(store);
  if (const int64_t budget = compressor->budget(store); most <= budget) {
    return str_format("the cache was not compressed: it holds %s, and its budget is %lld (--kv-budget)",
                      counted(most, "token").c_str(), static_cast<long long>(budget));
  }
  if (stats.generated_tokens < options.gap) {
    return str_format(
        "the cache was not compressed: that comes after %d generated tokens (--kv-gap), and %lld were fed", options.gap,
        static_cast<long long>(stats.generated_tokens));
  }
  return "the cache was not compressed: it was not due";
}

void Acted::forget_what_came_behind() {
  if (kv || !kv_idle.empty())
    kv_idle = "the whole cache was read: a text that is scored as one prompt has no generated tokens";
  kv = false;
}

void Acted::add(const Acted& other) {
  prefill = prefill || other.prefill;
  kv = kv || other.kv;
  prefill_idle = other.prefill_idle;
  kv_idle = other.kv_idle;
}

std::vector<std::string> Acted::idle() const {
  std::vector<std::string> reasons;
  for (const std::string& why : {prefill_idle, kv_idle})
    if (!why.empty()) reasons.push_back(why);
  return reasons;
}

Status check_comparison(const Acted& acted, const std::string& method, double divergence) {
  const std::vector<std::string> idle = acted.idle();
  if (acted.any() || idle.empty() || divergence != 0) return {};
  std::string why;
  for (const std::string& reason : idle) why += (why.empty() ? "" : "; ") + reason;
  return make_error(ErrorKind::kUsage, "method '%s' never acted, so there is nothing to compare: %s", method.c_str(),
                    why.c_str());
}

Acted Session::acted() const {
  const State& state = *state_;
  const SessionStats& stats = state.stats;
  Acted acted;
  acted.prefill = stats.pairs < stats.pairs_dense;
  acted.kv = stats.compressions + stats.paged_tokens > 0;
  if (state.planner && !acted.prefill) acted.prefill_idle = state.why_all_was_read();
  if (state.compressor && !acted.kv) acted.kv_idle = state.why_all_was_kept();
  if (state.pages && !acted.kv)
    acted.kv_idle = stats.generated_tokens == 0 ? "all of the cache was read: no generated token was fed"
                                                : str_format("all of the cache was read: --kv-read covers its %s",
                                                             counted(state.store.next_position(), "token").c_str());
  return acted;
}

}  // namespace ei
