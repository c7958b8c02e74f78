#include "server/scheduler/figures.h"

#include <cmath>

namespace ei::server {

void Totals::add(Outcome outcome) {
  ++requests;
  if (outcome == Outcome::kCancelled) ++cancelled;
  if (outcome == Outcome::kFailed) ++failed;
}

void Totals::add(const TaskReport& report, Outcome outcome) {
  add(outcome);
  asked_tokens += report.prompt_tokens;
  prompt_tokens += report.read_tokens;
  cached_tokens += report.cached_tokens;
  generated_tokens += report.generated_tokens;
  prompt_s += report.prompt_s;
  generate_s += report.generate_s;
  compressions += report.compressions;
  queue_seconds.add(report.queue_s);
  if (report.generated_tokens > 0) first_token_seconds.add(report.queue_s + report.prompt_s);
  if (outcome != Outcome::kAnswered) return;
  whole_seconds.add(report.queue_s + report.prompt_s + report.generate_s);
  density.add(report.density);
  if (report.kv_tokens_total > 0)
    kv_kept.add(static_cast<double>(report.kv_tokens_kept) / static_cast<double>(report.kv_tokens_total));
}

void Totals::add(const std::vector<report::HeadSummary>& heads) {
  for (const report::HeadSummary& head : heads)
    if (std::isfinite(head.entropy) && head.entropy > 0) entropy.add(head.entropy);  // 0: too short to be measured
}

}  // namespace ei::server
