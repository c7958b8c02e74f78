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

json plan_of(const std::string& path) {
  std::ifstream file(path);
  json plan = json::parse(file, nullptr, false);
  EXPECT_FALSE(plan.is_discarded()) << path;
  return plan;
}

std::vector<std::string> sparse_run(const std::string& path) {
  return {"run",           "-f", "-",        "-n",           "8",         "--temp", "0",           "--json",
          "--dump-plan",   path, "--method", "entropyinfer", "--segment", "128",    "--threshold", "256",
          "--base-budget", "64"};
}

TEST(DumpPlan, HoldsTheChoiceOfEveryLayerSegmentAndKvHead) {
  const std::string path = write_file("plan.json", "an older plan");
  std::vector<std::string> arguments = sparse_run(path);
  // All logits are wanted, so all rows of the last layer attend as well.
  arguments.insert(arguments.end(), {"--logits-out", write_file("plan_logits.bin", "")});
  const Outcome outcome = run(Invocation{.arguments = arguments, .input = story(100)});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("wrote " + path), std::string::npos) << outcome.err;
  const json printed = json::parse(outcome.out);
  const json plan = plan_of(path);
  EXPECT_EQ(plan["method"], "entropyinfer");
  EXPECT_EQ(plan["options"]["segment"], 128);
  EXPECT_EQ(plan["options"]["budget-rule"], "entropy");
  EXPECT_FALSE(plan["options"].contains("alpha")) << "nothing reads it";
  EXPECT_EQ(plan["options"]["kv-policy"], "latent");
  EXPECT_EQ(plan["prompt_tokens"], printed["tokens"]["prompt"]);
  EXPECT_EQ(plan["density"], printed["prefill"]["density"]);
  const int64_t prompt = plan["prompt_tokens"];
  const auto segments = static_cast<size_t>((prompt + 127) / 128);
  const char* const by_head[] = {"entropies", "row_entropies", "far",    "sink",  "types",
                                 "classes",   "budgets",       "counts", "blocks"};
  for (const char* list : by_head) ASSERT_EQ(plan[list].size(), 8u) << list;

  // What the file leaves out are the pairs that the run left out.
  double pairs = printed["prefill"]["pairs_dense"];
  for (size_t layer = 0; layer < 8; ++layer) {
    ASSERT_EQ(plan["segments"][layer].size(), segments);
    ASSERT_EQ(plan["dense"][layer].size(), segments);
    for (const char* list : by_head) ASSERT_EQ(plan[list][layer].size(), 2u) << list;
    for (size_t h = 0; h < 2; ++h) {
      for (const char* list : by_head) ASSERT_EQ(plan[list][layer][h].size(), segments) << list;
      for (size_t i = 0; i < segments; ++i) {
        SCOPED_TRACE(str_format("layer %zu, kv_head %zu, segment %zu", layer, h, i));
        EXPECT_EQ(plan["segments"][layer][i], i);
        const bool dense = i * 128 < 256 || i + 1 == segments;
        EXPECT_EQ(plan["dense"][layer][i].get<bool>(), dense);
        const json& name = plan["classes"][layer][h][i];
        EXPECT_TRUE(name == "rigid" || name == "dynamic") << name;
        const size_t count = plan["counts"][layer][h][i];
        const std::vector<size_t> blocks = plan["blocks"][layer][h][i];
        EXPECT_EQ(blocks.size(), dense ? 0 : count);
        if (dense) {
          EXPECT_EQ(count, i * 16);
          continue;
        }
        EXPECT_EQ(plan["budgets"][layer][h][i].get<size_t>(), count * 8) << "what is in force";
        EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
        for (const size_t block : blocks) EXPECT_LT(block, i * 16) << "from the future";
        EXPECT_GT(count, 0u);
        pairs -= 128.0 * static_cast<double>(i * 128 - count * 8);
      }
    }
  }
  EXPECT_EQ(pairs, printed["prefill"]["pairs"]);
}

TEST(DumpPlan, OfADenseMethodSaysThatNothingWasPlanned) {
  const std::string path = write_file("dense.json", "");
  const Outcome outcome = run({"run", "-p", "The river runs down.", "-n", "1", "--dump-plan", path});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json plan = plan_of(path);
  EXPECT_EQ(plan["method"], "full");
  EXPECT_EQ(plan["budgets"], json::parse("[[],[],[],[],[],[],[],[]]"));
}

TEST(DumpPlan, SaysAtOnceThatAFileCannotBeWritten) {
  const std::string folder = std::filesystem::path(write_file("x", "")).parent_path();
  for (const std::string& path : {folder + "/missing/plan.json", folder}) {
    const Outcome outcome = run({"run", "-p", "x", "--dump-plan", path});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("entropyinfer: cannot save '" + path + "'")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(DumpPlan, LeavesAnOlderFileAloneWhenThePromptIsInterrupted) {
  const std::string path = write_file("older.json", "an older plan\n");
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
    EXPECT_EQ(entry.path().filename().string().find("older.json."), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace ei::e2e
