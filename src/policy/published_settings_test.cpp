// What --method NAME stands for: the settings of each paper or of its released code, as docs/methods.md states them. A
// method that has no row here has its settings in a test of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>

#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::policy {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

// What a row below need not name.
constexpr const char* kPlain =
    "segment=512 block=8 threshold=4096 base-budget=2048 select=adaptive last-dense=on layer-skip=0 early-share=0 "
    "rank-queries=auto candidate-share=0 sparse-mode=ragged layer-fusion=off "
    "kv-budget=1024 kv-share=flat kv-layers=flat kv-gap=-1 kv-window=32 kv-recent=0 kv-sinks=0 kv-repeat=0 kv-carry=0 "
    "kv-granularity=kv_head kv-queries=last kv-pooling=average kv-kernel=1 kv-aggregate=mean kv-floor=0.2 "
    "kv-rounding=exact kv-key-share=0 kv-read=0";

struct Published {
  std::string_view method;
  const char* settings;
};

constexpr Published kPublished[] = {
    {"full", "kv-policy=full"},
    {"entropyinfer",
     "budget-rule=entropy base-budget=0 density=0.065 density-base=384 local-budget=128 spread-power=0.75 "
     "distinct-power=1.5 far-power=1 sample-every=2 sample-memory=0.9 open-memory=0.5 shuffle=0 whole-layer=-1 "
     "whole-head=-1 few-places=5 rated-per-read=2 kv-policy=latent kv-budget=1024+10% kv-gap=64 kv-repeat=256 "
     "kv-kernel=5 kv-key-share=0.5 kv-attended=2"},
    {"entropyinfer-released",
     "budget-rule=growth select=midrange sparse-mode=released layer-skip=1 min-budget=0 max-factor=3 e-t=1e-05 "
     "delta-t=0.4 alpha=0.5 rigid-test=whole-trace logit-scale=none kv-policy=latent kv-gap=16 kv-kernel=5"},
    {"critiprefill",
     "budget-rule=fixed block=32 select=midrange layer-skip=1 layer-fusion=on logit-scale=none kv-policy=full"},
    {"cumulative",
     "budget-rule=cumulative segment=128 block=128 threshold=0 base-budget=1024 cover=0.95 select=midrange "
     "logit-scale=inverse-sqrt-dim kv-policy=full"},
    {"streaming", "budget-rule=streaming kv-policy=streaming kv-sinks=4 kv-repeat=256"},
    {"triangle", "budget-rule=triangle base-budget=520 kv-policy=full"},
    {"random-prefill", "budget-rule=random select=midrange kv-policy=full"},
    {"snapkv", "kv-policy=snapkv kv-pooling=max kv-kernel=7"},
    {"adakv", "kv-policy=adakv kv-share=adaptive kv-rounding=released kv-pooling=max kv-kernel=7"},
    {"pyramid", "kv-policy=pyramid kv-layers=pyramid kv-window=8 kv-pooling=max kv-kernel=7"},
    {"ada-pyramid",
     "kv-policy=ada-pyramid kv-layers=pyramid kv-share=adaptive kv-rounding=released kv-pooling=max kv-kernel=7"},
    {"entropy-kv", "kv-policy=entropy-kv kv-layers=entropy kv-granularity=layer"},
    {"tova", "kv-policy=tova kv-window=1 kv-granularity=layer kv-repeat=256"},
    {"h2o", "kv-policy=h2o kv-window=1 kv-recent=0.5 kv-queries=all kv-repeat=256"},
    {"knorm", "kv-policy=knorm kv-repeat=256"},
    {"keydiff", "kv-policy=keydiff kv-repeat=256"},
    {"expected", "kv-policy=expected kv-window=1 kv-sinks=4 kv-queries=sampled kv-samples=128"},
    {"random-kv", "kv-policy=random kv-seed=1"},
    {"quest", "kv-policy=full kv-read=1024 kv-page=16 kv-read-skip=2"},
};

Values values_in(const char* text) {
  Values values;
  std::istringstream words(text);
  for (std::string word; words >> word;) values[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return values;
}

// Every option that the preset reads; takes those that the row names out of it.
template <typename Options>
void expect_settings(const std::vector<OptionSpec<Options>>& table, const Options& preset, Values& row) {
  static const Values plain = values_in(kPlain);
  for (const OptionSpec<Options>& spec : table) {
    if (!spec.read(preset)) continue;
    const auto own = row.extract(std::string(spec.name));
    const auto usual = plain.find(spec.name);
    ASSERT_TRUE(!own.empty() || usual != plain.end()) << spec.name << " is named nowhere";
    EXPECT_EQ(option_text(spec.get(preset)), own.empty() ? usual->second : own.mapped()) << spec.name;
  }
}

TEST(PublishedSettings, AreThoseOfThePresets) {
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.method);
    const Method* method = find_method(published.method);
    ASSERT_NE(method, nullptr);
    Values row = values_in(published.settings);
    expect_settings(prefill_option_table(), method->prefill, row);
    expect_settings(kv_option_table(), method->kv, row);
    EXPECT_TRUE(row.empty()) << row.begin()->first << " is not read";
  }
}

// --kv-policy NAME beside any way to read is what the first method of that policy keeps.
TEST(PublishedSettings, AreThoseOfEveryKvPolicyToo) {
  for (const KvEntry& entry : kv_rules()) {
    SCOPED_TRACE(entry.name);
    const auto method = std::find_if(methods().begin(), methods().end(),
                                     [&](const Method& one) { return one.kv.rule.name == entry.name; });
    ASSERT_NE(method, methods().end()) << "no --method has it";
    for (const OptionSpec<KvOptions>& spec : kv_option_table())
      EXPECT_EQ(option_text(spec.get(entry.preset)), option_text(spec.get(method->kv))) << spec.name;
  }
}

}  // namespace
}  // namespace ei::policy
