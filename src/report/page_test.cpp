#include "report/page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "report/page_file.h"

namespace ei::report {
namespace {

using nlohmann::json;

std::string data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(Page, TextThatEndsScriptsComesBackWhole) {
  const std::string nasty = "</script><!-- <script>alert('x')</script> & \" \\ \u2028 \x01 {{data}} \xF0\x9F\xA6\x89";
  const std::string page = make_page(json{{"text", nasty}}.dump());
  EXPECT_EQ(json::parse(data_of(page)).at("text"), nasty);
}

TEST(Page, ScriptSafeLeavesTheMeaningAlone) {
  EXPECT_EQ(script_safe(R"({"a":"<b>"})"), R"({"a":"\u003cb>"})");
  EXPECT_EQ(script_safe("[1,2]"), "[1,2]");
}

TEST(Page, NeedsNothingFromOutside) {
  const std::string_view source = page_source();
  for (const char* word : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_EQ(source.find(word), std::string_view::npos) << word;
  // Every part has been put in; only the place of the data is left.
  EXPECT_EQ(source.find("{{"), source.find("{{data}}"));
  EXPECT_EQ(source.rfind("{{"), source.find("{{data}}"));
}

TEST(PageFile, LeavesNothingBehindUnlessFinished) {
  const std::string folder = testing::TempDir() + str_format("page_file_%d", static_cast<int>(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/page.html";
  {
    PageFile file(path);
    ASSERT_TRUE(file.open().ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  PageFile file(path);
  ASSERT_TRUE(file.open().ok());
  const Result<int64_t> bytes = file.finish("hello");
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 5);
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(PageFile(path).open().ok()) << "the folder is gone";
}

}  // namespace
}  // namespace ei::report
