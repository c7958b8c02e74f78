// Histogram: how often values fell below each of some bounds; what Prometheus makes quantiles of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace ei::server {

class Histogram {
 public:
  Histogram(std::initializer_list<double> bounds) : bounds_(bounds), counts_(bounds_.size() + 1) {}

  void add(double value) {
    ++counts_[static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
    sum_ += value;
  }

  const std::vector<double>& bounds() const { return bounds_; }   // ascending; a value equal to one is in it
  const std::vector<int64_t>& counts() const { return counts_; }  // [bounds + 1]: in each, then above all
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

inline Histogram seconds_histogram() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500};
}
inline Histogram share_histogram() { return {0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}; }
inline Histogram entropy_histogram() { return {0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 10}; }

}  // namespace ei::server
