#include "gguf/reader.h"

#include <gtest/gtest.h>

namespace ei::gguf {
namespace {

TEST(Reader, NeverReadsPastTheEnd) {
  const std::string text("\x05\0\0\0\0\0\0\0abcde", 13);
  for (size_t size = 0; size < text.size(); ++size) {
    const std::string prefix = text.substr(0, size);
    Reader reader(std::as_bytes(std::span(prefix)));
    EXPECT_FALSE(reader.text("a text").ok()) << size;
  }
  Reader reader(std::as_bytes(std::span(text)));
  const auto read = reader.text("a text");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, "abcde");
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(Reader, RefusesLengthsThatWouldWrap) {
  const std::string text(16, '\xFF');
  Reader reader(std::as_bytes(std::span(text)));
  const auto read = reader.text("a text");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("18446744073709551615"), std::string::npos) << read.error().message;
}

TEST(Reader, PrintsForeignBytesOnOneLine) {
  EXPECT_EQ(printable("a\nb\xFF"), "a?b?");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace ei::gguf
