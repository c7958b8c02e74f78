// Any slots: the floor that every method must beat.
#include "base/random.h"
#include "policy/entries.h"

namespace ei::policy {
namespace {

class RandomKv : public KvMethod {
 public:
  using KvMethod::KvMethod;

 protected:
  QuerySource scored_queries() const override { return QuerySource::kNone; }

  // The same for all kv_heads, so that their order does not matter.
  LayerScores score(const LayerMeasures& measured) const override {
    constexpr uint64_t kApart = 1'000'003;  // more than there are layers
    Random random(static_cast<uint64_t>(measured.layer) + 1 + kApart * static_cast<uint64_t>(options().seed - 1));
    std::vector<float> row;
    for (int64_t slot = 0; slot < measured.stride; ++slot)
      row.push_back(static_cast<float>(random.below(int64_t{1} << 24)));
    LayerScores scores{.stride = measured.stride};
    for (size_t kv_head = 0; kv_head < measured.lengths.size(); ++kv_head)
      scores.made.insert(scores.made.end(), row.begin(), row.end());
    return scores;
  }
};

std::unique_ptr<KvMethod> make_random_kv(const KvOptions& options, const KvShape& shape) {
  return std::make_unique<RandomKv>(options, shape);
}

}  // namespace

Entry random_kv_entry() {
  const KvOptions preset{.rule = {"random"}, .gap = -1, .repeat = 0, .kernel = 1};
  return {
      .method = {.name = "random-kv", .summary = "any slots: the floor that every method must beat", .kv = preset},
      .kv = {
          .name = "random", .about = "any slots", .preset = preset, .make = make_random_kv, .scores_attention = false}};
}

}  // namespace ei::policy
