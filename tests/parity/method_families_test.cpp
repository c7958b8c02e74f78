// Every method on a model of every family: sliding windows, QK norms, biases, groups of any size. The registries are
// walked, so a new method and a new family are tested by being there.
#include <unistd.h>

#include <cmath>
#include <optional>

#include "parity/family_methods.h"

namespace ei::testing {
namespace {

class MethodFamilies : public FamilyMethods {};

TEST_P(MethodFamilies, KvBudgetsHoldAndSumWindowsAndSinksStay) {
  for_every_kv([&](SessionOptions options) {
    options.kv->sinks = 4;
    options.kv->rounding = policy::KvRounding::kExact;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(1)).ok());
    ASSERT_EQ(session->stats().compressions, 1);
    int64_t kept = 0;
    int64_t heads = 0;
    for (int layer = 0; layer < engine().config().layers; ++layer) {
      if (!global(layer)) continue;
      for (const KvHeadView& head : session->store().view(layer).heads) {
        kept += head.length;
        ++heads;
        for (int32_t i = 0; i < 4; ++i) ASSERT_EQ(head.position(i), i);
        for (int64_t i = 1; i <= options.kv->window; ++i) ASSERT_EQ(head.position(head.length - i), kPrompt - i);
        for (int64_t slot = 1; slot < head.length; ++slot) ASSERT_LT(head.position(slot - 1), head.position(slot));
      }
    }
    EXPECT_EQ(kept, heads * kBudget);
    feed(*session, 3);
    for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
  });
}

TEST_P(MethodFamilies, AKvBudgetForEverythingIsFullBitForBit) {
  const auto full = open(engine(), {});
  ASSERT_TRUE(full->prefill(prompt(2)).ok());
  feed(*full, 8);
  for_every_kv([&](SessionOptions options) {
    options.kv->keep_slots(kPrompt + 8);
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(2)).ok());
    feed(*session, 8);
    EXPECT_EQ(logits_of(*session), logits_of(*full));
  });
  SessionOptions pages;
  pages.kv = policy::find_method("quest")->kv;
  const auto paged = open(engine(), pages);
  ASSERT_TRUE(paged->prefill(prompt(2)).ok());
  feed(*paged, 8);
  EXPECT_EQ(logits_of(*paged), logits_of(*full));
}

TEST_P(MethodFamilies, KvMethodsDecideByTheTextTheSameEveryTime) {
  for_every_kv([&](SessionOptions options) {
    std::vector<std::vector<int32_t>> kept;
    for (const int64_t batch : {kPrompt, kPrompt, int64_t{96}}) {
      options.batch = batch;
      const auto session = open(engine(), options);
      ASSERT_TRUE(session->prefill(prompt(3)).ok());
      kept.push_back(kept_positions(*session));
    }
    EXPECT_EQ(kept[0], kept[1]);
    EXPECT_EQ(kept[0], kept[2]) << "in chunks";
  });
}

TEST_P(MethodFamilies, PagesAreChosenByTheTextTheSameEveryTime) {
  const auto full = open(engine(), {});
  ASSERT_TRUE(full->prefill(prompt(3)).ok());
  feed(*full, 6);
  for_every_generation([&](SessionOptions options) {
    if (options.kv->read == 0) return;
    std::vector<std::vector<float>> logits;
    for (const int64_t batch : {kPrompt, kPrompt, int64_t{96}}) {
      options.batch = batch;
      const auto session = open(engine(), options);
      ASSERT_TRUE(session->prefill(prompt(3)).ok());
      feed(*session, 6);
      expect_acted(*session, options, 6);
      EXPECT_TRUE(session->store().exact()) << "something was dropped";
      logits.push_back(logits_of(*session));
    }
    EXPECT_EQ(logits[0], logits[1]);
    EXPECT_EQ(logits[0], logits[2]) << "in chunks";
    EXPECT_NE(logits[0], logits_of(*full)) << "everything was read";
  });
}

// Compressions that come after it decide the same as well: recorded queries, clock and carried scores travel along.
TEST_P(MethodFamilies, ASavedCacheGoesOnTheSame) {
  const std::string path = ::testing::TempDir() + "method_families_" + std::to_string(getpid()) + ".kv";
  for_every_generation([&](SessionOptions options) {
    options.kv->repeat = 8;
    options.kv->carry = 0.5;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(4)).ok());
    feed(*session, 5);
    ASSERT_TRUE(session->store().save(path, engine().model_hash(), nullptr, session->memory().value()).ok());
    std::string memory;
    auto loaded = kv::Store::load(path, engine().model_hash(), engine().backend(), nullptr, &memory);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto other = open(engine(), options);
    const Status adopted = other->adopt(std::move(loaded).value(), session->tokens(), memory);
    ASSERT_TRUE(adopted.ok()) << adopted.error().message;
    EXPECT_EQ(logits_of(*other), logits_of(*session));
    feed(*session, 20, 60);
    feed(*other, 20, 60);
    EXPECT_EQ(session->stats().compressions, options.kv->read > 0 ? 0 : 4);
    EXPECT_EQ(other->stats().compressions, options.kv->read > 0 ? 0 : 3);
    EXPECT_EQ(kept_positions(*other), kept_positions(*session));
    EXPECT_EQ(logits_of(*other), logits_of(*session));
  });
  unlink(path.c_str());
}

// Tokens behind it, and what a further prompt reads: the records of a prefill method travel along as well.
TEST_P(MethodFamilies, ASavedPromptIsReadOnTheSame) {
  const std::string path = ::testing::TempDir() + "prompt_families_" + std::to_string(getpid()) + ".kv";
  for_every_prefill([&](const SessionOptions& options) {
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(4)).ok());
    feed(*session, 3);
    ASSERT_TRUE(session->store().save(path, engine().model_hash(), nullptr, session->memory().value()).ok());
    std::string memory;
    auto loaded = kv::Store::load(path, engine().model_hash(), engine().backend(), nullptr, &memory);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto other = open(engine(), options);
    const Status adopted = other->adopt(std::move(loaded).value(), session->tokens(), memory);
    ASSERT_TRUE(adopted.ok()) << adopted.error().message;
    EXPECT_EQ(logits_of(*other), logits_of(*session));
    const std::vector<int32_t> more = random_tokens(200, engine().config().vocab, 14);
    for (Session* one : {session.get(), other.get()}) {
      feed(*one, 4, 60);
      one->planner()->keep_blocks(true);
      ASSERT_TRUE(one->prefill(more).ok());
    }
    EXPECT_EQ(logits_of(*other), logits_of(*session));
    int64_t chosen = 0;
    for (int layer = 0; layer < engine().config().layers; ++layer) {
      const policy::LayerRecords& ours = other->planner()->records(layer);
      const policy::LayerRecords& theirs = session->planner()->records(layer);
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        for (size_t h = 0; h < ours[i].heads.size(); ++h) {
          EXPECT_EQ(ours[i].heads[h].blocks, theirs[i].heads[h].blocks) << layer << ", segment " << i;
          EXPECT_EQ(ours[i].heads[h].chosen, theirs[i].heads[h].chosen) << layer << ", segment " << i;
          chosen += std::ssize(ours[i].heads[h].chosen);
        }
      }
    }
    EXPECT_GT(chosen, 0) << "the further prompt was read in full";
  });
  unlink(path.c_str());
}

TEST_P(MethodFamilies, PromptsReadNoBlockFromTheFutureAndTheSameInChunks) {
  for_every_prefill([&](SessionOptions options) {
    std::optional<std::vector<float>> first;
    for (const int64_t batch : {kPrompt, kPrompt, int64_t{64}}) {
      options.batch = batch;
      const auto session = open(engine(), options);
      session->planner()->keep_blocks(true);
      ASSERT_TRUE(session->prefill(prompt(6)).ok());
      EXPECT_LT(session->stats().density(), 1.0) << "nothing was left out";
      const policy::PrefillOptions& in_force = session->planner()->options();
      const bool bounded = policy::find_prefill_rule(in_force.rule)->bounded;
      for (int layer = 0; layer < engine().config().layers; ++layer) {
        EXPECT_EQ(session->planner()->plans(layer), global(layer));
        for (const policy::SegmentRecord& record : session->planner()->records(layer)) {
          const int32_t visible = record.segment * options.prefill->grid().blocks_per_segment();
          for (const policy::HeadRecord& head : record.heads) {
            EXPECT_TRUE(std::is_sorted(head.chosen.begin(), head.chosen.end(), std::less_equal<>()));
            EXPECT_LT(head.chosen.empty() ? -1 : head.chosen.back(), visible);
            EXPECT_LE(head.blocks, visible);
            if (bounded && !record.dense) {
              EXPECT_LE(head.blocks * in_force.block, in_force.max_factor * in_force.base_budget);
            }
          }
        }
      }
      const std::vector<float> logits = logits_of(*session);
      if (!first) first = logits;
      EXPECT_EQ(logits, *first) << "batch " << batch;
    }
  });
}

TEST_P(MethodFamilies, APrefillBudgetForEverythingIsFullBitForBit) {
  const auto full = open(engine(), {});
  ASSERT_TRUE(full->prefill(prompt(7)).ok());
  for_every_prefill([&](SessionOptions options) {
    options.prefill->threshold = 0;
    options.prefill->base_budget = 4096;
    options.prefill->min_budget = 4096;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(7)).ok());
    EXPECT_EQ(logits_of(*session), logits_of(*full));
  });
}

// Any way to read with any way to keep, and with pages.
TEST_P(MethodFamilies, EveryPrefillGoesWithEveryKv) {
  for_every_prefill([&](const SessionOptions& reading) {
    for_every_generation([&](SessionOptions options) {
      options.prefill = reading.prefill;
      const auto session = open(engine(), options);
      ASSERT_TRUE(session->prefill(prompt(8)).ok());
      EXPECT_LT(session->stats().density(), 1.0);
      feed(*session, 2);
      expect_acted(*session, options, 2);
      for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
    });
  });
}

INSTANTIATE_TEST_SUITE_P(All, MethodFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
