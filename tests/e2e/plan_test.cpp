// run --dump-plan: the file agrees with the run, and is whole or not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

std::string story(int sentences) {
  std::string text = "The pass key is 48213. Remember it.";
  for (int i = 0; i < sentences; ++i) text += str_format(" Boat number %d went down the river to the mill.", i);
  return text + "\n\nWhat is the pass key?";
}

std::vector<json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(json::parse(line, nullptr, false));
    EXPECT_FALSE(lines.back().is_discarded()) << line;
  }
  return lines;
}

std::vector<std::string> sparse_run(const std::string& path) {
  return {"run",
          "-f",
          "-",
          "-n",
          "8",
          "--temp",
          "0",
          "--json",
          "--dump-plan",
          path,
          "--method",
          "entropyinfer",
          "--segment",
          "128",
          "--threshold",
          "256",
          "--base-budget",
          "64",
          "--early-share",
          "0"};
}

TEST(DumpPlan, HoldsTheChoiceOfEveryLayerSegmentAndKvHead) {
  const std::string path = write_file("plan.jsonl", "an older plan");
  std::vector<std::string> arguments = sparse_run(path);
  // All logits are wanted, so all rows of the last layer attend as well.
  arguments.insert(arguments.end(), {"--logits-out", write_file("plan_logits.bin", "")});
  const Outcome outcome = run(Invocation{.arguments = arguments, .input = story(100)});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("wrote " + path), std::string::npos) << outcome.err;
  const json printed = json::parse(outcome.out);
  const std::vector<json> lines = lines_of(path);
  ASSERT_GT(lines.size(), 1u);
  const json& about = lines[0];
  EXPECT_EQ(about["method"], "entropyinfer");
  EXPECT_EQ(about["options"]["segment"], 128);
  EXPECT_EQ(about["options"]["kv-policy"], "latent");
  EXPECT_EQ(about["prompt_tokens"], printed["tokens"]["prompt"]);
  EXPECT_EQ(about["density"], printed["prefill"]["density"]);
  EXPECT_EQ(about["planned_layers"], (std::vector<int>{1, 2, 3, 4, 5, 6, 7})) << "layer 0 reads everything";
  const int64_t prompt = about["prompt_tokens"];
  const int64_t segments = (prompt + 127) / 128;
  ASSERT_EQ(static_cast<int64_t>(lines.size()), 1 + 7 * segments);

  // What the file leaves out are the pairs that the run left out.
  double pairs = printed["prefill"]["pairs_dense"];
  for (size_t i = 1; i < lines.size(); ++i) {
    const json& line = lines[i];
    SCOPED_TRACE(line.dump().substr(0, 80));
    EXPECT_EQ(line["layer"], 1 + (static_cast<int64_t>(i) - 1) / segments);
    const int64_t segment = line["segment"];
    EXPECT_EQ(segment, (static_cast<int64_t>(i) - 1) % segments);
    EXPECT_EQ(line["first"], segment * 128);
    const bool dense = segment * 128 < 256 || segment + 1 == segments;
    EXPECT_EQ(line["dense"].get<bool>(), dense);
    EXPECT_EQ(line.contains("blocks"), !dense);
    for (const char* list : {"entropy", "class", "kind", "budget", "count"}) ASSERT_EQ(line[list].size(), 2u) << list;
    for (size_t h = 0; h < 2; ++h) {
      EXPECT_TRUE(line["class"][h] == "rigid" || line["class"][h] == "dynamic") << line["class"][h];
      const int64_t count = line["count"][h];
      if (dense) {
        EXPECT_EQ(count, segment * 16);
        continue;
      }
      const std::vector<int64_t> blocks = line["blocks"][h];
      EXPECT_EQ(static_cast<int64_t>(blocks.size()), count);
      EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
      for (const int64_t block : blocks) EXPECT_TRUE(block >= 0 && block < segment * 16) << "from the future";
      EXPECT_GT(count, 0);
      pairs -= 128.0 * static_cast<double>(segment * 128 - count * 8);
    }
  }
  EXPECT_EQ(pairs, printed["prefill"]["pairs"]);
}

TEST(DumpPlan, OfADenseMethodSaysThatNothingWasPlanned) {
  const std::string path = write_file("dense.jsonl", "");
  const Outcome outcome = run({"run", "-p", "The river runs down.", "-n", "1", "--dump-plan", path});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["method"], "full");
  EXPECT_TRUE(lines[0]["planned_layers"].empty());
}

TEST(DumpPlan, SaysAtOnceThatAFileCannotBeWritten) {
  const std::string folder = std::filesystem::path(write_file("x", "")).parent_path();
  for (const std::string& path : {folder + "/missing/plan.jsonl", folder}) {
    const Outcome outcome = run({"run", "-p", "x", "--dump-plan", path});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("entropyinfer: cannot save '" + path + "'")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(DumpPlan, LeavesAnOlderFileAloneWhenThePromptIsInterrupted) {
  const std::string path = write_file("older.jsonl", "an older plan\n");
  std::vector<std::string> arguments = sparse_run(path);
  arguments.push_back("-v");
  Process process({.arguments = arguments, .input = story(20000)});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  process.send(SIGINT);
  EXPECT_EQ(process.finish().code, 130);
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "an older plan");
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path()))
    EXPECT_EQ(entry.path().filename().string().find("older.jsonl."), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace ei::e2e
