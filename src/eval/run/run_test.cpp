// Results, their file, and what is made of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "eval/run/generation.h"
#include "eval/run/report_data.h"
#include "eval/run/result_file.h"
#include "eval/run/summary.h"

namespace ei::eval {
namespace {

ItemResult result_of(const std::string& task, int64_t index, const std::string& method, double score) {
  ItemResult result;
  result.item = task + "/4096/" + std::to_string(index);
  result.task = task;
  result.length = 4096;
  result.index = index;
  result.method = method;
  result.score = score;
  result.turn_scores = {score};
  result.predictions = {"a \"quoted\"\nline \xff"};
  result.answers = {"x"};
  return result;
}

class ResultFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ei_results_" + std::to_string(::getpid()) + "_" +
                                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<ResultFile> open(const std::string& conditions = "{\"seed\":1}") const {
    return ResultFile::open((folder_ / "deep" / "er").string(), conditions);
  }

  std::filesystem::path folder_;
};

TEST_F(ResultFiles, GoOnWhereTheyStood) {
  {
    auto file = open();
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_FALSE(file->has("vt/4096/0", "full"));
    ASSERT_TRUE(file->add(result_of("vt", 0, "full", 0.25)).ok());
    ASSERT_TRUE(file->add(result_of("vt", 0, "snapkv", 1)).ok());
  }
  auto again = open();
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(again->has("vt/4096/0", "full"));
  EXPECT_FALSE(again->has("vt/4096/1", "full"));
  ASSERT_EQ(again->results().size(), 2u);
  EXPECT_EQ(again->results()[0].score, 0.25);
  EXPECT_EQ(again->results()[1].method, "snapkv");
}

TEST_F(ResultFiles, DropALineThatWasNotWrittenToItsEnd) {
  {
    auto file = open();
    ASSERT_TRUE(file->add(result_of("vt", 0, "full", 1)).ok());
    ASSERT_TRUE(file->add(result_of("vt", 1, "full", 1)).ok());
  }
  const std::string path = open()->path();
  const auto whole = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, whole - 5);
  {
    auto file = open();
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_TRUE(file->has("vt/4096/0", "full"));
    EXPECT_FALSE(file->has("vt/4096/1", "full"));
    ASSERT_TRUE(file->add(result_of("vt", 1, "full", 1)).ok());
  }
  EXPECT_EQ(std::filesystem::file_size(path), whole);
}

TEST_F(ResultFiles, CountTheLastOfSeveralResultsOfAnItemAndMethod) {
  {
    auto file = open();
    ASSERT_TRUE(file->add(result_of("vt", 0, "full", 0.25)).ok());
    ASSERT_TRUE(file->add(result_of("vt", 1, "full", 1)).ok());
    ASSERT_TRUE(file->add(result_of("vt", 0, "full", 0.75)).ok());
    EXPECT_EQ(file->find("vt/4096/0", "full")->score, 0.75);
  }
  const auto again = open();
  ASSERT_EQ(again->results().size(), 2u);
  EXPECT_EQ(again->results()[0].score, 0.75);
  EXPECT_EQ(again->find("vt/4096/0", "snapkv"), nullptr);
}

TEST_F(ResultFiles, AreRewrittenWithoutWhatIsOutdated) {
  {
    auto file = open();
    for (int64_t i = 0; i < 4; ++i) ASSERT_TRUE(file->add(result_of("vt", i, "full", 1)).ok());
    ASSERT_TRUE(file->drop([](const ItemResult& r) { return r.index % 2 == 0; }).ok());
    EXPECT_FALSE(file->has("vt/4096/0", "full"));
    EXPECT_TRUE(file->has("vt/4096/1", "full"));
    ASSERT_TRUE(file->add(result_of("vt", 0, "full", 0.5)).ok()) << "it goes on behind what stayed";
  }
  const auto again = open();
  ASSERT_TRUE(again.ok()) << again.error().message;
  ASSERT_EQ(again->results().size(), 3u);
  EXPECT_EQ(again->results()[1].index, 3);
  EXPECT_EQ(again->results()[2].score, 0.5);
}

TEST_F(ResultFiles, RefuseOtherConditionsAndOtherFiles) {
  const std::string path = open()->path();
  const auto other = open("{\"seed\":2}");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("(seed: 1, now 2): take another --out"), std::string::npos)
      << other.error().message;
  std::ofstream(path, std::ios::app) << "no JSON\n";
  const auto damaged = open();
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().message.find("is damaged at byte 11"), std::string::npos) << damaged.error().message;
}

TEST(Bootstrap, AveragesGroupsAndNotItems) {
  const Interval interval = bootstrap_mean({{1, 1, 1, 1}, {0, 0}, {}});
  EXPECT_EQ(interval.mean, 0.5);
  EXPECT_EQ(interval.low, 0.5) << "equal items leave nothing to chance";
  EXPECT_EQ(interval.high, 0.5);
  EXPECT_EQ(bootstrap_mean({}).mean, 0);
}

TEST(Bootstrap, IntervalsAreThoseOfTheNormalForManyItems) {
  std::vector<double> coins;
  coins.reserve(400);
  for (int i = 0; i < 400; ++i) coins.push_back(i % 2);
  const Interval interval = bootstrap_mean({coins}, 3);
  const double error = 1.96 * 0.5 / std::sqrt(400.0);
  EXPECT_NEAR(interval.low, 0.5 - error, 0.01);
  EXPECT_NEAR(interval.high, 0.5 + error, 0.01);
}

TEST(Summaries, PairDifferencesItemByItem) {
  std::vector<ItemResult> results;
  for (int64_t i = 0; i < 10; ++i) {
    results.push_back(result_of("vt", i, "snapkv", i % 2 == 0 ? 0 : 0.5));
    results.push_back(result_of("vt", i, "full", i % 2 == 0 ? 0.5 : 1));
  }
  results.push_back(result_of("cwe", 0, "snapkv", 1));  // not answered by full
  results.back().acted.kv = true;
  const Summary summary = summarise(results);
  EXPECT_EQ(summary.methods, (std::vector<std::string>{"full", "snapkv"})) << "the reference first";
  const Cell& cell = summary.cells.at({{"vt", 4096}, "snapkv"});
  EXPECT_EQ(cell.score.mean, 0.25);
  EXPECT_LT(cell.score.low, 0.25);
  ASSERT_TRUE(cell.to_reference.has_value());
  EXPECT_EQ(cell.to_reference->mean, -0.5);
  EXPECT_EQ(cell.to_reference->low, -0.5) << "the same difference on every item";
  EXPECT_FALSE(summary.cells.at({{"cwe", 4096}, "snapkv"}).to_reference.has_value());
  EXPECT_EQ(summary.all.at("snapkv").score.mean, 0.625);
  EXPECT_EQ(summary.all.at("snapkv").compressed, 1);
  EXPECT_EQ(summary.all.at("full").density, 1);
  const std::string page = summary_markdown(summary, "Title", "Note.\n");
  EXPECT_NE(page.find("| snapkv | 11 | 62.5 ["), std::string::npos) << page;
  EXPECT_NE(page.find("-50.0 [-50.0, -50.0]"), std::string::npos) << page;
  EXPECT_NE(page.find("| cwe 4096 | 1 | – | 100.0 [100.0, 100.0] |"), std::string::npos) << page;
}

TEST(Summaries, NameWhatActedOnNoItem) {
  std::vector<ItemResult> results;
  const auto add = [&](const char* method, int64_t index, const Acted& acted) {
    results.push_back(result_of("vt", index, method, 1));
    results.back().acted = acted;
  };
  const std::string whole = "the prompt was read whole: short";
  const std::string kept = "the cache was not compressed: small";
  for (int64_t i = 0; i < 2; ++i) {
    add("full", i, {});
    add("both", i, {.prefill = false, .kv = false, .prefill_idle = whole, .kv_idle = kept});
    add("prompt", i, {.prefill = false, .kv = true, .prefill_idle = whole, .kv_idle = ""});
    add("cache", i, {.prefill = true, .kv = false, .prefill_idle = "", .kv_idle = kept});
    add("once", i, {.prefill = i == 0, .kv = i == 1, .prefill_idle = whole, .kv_idle = kept});
    add("snapkv", i, {.prefill = false, .kv = false, .prefill_idle = "", .kv_idle = kept});
  }
  const Summary summary = summarise(results);
  const std::vector<std::string> expected = {
      "both never acted, its scores are those of full attention (2 items; on the last: " + whole + "; " + kept + ")",
      "prompt read no prompt sparsely (2 items; on the last: " + whole + ")",
      "cache compressed no cache (2 items; on the last: " + kept + ")",
      "snapkv never acted, its scores are those of full attention (2 items; on the last: " + kept + ")"};
  EXPECT_EQ(idle_methods(summary), expected);
  const std::string page = summary_markdown(summary, "Title", "Note.\n");
  for (const std::string& sentence : expected) EXPECT_NE(page.find("- " + sentence + "\n"), std::string::npos) << page;
  EXPECT_EQ(nlohmann::json::parse(report_json(summary, results, "Title", "Note."))["idle"], expected);
  EXPECT_EQ(summary.all.at("once").sparse, 1);
  EXPECT_EQ(summary.all.at("once").compressed, 1);
}

TEST(Summaries, HaveTheLikeliestLetterBesideTheWrittenOne) {
  std::vector<ItemResult> results;
  const auto add = [&](const char* task, int64_t index, const char* method, double score,
                       std::optional<double> letter) {
    results.push_back(result_of(task, index, method, score));
    results.back().likelihood = letter;
  };
  for (int64_t i = 0; i < 4; ++i) {
    add("choice", i, "full", i < 2 ? 1 : 0, 1);
    add("choice", i, "snapkv", 1, i == 0 ? 1 : 0);
    add("choice", i, "other", 0, std::nullopt);  // another program, which only writes
    add("num", i, "full", 1, std::nullopt);
    add("num", i, "snapkv", 1, std::nullopt);
  }
  const Summary summary = summarise(results);
  const Cell& full = summary.cells.at({{"choice", 4096}, "full"});
  EXPECT_EQ(full.chosen, 4);
  EXPECT_EQ(full.likelihood->mean, 1);
  EXPECT_EQ(full.likelihood->low, 1);
  const Interval snapkv = *summary.cells.at({{"choice", 4096}, "snapkv"}).likelihood;
  EXPECT_EQ(snapkv.mean, 0.25);
  EXPECT_LT(snapkv.low, 0.25);
  EXPECT_FALSE(summary.cells.at({{"num", 4096}, "full"}).likelihood.has_value());
  EXPECT_EQ(summary.all.at("full").score.mean, 0.75) << "averages take what is written";
  const std::string page = summary_markdown(summary, "Title", "Note.\n");
  EXPECT_NE(page.find("| choice 4096 | 4 | 50.0 ["), std::string::npos) << page;
  EXPECT_NE(page.find("\n| choice 4096, likeliest letter | 4 | 100.0 [100.0, 100.0] | 25.0 ["), std::string::npos)
      << page;
  const size_t row = page.find("likeliest letter | 4 |");
  EXPECT_TRUE(page.substr(row, page.find('\n', row) - row).ends_with("] | – |")) << page;
  EXPECT_EQ(page.find("num 4096, likeliest"), std::string::npos) << page;
  EXPECT_NE(page.find("Multiple choice has two scores"), std::string::npos) << page;
  const auto data = nlohmann::json::parse(report_json(summary, results, "Title", "Note."));
  const auto& cells = data["tasks"][0]["cells"];
  EXPECT_EQ(cells[0]["likelihood"]["score"]["mean"], 1.0);
  EXPECT_EQ(cells[1]["likelihood"]["items"], 4);
  EXPECT_FALSE(cells[2].contains("likelihood"));
  EXPECT_FALSE(data["tasks"][1]["cells"][0].contains("likelihood"));
}

TEST(Summaries, WithoutMultipleChoiceDoNotSpeakOfIt) {
  const std::string page = summary_markdown(summarise({result_of("vt", 0, "full", 1)}), "Title", "Note.\n");
  EXPECT_EQ(page.find("likeliest"), std::string::npos) << page;
  EXPECT_EQ(page.find("Multiple choice"), std::string::npos) << page;
}

TEST(Summaries, SayWhichBytesAreKept) {
  const std::string page = summary_markdown(summarise({result_of("vt", 0, "full", 1)}), "Title", "Note.\n");
  EXPECT_NE(page.find("slots and bytes of all layers"), std::string::npos) << page;
  EXPECT_NE(page.find("sliding window"), std::string::npos) << page;
}

TEST(Results, OfEarlierVersionsSayByTheirFiguresWhatActed) {
  ItemResult result = result_of("vt", 0, "m", 1);
  result.density = 0.5;
  result.acted = {.prefill = true, .kv = false, .prefill_idle = "", .kv_idle = "why"};
  auto line = nlohmann::json::parse(result_line(result));
  EXPECT_EQ(line["acted"], true);
  EXPECT_EQ(parse_result(line.dump())->acted.kv_idle, "why");
  for (const char* name : {"acted", "prefill_acted", "kv_acted", "prefill_idle", "kv_idle"}) line.erase(name);
  line["compressions"] = 2;
  const Acted acted = parse_result(line.dump())->acted;
  EXPECT_TRUE(acted.prefill);
  EXPECT_TRUE(acted.kv);
  line["density"] = 1;
  EXPECT_FALSE(parse_result(line.dump())->acted.prefill);
}

TEST(Readings, AreSharedByMethodsThatReadAlike) {
  const auto method = [](const char* reading, int32_t samples) {
    MethodSpec spec;
    spec.reading = reading;
    spec.samples = samples > 0;
    spec.session.kv = policy::KvOptions{};
    spec.session.kv->samples = samples;
    return spec;
  };
  const std::vector<MethodSpec> methods = {method("full", 0),  method("full", 0),   method("sparse", 0),
                                           method("full", 64), method("full", 128), method("full", 64)};
  EXPECT_EQ(count_readings(std::span(methods).first(2)), 1);
  EXPECT_EQ(count_readings(std::span(methods).first(3)), 2) << "a sparse prompt is another one";
  EXPECT_EQ(count_readings(methods), 4) << "and so is one with other queries recorded";
}

TEST(ReportData, HoldsNeedlesByDepthAndHowOftenCompressionFired) {
  std::vector<ItemResult> results;
  for (int64_t i = 0; i < 4; ++i) {
    results.push_back(result_of("num", i, "full", 1));
    results.push_back(result_of("num", i, "snapkv", i < 2 ? 0 : 0.5));
    results.back().acted.kv = i != 3;
    for (ItemResult* result : {&results[results.size() - 2], &results.back()}) result->depth = i < 2 ? 0.04 : 0.97;
  }
  results.push_back(result_of("list", 0, "full", 1));  // spread over the text: no needle
  const auto page = nlohmann::json::parse(report_json(summarise(results), results, "Title", "Note."));
  EXPECT_EQ(page["reference"], "full");
  EXPECT_EQ(page["methods"][1]["name"], "snapkv");
  EXPECT_EQ(page["methods"][1]["compressed"], 3);
  EXPECT_EQ(page["methods"][1]["to_reference"]["mean"], -0.75);
  ASSERT_EQ(page["needles"].size(), 4u) << "two methods, two depths";
  for (const auto& needle : page["needles"]) {
    EXPECT_EQ(needle["items"], 2);
    EXPECT_TRUE(needle["depth"] == 0.0 || needle["depth"] == 1.0) << "in tenths: " << needle;
    if (needle["method"] == "snapkv") {
      EXPECT_EQ(needle["score"], needle["depth"] == 0.0 ? 0.0 : 0.5);
    }
  }
}

}  // namespace
}  // namespace ei::eval
