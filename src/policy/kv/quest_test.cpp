#include "policy/kv/quest.h"

#include <gtest/gtest.h>

#include "policy/registry.h"

namespace ei::policy {
namespace {

TEST(Quest, ReadsTheOwnPageAndAsManyOthersAsItsTokensPayFor) {
  const KvOptions options = find_method("quest")->kv;
  EXPECT_EQ(options.page, 16);
  EXPECT_EQ(options.read_skip, 2);
  EXPECT_TRUE(reads_everything(options, 0, 50000));
  EXPECT_TRUE(reads_everything(options, 1, 50000));
  EXPECT_FALSE(reads_everything(options, 2, 50000));
  EXPECT_TRUE(reads_everything(options, 2, 1023)) << "that many are there";
  EXPECT_FALSE(reads_everything(options, 2, 1024));
  EXPECT_EQ(pages_read(options, 1024), 63);
  EXPECT_EQ(pages_read(options, 50000), 63);
  EXPECT_EQ(pages_read({.read = 64, .page = 32}, 40), 1);
  EXPECT_TRUE(reads_everything({}, 9, 50000));
}

TEST(Quest, IsForWholeCachesAndSaysSo) {
  KvOptions options = find_method("quest")->kv;
  EXPECT_TRUE(validate(options).ok());
  options.read = 31;
  EXPECT_FALSE(validate(options).ok());
  options = find_kv_rule({"snapkv"})->preset;
  options.read = 1024;
  const Status status = validate(options);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("--kv-policy full"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace ei::policy
