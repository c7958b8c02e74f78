#include "report/page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "report/report_file.h"

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

TEST(ReportFile, IsThereOnlyWhenItIsWhole) {
  const std::string folder = testing::TempDir() + str_format("report_file_%d", static_cast<int>(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/page.html";
  {
    ReportFile file(path);
    ASSERT_TRUE(file.check().ok());
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a kill behind the check must leave nothing";
    ASSERT_TRUE(file.put("hel").ok());
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  ReportFile file(path);
  ASSERT_TRUE(file.put("hel").ok() && file.put("lo").ok());
  const Result<int64_t> bytes = file.commit();
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 5);
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(ReportFile(path).check().ok()) << "the folder is gone";
  EXPECT_FALSE(ReportFile(path).put("x").ok());
}

TEST(EvalPage, IsOneFileWithItsDataInside) {
  const std::string page = make_eval_page("{\"title\":\"</script>\"}");
  EXPECT_NE(page.find("{\"title\":\"\\u003c/script>\"}"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos) << "every part is in its place";
  EXPECT_EQ(page.find("src="), std::string::npos) << "nothing is fetched";
  EXPECT_EQ(page.find("href="), std::string::npos);
  for (const char* part : {"drawMethods", "drawCharts", "drawNeedles", "--ramp0", "data-theme=\"dark\""})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace ei::report
