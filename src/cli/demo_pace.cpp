#include "cli/demo_pace.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/method_options.h"
#include "cli/setup.h"

namespace ei::cli {

Result<DemoPace> measure_pace(const Engine& engine, const Settings& settings, const CancelToken& cancel) {
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(engine, settings_for_method(settings, "full"), cancel));
  // Any tokens will do: neither products nor full attention look at what they multiply.
  std::vector<int32_t> tokens(kTimedTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 64);
  EI_RETURN_IF_ERROR(session->prefill(tokens));
  const SessionStats& stats = session->stats();
  const auto n = static_cast<double>(tokens.size());
  return DemoPace{.token_s = std::max(0.0, stats.prompt_s - stats.attention_s) / n,
                  .pair_s = 2 * stats.attention_s / (n * n)};
}

int64_t patient_tokens(const DemoPace& pace) {
  int64_t tokens = kDemoTokens;
  while (tokens > kTimedTokens && pace.seconds(tokens) > kDemoPatienceSeconds) tokens /= 2;
  return tokens;
}

}  // namespace ei::cli
