#include "cli/method_options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "policy/option_takers.h"
#include "policy/registry.h"
#include "support/parse_words.h"

namespace ei::cli {
namespace {

policy::PrefillOptions prefill(const Words& words) {
  const Result<Settings> settings = parse_words("run", words);
  EXPECT_TRUE(settings.ok()) << settings.error().message;
  if (!settings.ok()) return {};
  const Result<policy::PrefillOptions> options = prefill_options(*settings);
  EXPECT_TRUE(options.ok()) << options.error().message;
  return options.ok() ? *options : policy::PrefillOptions{};
}

TEST(MethodOptions, ChangeOnlyTheFieldTheyName) {
  const policy::PrefillOptions preset = policy::find_method("entropyinfer")->prefill;
  const policy::PrefillOptions options = prefill({"--method", "entropyinfer", "--base-budget", "512"});
  EXPECT_EQ(options.base_budget, 512);
  EXPECT_EQ(options.select, preset.select);
  EXPECT_EQ(options.segment, preset.segment);
  EXPECT_EQ(options.mode, preset.mode);
  EXPECT_EQ(prefill({"--method", "full"}).rule, policy::PrefillRule::kDense);
}

TEST(MethodOptions, EntropiesAreSampledByTheAdaptiveRanking) {
  const std::string error = error_of("run", {"--method", "entropyinfer", "--select", "midrange"});
  EXPECT_EQ(error.find("budget rule entropy works with --select adaptive only, not with midrange; take --budget-rule "),
            0u);
  EXPECT_NE(error.find("growth"), std::string::npos) << error;
}

TEST(MethodOptions, EveryFieldHasAFlag) {
  const policy::PrefillOptions options =
      prefill({"--method",       "entropyinfer", "--segment",     "256",        "--block",       "16",
               "--threshold",    "1024",         "--base-budget", "768",        "--min-budget",  "128",
               "--max-factor",   "2.5",          "--e-t",         "1e-3",       "--delta-t",     "0.3",
               "--alpha",        "0.25",         "--layer-skip",  "2",          "--budget-rule", "growth",
               "--layer-fusion", "on",           "--last-dense",  "off",        "--logit-scale", "inverse-sqrt-dim",
               "--sparse-mode",  "collapsed",    "--select",      "oracle-max", "--rigid-test",  "whole-trace"});
  EXPECT_EQ(options.rule, policy::PrefillRule::kGrowth);
  EXPECT_EQ(options.segment, 256);
  EXPECT_EQ(options.block, 16);
  EXPECT_EQ(options.threshold, 1024);
  EXPECT_EQ(options.base_budget, 768);
  EXPECT_EQ(options.min_budget, 128);
  EXPECT_EQ(options.max_factor, 2.5);
  EXPECT_EQ(options.e_t, 1e-3);
  EXPECT_EQ(options.delta_t, 0.3);
  EXPECT_EQ(options.alpha, 0.25);
  EXPECT_EQ(options.layer_skip, 2);
  EXPECT_TRUE(options.layer_fusion);
  EXPECT_EQ(options.logit_scale, policy::LogitScale::kInverseSqrtDim);
  EXPECT_FALSE(options.last_dense);
  EXPECT_EQ(options.mode, policy::SparseMode::kCollapsed);
  EXPECT_EQ(options.select, policy::BlockRank::kOracleMax);
  EXPECT_EQ(options.rigid_test, policy::RigidTest::kWholeTrace);
  EXPECT_EQ(prefill({"--method", "entropyinfer", "--budget-rule", "fixed"}).rule, policy::PrefillRule::kFixed);
  const policy::PrefillOptions habit =
      prefill({"--method", "entropyinfer", "--budget-rule", "habit", "--local-budget", "64", "--sink-share", "8",
               "--diffuse-share", "32", "--candidate-share", "3", "--rank-queries", "heads", "--early-share", "3"});
  EXPECT_EQ(habit.rule, policy::PrefillRule::kHabit);
  EXPECT_EQ(habit.local_budget, 64);
  EXPECT_EQ(habit.sink_share, 8);
  EXPECT_EQ(habit.diffuse_share, 32);
  EXPECT_EQ(habit.candidate_share, 3);
  EXPECT_EQ(habit.rank_queries, policy::RankQueries::kHeads);
  EXPECT_EQ(habit.early_share, 3);
  const policy::PrefillOptions entropy = prefill(
      {"--method", "entropyinfer", "--density", "0.2", "--density-base", "9", "--spread-power", "1", "--distinct-power",
       "2", "--far-power", "3", "--sample-every", "4", "--sample-memory", "0.4", "--open-memory", "0.3"});
  EXPECT_EQ(entropy.density, 0.2);
  EXPECT_EQ(entropy.density_base, 9);
  EXPECT_EQ(entropy.spread_power, 1);
  EXPECT_EQ(entropy.distinct_power, 2);
  EXPECT_EQ(entropy.far_power, 3);
  EXPECT_EQ(entropy.sample_every, 4);
  EXPECT_EQ(entropy.sample_memory, 0.4);
  EXPECT_EQ(entropy.open_memory, 0.3);
}

TEST(MethodOptions, WithoutMeaningAreRefused) {
  // Full is the default: a sparse option alone must not look as if it did something.
  for (const Option& flag : prefill_flags()) {
    const std::string name = "--" + std::string(flag.name());
    for (const char* value : {"1", "0.5", "on", "entropy", "none", "ragged", "peak", "causal", "auto"}) {
      Settings scratch;
      if (!flag.binding.set(scratch, value).ok()) continue;
      EXPECT_FALSE(policy::takers_of(flag.name()).empty()) << name << " is read by nobody";
      EXPECT_EQ(error_of("run", {name, value}), no_meaning(std::string(flag.name()), "--method full"));
    }
  }
  EXPECT_EQ(error_of("run", {"--method", "entropyinfer", "--budget-rule", "fixed", "--alpha", "1"}),
            no_meaning("alpha", "--budget-rule fixed"));
  EXPECT_EQ(error_of("run", {"--method", "entropyinfer", "--diffuse-share", "8"}),
            no_meaning("diffuse-share", "--budget-rule entropy"));
  EXPECT_EQ(error_of("run", {"--method", "entropyinfer", "--budget-rule", "growth", "--density", "0.1"}),
            no_meaning("density", "--budget-rule growth"));
  EXPECT_EQ(error_of("run", {"--method", "entropyinfer", "--budget-rule", "fixed", "--select", "peak", "--local-budget",
                             "64"}),
            no_meaning("local-budget", "--select peak"));
  EXPECT_EQ(error_of("bench", {"--method", "full", "--block", "16"})
                .find("--block has no meaning with --method full; it goes with --method entropyinfer, "),
            0u);
}

TEST(MethodOptions, APolicyReplacesTheMethodsOwn) {
  using policy::PrefillRule;
  EXPECT_EQ(prefill({"--prefill-policy", "sparse"}).rule, PrefillRule::kEntropy);
  EXPECT_EQ(prefill({"--prefill-policy", "sparse", "--base-budget", "512"}).base_budget, 512);
  EXPECT_EQ(prefill({"--prefill-policy", "sparse", "--budget-rule", "fixed"}).rule, PrefillRule::kFixed);
  EXPECT_EQ(prefill({"--method", "critiprefill", "--prefill-policy", "sparse"}).rule, PrefillRule::kFixed);
  EXPECT_EQ(prefill({"--method", "entropyinfer", "--prefill-policy", "full"}).rule, PrefillRule::kDense);
  EXPECT_EQ(error_of("run", {"--method", "entropyinfer", "--prefill-policy", "full", "--block", "16"}),
            "--block has no meaning with --prefill-policy full; it goes with " + policy::takers_of("block"));
  EXPECT_EQ(error_of("run", {"--prefill-policy", "most"}), "--prefill-policy: 'most' is neither full nor sparse");
  const Result<Settings> both = parse_words("bench", {"--method", "full,entropyinfer", "--prefill-policy", "full"});
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(prefill_options(settings_for_method(*both, "entropyinfer"))->rule, PrefillRule::kDense);
  EXPECT_EQ(method_options_text(settings_for_method(*both, "full")), "prefill-policy=full");
}

TEST(MethodOptions, ThatDoNotGoTogetherAreNamed) {
  const auto sparse_error = [](Words words) {
    words.insert(words.begin(), {"--method", "entropyinfer"});
    return error_of("run", words);
  };
  EXPECT_EQ(sparse_error({"--block", "7"}), "block must divide segment: 7 does not divide 512");
  EXPECT_NE(sparse_error({"--budget-rule", "growth", "--base-budget", "1024", "--min-budget", "4096"})
                .find("min budget must lie between 0 and the base budget"),
            std::string::npos);
  EXPECT_NE(sparse_error({"--budget-rule", "growth", "--sparse-mode", "released"}).find("midrange only"),
            std::string::npos);
  EXPECT_EQ(sparse_error({"--density", "0.1", "--base-budget", "512"}),
            "--density and --base-budget exclude each other: both say how much is read");
  EXPECT_EQ(sparse_error({"--density-base", "64", "--base-budget", "512"}),
            "--density-base and --base-budget exclude each other: both say how much is read");
  EXPECT_EQ(prefill({"--method", "entropyinfer", "--density", "0.1", "--base-budget", "0"}).density, 0.1);
  EXPECT_EQ(sparse_error({"--segment", "0"}).find("--segment: '0' is out of range"), 0u);
  EXPECT_EQ(sparse_error({"--density", "0"}).find("--density: '0' is out of range"), 0u);
  EXPECT_EQ(sparse_error({"--max-factor", "0.5"}).find("--max-factor: '0.5' is out of range"), 0u);
  EXPECT_EQ(sparse_error({"--select", "best"}),
            "--select: 'best' is none of midrange, peak, adaptive, oracle-sum, oracle-max");
  EXPECT_EQ(sparse_error({"--last-dense", "maybe"}), "--last-dense: 'maybe' is neither on nor off");
}

TEST(MethodOptions, OfABenchmarkGoToTheMethodsTheyMeanSomethingTo) {
  const Result<Settings> settings = parse_words("bench", {"--method", "full,entropyinfer", "--base-budget", "512"});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(method_options_text(settings_for_method(*settings, "full")), "");
  EXPECT_EQ(method_options_text(settings_for_method(*settings, "entropyinfer")), "base-budget=512");
}

TEST(MethodOptions, OfVsStartAfreshWithAMethodAndGoOnWithoutOne) {
  const CommandEntry& entry = *find_command("perplexity");
  const Result<Settings> base = parse_words("perplexity", {"--method", "entropyinfer", "--base-budget", "512"});
  ASSERT_TRUE(base.ok()) << base.error().message;
  const Result<Settings> full = with_overrides(entry, *base, "method=full");
  ASSERT_TRUE(full.ok()) << full.error().message;
  EXPECT_EQ(method_options_text(*full), "");
  const Result<Settings> more = with_overrides(entry, *base, "budget-rule=fixed");
  ASSERT_TRUE(more.ok()) << more.error().message;
  EXPECT_EQ(method_options_text(*more), "base-budget=512,budget-rule=fixed");
  const Result<Settings> wrong = with_overrides(entry, *base, "method=full,block=16");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message,
            "--vs: --block has no meaning with --method full; it goes with " + policy::takers_of("block"));
}

}  // namespace
}  // namespace ei::cli
