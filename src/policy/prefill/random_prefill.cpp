// Any blocks, base_budget tokens of them: the floor that every choice must beat. Nothing is measured.
#include "base/random.h"
#include "policy/entries.h"
#include "policy/prefill/growth.h"

namespace ei::policy {
namespace {

class RandomPrefill : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  bool reads_midrange() const override { return false; }
  bool samples(int32_t) const override { return false; }
  bool chooses() const override { return true; }

  void decide(const SegmentPlace&, const PrefillHistory&, std::span<SegmentRecord> run) const override {
    for (SegmentRecord& record : run) {
      for (HeadRecord& head : record.heads) {
        head.budget = static_cast<float>(options().base_budget);
        head.blocks = affordable_blocks(head.budget, options().block, visible(record.segment));
      }
    }
  }

  // Any of the blocks in turn with the probability that as many are taken as there should be. The same for all
  // kv_heads, so that their order does not matter.
  void choose(const SegmentPlace& place, size_t, std::span<int32_t> blocks) const override {
    Random random((static_cast<uint64_t>(place.layer) << 32) + static_cast<uint64_t>(place.segment) + 1);
    const int64_t all = visible(place.segment);
    size_t taken = 0;
    for (int64_t block = 0; block < all && taken < blocks.size(); ++block)
      if (random.below(all - block) < static_cast<int64_t>(blocks.size() - taken))
        blocks[taken++] = static_cast<int32_t>(block);
  }

 protected:
  int64_t rated_tokens(const SegmentPlace&, const PrefillHistory&, const SegmentRecord&, size_t) const override {
    return options().base_budget;
  }
};

std::unique_ptr<PrefillMethod> make_random_prefill(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<RandomPrefill>(options, shape);
}

}  // namespace

Entry random_prefill_entry() {
  return {.method = {.name = "random-prefill",
                     .summary = "any blocks: the floor that every method must beat",
                     .prefill = {.rule = {"random"}, .layer_skip = 0}},
          .prefill = {.name = "random",
                      .about = "any blocks",
                      .make = make_random_prefill,
                      .select = BlockRank::kMidrange,
                      .reads = {"layer-skip"}}};
}

}  // namespace ei::policy
