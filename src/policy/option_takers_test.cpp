// Who reads an option, in words: held to what the tables say of every preset, so that a new method changes no test.
#include "policy/option_takers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::policy {
namespace {

// "--method a, b": whose preset of that half reads the option.
template <typename Options>
std::string readers(const OptionSpec<Options>& spec, Options Method::*half) {
  std::string names;
  for (const Method& method : methods())
    if (spec.read(method.*half)) names += (names.empty() ? "--method " : ", ") + std::string(method.name);
  return names;
}

template <typename Options>
void expect_readers_first(const std::vector<OptionSpec<Options>>& table, Options Method::*half) {
  for (const OptionSpec<Options>& spec : table) {
    const std::string expected = readers(spec, half);
    const std::string takers = takers_of(spec.name);
    const size_t others = takers.find("--", expected.empty() ? 0 : 1);
    const bool alone = expected.empty() || others == std::string::npos;
    EXPECT_EQ(takers.substr(0, others), alone ? expected : expected + ", or with ") << spec.name;
  }
}

TEST(OptionTakers, BeginWithTheMethodsWhosePresetReadsTheOption) {
  expect_readers_first(prefill_option_table(), &Method::prefill);
  expect_readers_first(kv_option_table(), &Method::kv);
}

TEST(OptionTakers, GoOnWithTheOptionsThatMakeAPresetReadIt) {
  const auto behind_methods = [](const char* flag) {
    const std::string takers = takers_of(flag);
    return takers.substr(takers.find("or with ") + 8);
  };
  EXPECT_EQ(behind_methods("alpha").find("--budget-rule growth, habit"), 0u);
  EXPECT_NE(behind_methods("local-budget").find(" or --select adaptive"), std::string::npos);
  EXPECT_EQ(behind_methods("kv-samples"), "--kv-queries sampled");
  EXPECT_EQ(behind_methods("kv-seed"), "--kv-layers entropy-shuffled");
  EXPECT_EQ(behind_methods("kv-floor"),
            "--kv-share adaptive, distinct or --kv-layers entropy, spread, focus, distinct, mass, entropy-rest, "
            "entropy-inverse, entropy-shuffled");
  EXPECT_EQ(behind_methods("kv-page"), "--kv-read N");
  // Of no preset at all.
  EXPECT_EQ(takers_of("diffuse-share").find("--budget-rule habit"), 0u);
}

TEST(OptionTakers, AreNobodyForWhatIsNoOption) { EXPECT_EQ(takers_of("nothing"), ""); }

}  // namespace
}  // namespace ei::policy
