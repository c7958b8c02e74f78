// Likelihood metrics over rows of logits, in double precision.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ei::eval {

// Mean of a stream of numbers and how sure it is.
class RunningMean {
 public:
  void add(double x);
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double standard_error() const;  // sample deviation / sqrt(count); 0 below two numbers

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

// exp of the mean negative log-likelihood of tokens.
class Perplexity {
 public:
  void add(double negative_log_likelihood) { nll_.add(negative_log_likelihood); }
  int64_t count() const { return nll_.count(); }
  double value() const;
  double error() const;  // value * standard error of the mean: the first-order error of exp

 private:
  RunningMean nll_;
};

std::vector<double> log_softmax(std::span<const float> logits);
// -log p(token), in nats.
double negative_log_likelihood(std::span<const float> logits, int32_t token);
// The index of the greatest logit, the first of equals; logits must not be empty.
int32_t top_token(std::span<const float> logits);
// Sum over tokens of p (log p - log q), in nats, with p from `reference` and q from `tested`, of equal length.
double kl_divergence(std::span<const float> reference, std::span<const float> tested);

// How far a tested run strays from a reference run over many rows.
class Divergence {
 public:
  void add(std::span<const float> reference, std::span<const float> tested);
  const RunningMean& kl() const { return kl_; }
  const RunningMean& same_top() const { return same_top_; }  // share of rows with the same most likely token

 private:
  RunningMean kl_;
  RunningMean same_top_;
};

}  // namespace ei::eval
