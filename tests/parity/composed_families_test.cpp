// What papers compose, over every score, on a model of every family: adaptive shares, a pyramid, entropy over layers,
// sinks, a recent part, other queries.
#include <cmath>

#include "parity/family_methods.h"
#include "support/kv_stages.h"

namespace ei::testing {
namespace {

class ComposedFamilies : public FamilyMethods {
 protected:
  void for_every_composed(const std::function<void(const SessionOptions& options)>& check) const {
    for (const auto& [name, preset] : composed_kv()) {
      SCOPED_TRACE(name);
      SessionOptions options;
      options.kv = preset;
      options.kv->keep_slots(kBudget);
      options.kv->window = std::min(options.kv->window, 16);
      options.kv->gap = -1;
      options.kv->repeat = 8;
      options.kv->rounding = policy::KvRounding::kExact;
      check(options);
    }
  }

  // Slots of the layers that attend to everything, whose sinks and window must be there.
  int64_t kept_of_global_layers(const Session& session, const policy::KvOptions& kv) const {
    int64_t kept = 0;
    for (int layer = 0; layer < engine().config().layers; ++layer) {
      if (!global(layer)) continue;
      for (const KvHeadView& head : session.store().view(layer).heads) {
        kept += head.length;
        EXPECT_GE(head.length, kv.sinks + kv.window);
        for (int32_t i = 0; i < kv.sinks; ++i) EXPECT_EQ(head.position(i), i);
        for (int64_t i = 1; i <= kv.window; ++i) EXPECT_EQ(head.position(head.length - i), session.position() - i);
        for (int64_t slot = 1; slot < head.length; ++slot) EXPECT_LT(head.position(slot - 1), head.position(slot));
      }
    }
    return kept;
  }
  int64_t global_heads() const {
    int64_t layers = 0;
    for (int layer = 0; layer < engine().config().layers; ++layer) layers += global(layer) ? 1 : 0;
    return layers * engine().config().kv_heads;
  }
};

TEST_P(ComposedFamilies, EveryStageOverEveryScoreKeepsItsBudgetAgainAndAgainHoweverThePromptIsCut) {
  for_every_composed([&](SessionOptions options) {
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(21)).ok());
    ASSERT_EQ(session->stats().compressions, 1);
    EXPECT_EQ(kept_of_global_layers(*session, *options.kv), global_heads() * kBudget);
    options.batch = 96;
    const auto cut = open(engine(), options);
    ASSERT_TRUE(cut->prefill(prompt(21)).ok());
    EXPECT_EQ(kept_positions(*cut), kept_positions(*session));
    feed(*session, 8);
    ASSERT_EQ(session->stats().compressions, 2);
    EXPECT_EQ(kept_of_global_layers(*session, *options.kv), global_heads() * kBudget);
    for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
  });
}

INSTANTIATE_TEST_SUITE_P(All, ComposedFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
