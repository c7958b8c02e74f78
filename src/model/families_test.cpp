#include "model/families.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gguf/hyperparameters.h"
#include "model/config.h"

namespace ei::model {
namespace {

TEST(Families, AreThoseThatTheFileCheckLetsThrough) {
  const auto accepted = gguf::supported_architectures();
  ASSERT_EQ(accepted.size(), families().size());
  for (const Family& family : families())
    EXPECT_NE(std::find(accepted.begin(), accepted.end(), family.arch), accepted.end()) << family.arch;
  EXPECT_EQ(architecture_names().size(), families().size());
}

}  // namespace
}  // namespace ei::model
