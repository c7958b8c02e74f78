// EntropyInfer's budget rule: how many blocks every kv_head may read, segment by segment, from the entropy of its block
// scores. Online: all that is carried from segment to segment is E_{s-1}, b_{s-1} and whether the head is still rigid.
//
//   rigid:    b_s = B0
//   dynamic:  r_s = clamp((E_s - E_{s-1}) / (E_{s-1} + 1e-9), 0, 1 + delta_t),   r_1 = delta_t
//             b_s = clamp(b_{s-1} + alpha B0 (r_s - delta_t), min_budget, max_factor B0)
//   count:    c_s = min(floor(b_s / B), blocks before segment s)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/prefill_options.h"

namespace ei::policy {

class EntropyBudget {
 public:
  // What one kv_head carries; plain data, so that a session can be saved in the middle of a prompt.
  struct Head {
    float entropy = 0;  // E_{s-1}
    float tokens = 0;   // b_{s-1}
    bool rigid = true;
  };

  EntropyBudget(const PrefillOptions& options, int32_t kv_heads);

  // Segments come in order, from 0, in chunks of any size. The latest segment may come again, with what follows it: a
  // turn of a chat can end inside a segment and the next one completes it. E_0 is read nowhere.
  // entropy, tokens and counts: [kv_heads, num_segments]. tokens may be empty.
  void push(int32_t first_segment, int32_t num_segments, std::span<const float> entropy, std::span<float> tokens,
            std::span<int32_t> counts);

  // Goes on at `segment` as if the segments up to it had changed nothing (text that was generated, not read).
  void skip_to(int32_t segment);

  int32_t next_segment() const { return next_segment_; }
  std::span<const Head> heads() const { return heads_; }

 private:
  void step(Head& head, int32_t segment, float entropy) const;

  // Each constant is made in double and rounded once. The recurrence itself is float32 throughout: mixed with double,
  // a saturated step (r = 1 + delta_t) falls short of a whole block.
  float threshold_;  // infinite for a fixed budget: all heads are rigid
  float delta_;
  float max_growth_;
  float step_tokens_;
  float base_;
  float min_;
  float max_;
  SegmentGrid grid_;
  RigidTest rigid_test_;
  int32_t next_segment_ = 0;
  std::vector<Head> heads_;
  std::vector<Head> before_latest_;  // heads_ without the latest segment
};

// Every kv_head gets the largest count of its segment. counts: [kv_heads, num_segments].
void collapse_counts(std::span<int32_t> counts, int32_t kv_heads);

}  // namespace ei::policy
