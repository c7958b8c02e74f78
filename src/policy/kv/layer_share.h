// How the slots of a cache are shared out among its layers. Pure functions of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/kv/options.h"
#include "policy/kv/ranking.h"

namespace ei::policy {

// What decides how many slots a layer gets.
struct LayerState {
  int64_t held = 0;                    // slots per kv_head: of the longest, or the mean where they share unevenly
  double entropy = 0;                  // where asked for, like what follows: of single queries' attention
  double mean_entropy = 0;             // of their mean attention
  double rest_entropy = 0;             // of single queries' attention behind the sinks
  std::span<const SlotScores> sets{};  // scores
};

// `total` whole units in proportion to the weights, none below `least` or above its own `most`: the largest remainders
// are rounded up, the lower index first among equals, and what one cannot take goes to the others. The sum is `total`
// unless the limits forbid it. Without any weight all count the same.
std::vector<int64_t> apportion(std::span<const double> weights, int64_t total, int64_t least,
                               std::span<const int64_t> most);

// PyramidKV's budgets as AdaKV's code has them: slots outside the window that fall linearly from the first to the last
// of the layers, `base` of them on average, the last about a twentieth of that, and never below the sinks. `longest`:
// of these slots, per kv_head.
std::vector<int64_t> pyramid_slots(const KvOptions& options, int64_t base, int64_t layers, int64_t longest);

// Kim & Jung (2025): layers of higher entropy get more. Their formula was not available to us; ours is
//   B_l = B_min + layers (B - B_min) w_l / sum of w,   w_l = the entropy of the layer,
// B_min the floor share of the budget and no less than window and sinks, no layer more than it holds, the sum exact.
std::vector<int64_t> entropy_budgets(const KvOptions& options, int64_t budget, std::span<const LayerState> layers);
// w of the above: all of the mapping that is a matter of taste. By it the other rules differ:
//   spread    exp(E_l)
//   focus     exp(-E_l): attention that is spread over many slots is a mean, which a part of them gives as well
//   distinct  exp(H_l - E_l), H_l the entropy of the mean attention: queries that all look at the same slots need no
//             more of them than one does, however spread it is
//   mass      how many of the `budget` best slots per set of all layers together are the layer's: AdaKV's rule, which
//             leaves the least attention out, over layers
//   entropy-inverse  max + min - E_l
// For research: entropy-rest takes the entropy behind the sinks, entropy-shuffled gives each layer another one's, as
// `seed` says.
std::vector<double> layer_weights(KvLayers rule, int64_t budget, std::span<const LayerState> layers, int32_t seed = 1);

}  // namespace ei::policy
