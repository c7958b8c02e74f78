#include "server/api/text_shelf.h"

#include <gtest/gtest.h>

namespace ei::server {
namespace {

TEST(TextShelf, IsBoundedAndWhatWasNotUsedLongestGoes) {
  TextShelf shelf(100);
  const std::string first = shelf.put(std::string(40, 'a'));
  const std::string second = shelf.put(std::string(40, 'b'));
  EXPECT_NE(first, second);
  ASSERT_NE(shelf.find(first), nullptr);
  const std::string third = shelf.put(std::string(30, 'c'));
  EXPECT_EQ(shelf.find(second), nullptr);
  EXPECT_EQ(*shelf.find(first), std::string(40, 'a'));
  EXPECT_EQ(*shelf.find(third), std::string(30, 'c'));
  EXPECT_EQ(shelf.bytes(), 70);
  EXPECT_EQ(shelf.put(std::string(101, 'd')), "");
  EXPECT_EQ(shelf.bytes(), 70) << "nothing had to go for it";
  EXPECT_NE(shelf.put(std::string(100, 'e')), "");
  EXPECT_EQ(shelf.bytes(), 100);
}

}  // namespace
}  // namespace ei::server
