// inspect: the page's own data is consistent with what the run reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"
#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

std::string read_file(const std::string& path) {
  std::string text;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return text;
  char buffer[65536];
  for (size_t count; (count = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, count);
  std::fclose(file);
  return text;
}

json data_of(const std::string& page) {
  const std::string_view open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin), nullptr, false);
}

std::vector<uint8_t> decode(const std::string& base64) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((count += 6) >= 8) bytes.push_back(static_cast<uint8_t>(bits >> (count -= 8)));
  }
  return bytes;
}

int64_t slots_of(const std::string& kept) {
  std::vector<int64_t> numbers(1);
  int shift = 0;
  for (const uint8_t byte : decode(kept)) {
    numbers.back() |= static_cast<int64_t>(byte & 127) << shift;
    shift = (byte & 128) != 0 ? shift + 7 : 0;
    if (shift == 0) numbers.push_back(0);
  }
  int64_t slots = 0;
  for (size_t i = 1; i < numbers.size(); i += 2) slots += numbers[i];
  return slots;
}

std::string story() {
  std::string text = "The pass key is 48213. Remember </script> it.";
  for (int i = 0; i < 40; ++i) text += str_format(" Boat number %d went down the river to the mill.", i);
  return text + "\n\nWhat is the pass key?";
}

void expect_plan_of_a_head(const json& head, const std::string& dense, const json& map) {
  for (const char* list : {"entropy", "budget", "read"}) EXPECT_EQ(head.at(list).size(), dense.size()) << list;
  for (const char* text : {"class", "type"}) EXPECT_EQ(head.at(text).get<std::string>().size(), dense.size()) << text;
  const int64_t cols = map["cols"];
  std::vector<uint8_t> levels;
  for (const uint8_t run : decode(head.at("map"))) levels.insert(levels.end(), (run & 15) + 1u, run >> 4);
  ASSERT_EQ(static_cast<int64_t>(levels.size()), map["rows"].get<int64_t>() * cols);
  ASSERT_EQ(map["blocks"], cols) << "small enough for a cell per block";
  for (size_t s = 0; s < dense.size(); ++s) {
    int64_t chosen = 0;
    for (int64_t col = 0; col < cols; ++col) {
      const uint8_t level = levels[s * static_cast<size_t>(cols) + static_cast<size_t>(col)];
      EXPECT_TRUE(level == 0 || level == 15);
      if (level == 0) continue;
      EXPECT_LT(col * 8, static_cast<int64_t>(s) * 64) << "no block from the future";
      ++chosen;
    }
    EXPECT_EQ(dense[s] == '1' ? static_cast<int64_t>(s) * 64 : chosen * 8, head["read"][s]) << s;
  }
}

TEST(Inspect, WritesAPageWhoseDataAgreesWithTheRun) {
  const std::string path = write_file("page.html", "an older page");
  const Outcome outcome = run(Invocation{
      .arguments =
          {"inspect",       "-f", "-",           "-o", path,          "--json", "--segment", "64", "--threshold", "128",
           "--base-budget", "64", "--kv-budget", "64", "--kv-window", "16",     "--kv-gap",  "8",  "-n",          "12"},
      .input = story()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json printed = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(printed.is_discarded()) << outcome.out;
  EXPECT_EQ(printed["report"], path);
  const json data = data_of(read_file(path));
  ASSERT_FALSE(data.is_discarded());

  EXPECT_EQ(data["run"]["kv"]["bytes"], printed["kv"]["bytes"]);
  EXPECT_LT(data["run"]["prefill"]["density"], 0.95);
  EXPECT_EQ(data["run"]["kv"]["compressions"], 1);
  EXPECT_EQ(data["tokens"]["prompt"], printed["tokens"]["prompt"]);
  EXPECT_EQ(data["tokens"]["generated"], 12) << "generation goes on behind the end token";
  EXPECT_LT(data["tokens"]["answer"], 12);
  std::string text;
  for (const json& piece : data["pieces"]) text += piece.get<std::string>();
  EXPECT_NE(text.find(story()), std::string::npos) << "the text comes back whole, </script> included";
  EXPECT_EQ(data["options"]["segment"], 64);
  EXPECT_EQ(data["options"]["kv-budget"], 64);

  const int64_t prompt = data["tokens"]["prompt"];
  const size_t segments = static_cast<size_t>((prompt + 63) / 64);
  ASSERT_GT(segments, 4u);
  int64_t kept = 0;
  ASSERT_EQ(data["layers"].size(), 8u);
  for (const json& layer : data["layers"]) {
    ASSERT_EQ(layer["heads"].size(), 2u);
    for (const json& head : layer["heads"]) {
      EXPECT_EQ(slots_of(head["kept"]), head["slots"]);
      kept += head["slots"].get<int64_t>();
      if (!layer["planned"].get<bool>()) continue;
      ASSERT_EQ(layer["dense"].get<std::string>().size(), segments);
      expect_plan_of_a_head(head, layer["dense"], data["map"]);
    }
  }
  EXPECT_TRUE(data["layers"][0]["planned"].get<bool>());
  // Behind the compression three more tokens were fed.
  EXPECT_EQ(kept, 16 * (64 + 3));
}

TEST(Inspect, GoesOnBehindTheFirstCompressionByItself) {
  const std::string path = write_file("defaults.html", "");
  const Outcome outcome =
      run(Invocation{.arguments = {"inspect", "-f", "-", "-o", path, "--kv-budget", "64"}, .input = story()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json data = data_of(read_file(path));
  ASSERT_FALSE(data.is_discarded());
  EXPECT_GE(data["run"]["kv"]["compressions"], 1);
}

TEST(Inspect, SaysOfAShortTextThatNothingWasLeftOut) {
  const std::string path = write_file("short.html", "");
  ASSERT_EQ(run({"inspect", "-p", "The river runs down.", "-o", path, "-n", "2"}).code, 0);
  const std::string page = read_file(path);
  EXPECT_NE(page.find("id=\"idle\""), std::string::npos);
  const json idle = data_of(page)["run"]["idle"];
  ASSERT_EQ(idle.size(), 2u) << idle;
  EXPECT_NE(idle[0].get<std::string>().find("the prompt was read whole"), std::string::npos) << idle;
  EXPECT_NE(idle[1].get<std::string>().find("the cache was not compressed"), std::string::npos) << idle;
}

TEST(Inspect, ShowsADenseMethodToo) {
  const std::string path = write_file("dense.html", "");
  const Outcome outcome = run({"inspect", "-p", "The river runs down.", "-o", path, "--method", "full", "-n", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("wrote " + path), std::string::npos) << outcome.err;
  const json data = data_of(read_file(path));
  ASSERT_FALSE(data.is_discarded());
  EXPECT_FALSE(data.contains("map"));
  for (const json& layer : data["layers"])
    for (const json& head : layer["heads"]) EXPECT_EQ(head["slots"], data["tokens"]["held"]);
}

TEST(Inspect, SaysAtOnceThatAPageCannotBeWritten) {
  const std::string folder = std::filesystem::path(write_file("x", "")).parent_path();
  for (const std::string& path : {folder + "/missing/page.html", folder}) {
    const Outcome outcome = run({"inspect", "-p", "x", "-o", path});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("entropyinfer: cannot save '" + path + "'")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace ei::e2e
