#include "cli/kv_options.h"

#include <gtest/gtest.h>

#include "cli/method_options.h"
#include "policy/registry.h"
#include "support/parse_words.h"

namespace ei::cli {
namespace {

policy::KvOptions kv(const Words& words) {
  const Result<Settings> settings = parse_words("run", words);
  EXPECT_TRUE(settings.ok()) << settings.error().message;
  if (!settings.ok()) return {};
  const Result<policy::KvOptions> options = kv_options(*settings);
  EXPECT_TRUE(options.ok()) << options.error().message;
  return options.ok() ? *options : policy::KvOptions{};
}

TEST(KvFlags, EveryFieldHasOne) {
  const policy::KvOptions options =
      kv({"--kv-policy", "latent",   "--kv-budget",   "512",     "--kv-gap",    "-1",      "--kv-window",      "16",
          "--kv-repeat", "100",      "--kv-pooling",  "max",     "--kv-kernel", "7",       "--kv-aggregate",   "max",
          "--kv-share",  "adaptive", "--kv-sinks",    "4",       "--kv-layers", "pyramid", "--kv-granularity", "head",
          "--kv-floor",  "0.5",      "--kv-rounding", "released"});
  EXPECT_EQ(options.rule, policy::KvRule::kLatent);
  EXPECT_EQ(options.budget, 512);
  EXPECT_EQ(options.gap, -1);
  EXPECT_EQ(options.window, 16);
  EXPECT_EQ(options.repeat, 100);
  EXPECT_EQ(options.pooling, policy::Pooling::kMax);
  EXPECT_EQ(options.kernel, 7);
  EXPECT_EQ(options.aggregate, policy::GroupAggregate::kMax);
  EXPECT_EQ(options.share, policy::KvShare::kAdaptive);
  EXPECT_EQ(options.sinks, 4);
  EXPECT_EQ(options.layers, policy::KvLayers::kPyramid);
  EXPECT_EQ(options.granularity, policy::KvGranularity::kHead);
  EXPECT_EQ(options.floor_share, 0.5);
  EXPECT_EQ(options.rounding, policy::KvRounding::kReleased);
}

TEST(KvFlags, APolicyStandsForItsWholePreset) {
  const policy::KvOptions options = kv({"--method", "entropyinfer", "--kv-policy", "snapkv", "--kv-budget", "300"});
  EXPECT_EQ(options.rule.name, "snapkv");
  EXPECT_EQ(options.gap, -1);
  EXPECT_EQ(options.pooling, policy::Pooling::kMax);
  EXPECT_EQ(options.budget, 300);
}

TEST(KvFlags, ChangeOnlyWhatTheyName) {
  const policy::KvOptions preset = policy::find_method("entropyinfer-released")->kv;
  const policy::KvOptions options = kv({"--method", "entropyinfer-released", "--kv-budget", "300"});
  EXPECT_EQ(options.budget, 300);
  EXPECT_EQ(options.repeat, preset.repeat);
  EXPECT_EQ(kv({}).rule, policy::KvRule::kKeepAll);
  EXPECT_EQ(kv({"--method", "entropyinfer", "--kv-policy", "full"}).rule, policy::KvRule::kKeepAll);
}

TEST(KvFlags, WithoutMeaningAreRefused) {
  EXPECT_EQ(error_of("run", {"--kv-budget", "512"}), no_meaning("kv-budget", "--method full"));
  EXPECT_EQ(error_of("run", {"--method", "entropyinfer", "--kv-policy", "full", "--kv-gap", "4"}),
            no_meaning("kv-gap", "--method entropyinfer"));
}

// What a message says is true: with that option the other one means something.
TEST(KvFlags, ThatAnotherOptionGivesAMeaningNameIt) {
  for (const char* method : {"snapkv", "entropy-kv", "h2o"}) {
    EXPECT_EQ(error_of("run", {"--method", method, "--kv-samples", "3"}),
              no_meaning("kv-samples", "--method " + std::string(method)));
    EXPECT_EQ(kv({"--method", method, "--kv-queries", "sampled", "--kv-samples", "3"}).samples, 3);
  }
  EXPECT_EQ(error_of("run", {"--method", "snapkv", "--kv-seed", "2"}), no_meaning("kv-seed", "--method snapkv"));
  EXPECT_EQ(kv({"--method", "snapkv", "--kv-layers", "entropy-shuffled", "--kv-seed", "2"}).seed, 2);
  EXPECT_EQ(error_of("run", {"--method", "streaming", "--kv-floor", "0.5"}),
            no_meaning("kv-floor", "--method streaming"));
  EXPECT_EQ(kv({"--method", "streaming", "--kv-share", "distinct", "--kv-floor", "0.5"}).floor_share, 0.5);
  EXPECT_EQ(error_of("run", {"--kv-page", "32"}), no_meaning("kv-page", "--method full"));
  EXPECT_EQ(kv({"--kv-read", "64", "--kv-page", "32"}).page, 32);
  EXPECT_EQ(kv({"--method", "knorm", "--kv-share", "distinct", "--kv-queries", "sampled"}).queries,
            policy::QuerySource::kSampled)
      << "whose attention tells the shares";
}

TEST(KvFlags, AMethodThatReadsPagesKeepsTheCacheOrIsRefused) {
  const std::string refused =
      "pages are chosen in a whole cache only, not in one that snapkv compresses; take --kv-policy full, or --kv-read "
      "0";
  EXPECT_EQ(error_of("run", {"--method", "quest", "--kv-policy", "snapkv"}), refused);
  EXPECT_EQ(error_of("run", {"--method", "snapkv", "--kv-read", "256"}), refused);
  EXPECT_EQ(kv({"--method", "quest", "--kv-policy", "full"}).read, 1024);
  EXPECT_EQ(kv({"--method", "quest", "--kv-policy", "snapkv", "--kv-read", "0"}).rule.name, "snapkv");
}

TEST(KvFlags, SharesOfOneSetForAllHeadsAreRefused) {
  for (const char* method : {"tova", "entropy-kv"}) {
    EXPECT_EQ(error_of("run", {"--method", method, "--kv-share", "adaptive"}),
              "where a layer keeps one set for all heads none has a share of it: --kv-share adaptive wants "
              "--kv-granularity kv_head or head");
    EXPECT_EQ(kv({"--method", method, "--kv-share", "adaptive", "--kv-granularity", "kv_head"}).share,
              policy::KvShare::kAdaptive);
  }
  EXPECT_EQ(error_of("run", {"--method", "adakv", "--kv-granularity", "layer"}).find("where a layer keeps one set"),
            0u);
}

TEST(KvFlags, BadValuesAreNamed) {
  EXPECT_EQ(error_of("run", {"--kv-policy", "some"}).find("--kv-policy: 'some' is none of full, latent, snapkv"), 0u);
  EXPECT_EQ(error_of("run", {"--kv-policy", "latent", "--kv-share", "fair"}),
            "--kv-share: 'fair' is none of flat, adaptive, distinct");
  EXPECT_EQ(error_of("run", {"--kv-policy", "latent", "--kv-kernel", "4"}),
            "pooling kernel must be odd and positive: 4");
  EXPECT_EQ(error_of("run", {"--kv-policy", "latent", "--kv-budget", "32"}),
            "KV budget must exceed the window, which always stays: 32 <= 32; lower --kv-window");
  EXPECT_NE(error_of("run", {"--kv-policy", "latent", "--kv-gap", "-2"}).find("--kv-gap"), std::string::npos);
}

TEST(KvFlags, AMethodOfSeveralTakesThoseThatMeanSomethingToIt) {
  const Result<Settings> settings = parse_words("bench", {"--method", "full,entropyinfer", "--kv-budget", "512"});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(method_options_text(settings_for_method(*settings, "full")), "");
  EXPECT_EQ(method_options_text(settings_for_method(*settings, "entropyinfer")), "kv-budget=512");
  const Result<Settings> both =
      parse_words("bench", {"--method", "full,entropyinfer", "--kv-policy", "latent", "--kv-budget", "512"});
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(kv_options(settings_for_method(*both, "full"))->budget, 512);
}

}  // namespace
}  // namespace ei::cli
