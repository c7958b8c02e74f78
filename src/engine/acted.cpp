#include "engine/acted.h"

#include <algorithm>

#include "base/units.h"
#include "engine/session_state.h"

namespace ei {

namespace {

bool any_sparse(const sparse::Planner& planner, int layers) {
  for (int layer = 0; layer < layers; ++layer)
    for (const policy::SegmentRecord& record : planner.records(layer))
      if (planner.plans(layer) && !record.dense) return true;
  return false;
}

// By the records, so that of an adopted cache it is known too: query-key pairs of the first `end` tokens.
double pairs_left_out(const sparse::Planner& planner, int layers, int64_t end) {
  const policy::PrefillOptions& options = planner.options();
  double pairs = 0;
  for (int layer = 0; layer < layers; ++layer) {
    if (!planner.plans(layer)) continue;
    for (const policy::SegmentRecord& record : planner.records(layer)) {
      const int64_t begin = int64_t{record.segment} * options.segment;
      const int64_t rows = std::clamp<int64_t>(end - begin, 0, options.segment);
      for (const policy::HeadRecord& head : record.heads) {
        const int64_t left_out = begin - int64_t{head.blocks} * options.block;
        pairs += static_cast<double>(rows) * static_cast<double>(std::max<int64_t>(left_out, 0));
      }
    }
  }
  return pairs;
}

// What a kv_head may read of the text before a segment, in force.
std::string budget_text(const policy::PrefillOptions& options) {
  if (options.rule == policy::PrefillRule::kEntropy && options.base_budget == 0)
    return str_format("%.3g of it and %d tokens more (--density, --density-base)", options.density,
                      options.density_base);
  if (options.base_budget > 0) return str_format("%d tokens (--base-budget)", options.base_budget);
  return "all there was";
}

}  // namespace

double Session::State::text_density() const {
  if (!planner) return 1;
  const int64_t end = std::min<int64_t>(planner->prompt_end(), store.next_position());
  const double all = dense_pairs(model.config(), 0, end);
  return all > 0 ? 1 - pairs_left_out(*planner, model.num_layers(), end) / all : 1;
}

std::string Session::State::why_all_was_read() const {
  const policy::PrefillOptions& options = planner->options();
  const int64_t tokens = planner->prompt_end();
  const int layers = model.num_layers();
  const auto global = static_cast<int>(std::count(windows.begin(), windows.end(), 0));
  int planned = 0;
  for (int layer = 0; layer < layers; ++layer) planned += planner->plans(layer) ? 1 : 0;
  const std::string whole = "the prompt was read whole: ";
  if (global == 0) return whole + "no layer of this model attends beyond a sliding window";
  if (planned == 0)
    return whole + str_format(
                       "the first %d layers always are (--layer-skip), and no other attends beyond a sliding "
                       "window",
                       options.layer_skip);
  if (!any_sparse(*planner, layers)) {
    bool by_place = true;
    for (int32_t segment = 0; int64_t{segment} * options.segment < tokens; ++segment)
      by_place = by_place && policy::is_dense_segment(options, segment, tokens);
    if (!by_place)
      return whole + str_format("it came in parts, and of each the first and the last segment of %d always are",
                                options.segment);
    return whole + str_format("%s, and segments of %d that begin in the first %d (--threshold)%s always are",
                              counted(tokens, "token").c_str(), options.segment, std::max(options.threshold, 1),
                              options.last_dense ? ", and the last one," : "");
  }
  const std::string few =
      global < layers ? str_format("only %d of %d layers attend beyond a sliding window, and there ", global, layers)
                      : "";
  return whole + few + "what may be read before a segment, " + budget_text(options) + ", covered it";
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
  text_density = other.text_density;
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
  acted.text_density = state.text_density();
  acted.prefill = stats.pairs < stats.pairs_dense || acted.text_density < 1;
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
