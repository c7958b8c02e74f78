#include "eval/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ei::eval {
namespace {

// log of the sum of exp(logit), shifted by the greatest so that nothing overflows.
double log_sum_exp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(x - top);
  return top + std::log(sum);
}

}  // namespace

void RunningMean::add(double x) {
  ++count_;
  const double step = x - mean_;
  mean_ += step / static_cast<double>(count_);
  squares_ += step * (x - mean_);
}

double RunningMean::standard_error() const {
  if (count_ < 2) return 0;
  const auto n = static_cast<double>(count_);
  return std::sqrt(squares_ / (n - 1) / n);
}

double Perplexity::value() const { return std::exp(nll_.mean()); }

double Perplexity::error() const { return value() * nll_.standard_error(); }

std::vector<double> log_softmax(std::span<const float> logits) {
  EI_CHECK(!logits.empty());
  const double total = log_sum_exp(logits);
  std::vector<double> out;
  out.reserve(logits.size());
  for (float x : logits) out.push_back(x - total);
  return out;
}

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  EI_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  return log_sum_exp(logits) - logits[static_cast<size_t>(token)];
}

int32_t top_token(std::span<const float> logits) {
  EI_CHECK(!logits.empty());
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double kl_divergence(std::span<const float> reference, std::span<const float> tested) {
  EI_CHECK(!reference.empty());
  EI_CHECK_EQ(reference.size(), tested.size());
  const double p_total = log_sum_exp(reference);
  const double q_total = log_sum_exp(tested);
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = reference[i] - p_total;
    const double p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - (tested[i] - q_total));
  }
  return sum;
}

void Divergence::add(std::span<const float> reference, std::span<const float> tested) {
  kl_.add(kl_divergence(reference, tested));
  same_top_.add(top_token(reference) == top_token(tested) ? 1.0 : 0.0);
}

}  // namespace ei::eval
