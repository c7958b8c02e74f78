#include "server/scheduler/probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ei::server {

void fill_probabilities(std::span<const float> logits, int count, TaskToken& token) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(most));
  const double log_sum = static_cast<double>(most) + std::log(sum);
  const auto of = [&](int32_t id) {
    return TokenProbability{
        .token = id,
        .log_probability = static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - log_sum)};
  };
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const float first = logits[static_cast<size_t>(a)];
    const float second = logits[static_cast<size_t>(b)];
    return first != second ? first > second : a < b;
  });
  token.own = of(token.token);
  for (auto id = order.begin(); id != end; ++id) token.top.push_back(of(*id));
}

void fill_drawn_probabilities(const text::Sampler& sampler, TaskToken& token) {
  const auto of = [](const text::Sampler::Candidate& candidate) {
    return TokenProbability{.token = candidate.token, .log_probability = std::log(candidate.probability)};
  };
  token.own = of(sampler.chosen());
  for (const text::Sampler::Candidate& candidate : sampler.candidates()) token.top.push_back(of(candidate));
}

}  // namespace ei::server
