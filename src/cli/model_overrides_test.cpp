#include "cli/model_overrides.h"

#include <gtest/gtest.h>

namespace ei::cli {
namespace {

TEST(ModelOverrides, FlagsOfRopeStandForMetadata) {
  Settings settings;
  EXPECT_TRUE(model_overrides(settings).empty());
  settings.override_kv = "general.name=str:x";
  settings.rope_scaling = "yarn";
  settings.rope_scale = 4;
  settings.rope_freq_base = 5e5;
  settings.yarn_orig_ctx = 8192;
  EXPECT_EQ(model_overrides(settings),
            (gguf::Overrides{{"general.name", std::string("x")},
                             {"{arch}.rope.scaling.type", std::string("yarn")},
                             {"{arch}.rope.scaling.factor", 4.0},
                             {"{arch}.rope.freq_base", 5e5},
                             {"{arch}.rope.scaling.original_context_length", int64_t{8192}}}));
}

TEST(ModelOverrides, FlagsOfYarnCountFromZeroOn) {
  Settings settings;
  settings.yarn_ext_factor = 0;
  settings.yarn_attn_factor = 1.5;
  settings.yarn_beta_slow = 2;
  settings.yarn_beta_fast = 16;
  EXPECT_EQ(model_overrides(settings), (gguf::Overrides{{"{arch}.rope.scaling.yarn_ext_factor", 0.0},
                                                        {"{arch}.rope.scaling.yarn_attn_factor", 1.5},
                                                        {"{arch}.rope.scaling.yarn_beta_slow", 2.0},
                                                        {"{arch}.rope.scaling.yarn_beta_fast", 16.0}}));
}

TEST(ModelOverrides, AFrequencyScaleIsTheInverseOfAScale) {
  Settings settings;
  settings.rope_freq_scale = 0.25;
  EXPECT_EQ(model_overrides(settings), (gguf::Overrides{{"{arch}.rope.scaling.factor", 4.0}}));
}

TEST(ModelOverrides, AWrongOneIsAnErrorOfTheFlag) {
  Settings settings;
  const Binding binding = metadata(&Settings::override_kv);
  EXPECT_FALSE(binding.set(settings, "llama.context_length=4096").ok());
  EXPECT_TRUE(settings.override_kv.empty());
  EXPECT_TRUE(binding.set(settings, "llama.context_length=int:4096").ok());
  EXPECT_EQ(binding.show(settings), "llama.context_length=int:4096");
}

}  // namespace
}  // namespace ei::cli
