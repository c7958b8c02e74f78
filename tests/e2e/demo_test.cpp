// The demo: one text, several ways to read it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

TEST(Demo, FindsTheFactWithFullAndWithSparseAttention) {
  const Outcome outcome = run({"demo", "--tokens", "2048", "--seed", "3", "--json", "--segment", "128", "--threshold",
                               "512", "--base-budget", "256"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json object = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(object.is_discarded()) << outcome.out;
  EXPECT_TRUE(object["demo"]["right"].get<bool>()) << outcome.out;
  ASSERT_EQ(object["runs"].size(), 2u);
  EXPECT_EQ(object["runs"][0]["method"], "full");
  EXPECT_EQ(object["runs"][0]["prefill"]["density"], 1.0);
  EXPECT_EQ(object["runs"][0]["speed_up"], 1.0);
  EXPECT_EQ(object["runs"][1]["method"], "entropyinfer");
  EXPECT_LT(object["runs"][1]["prefill"]["density"], 1.0);
  EXPECT_EQ(object["runs"][1]["text"], object["runs"][0]["text"]);
  EXPECT_EQ(object["runs"][0]["kv_bytes_later"], object["runs"][0]["kv"]["bytes"]);
  EXPECT_LT(object["runs"][1]["kv_bytes_later"], object["runs"][1]["kv"]["bytes"]) << "the cache is compressed";
  EXPECT_FALSE(object["demo"]["interrupted"].get<bool>());
  EXPECT_EQ(object["runs"][0]["kv_tokens_later"], object["runs"][0]["kv"]["tokens_total"]);
  EXPECT_LE(object["runs"][1]["kv_tokens_later"], 1024 + 2048 / 10 + 64);
  const std::string all = std::to_string(object["runs"][0]["kv"]["tokens_total"].get<int64_t>());
  EXPECT_NE(outcome.err.find(all + " of " + all + " tokens"), std::string::npos) << outcome.err;
  for (const char* word : {"Question:", "✓", "first token", "speed-up", "attention read", "KV cache", "program", " x"})
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
}

// The estimate is of this machine, quiet or not: it is held to the right order only.
TEST(Demo, ForetellsHowLongFullAttentionTakes) {
  const Outcome outcome = run({"demo", "--tokens", "8192", "--method", "full", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string words = "8192 tokens with full attention take about ";
  const size_t found = outcome.err.find(words);
  ASSERT_NE(found, std::string::npos) << outcome.err;
  EXPECT_LT(found, outcome.err.find("A chronicle of")) << "it comes before the reading";
  const double minutes_or_seconds = std::stod(outcome.err.substr(found + words.size()));
  const bool minutes = outcome.err.find("min", found) < outcome.err.find("here", found);
  const double estimate = minutes_or_seconds * (minutes ? 60 : 1);
  const double taken = json::parse(outcome.out)["runs"][0]["timings"]["prompt_ms"].get<double>() / 1e3;
  EXPECT_GT(estimate, taken / 5);
  EXPECT_LT(estimate, taken * 5);
  EXPECT_EQ(run({"demo", "--tokens", "1024", "--method", "full"}).err.find("Estimate"), std::string::npos);
}

TEST(Demo, SaysWhereAMethodLeftNothingOut) {
  const Outcome outcome = run({"demo", "--tokens", "700", "--seed", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("note: entropyinfer: the prompt was read whole"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("note: entropyinfer: the cache was not compressed"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("note: full"), std::string::npos) << outcome.err;
}

TEST(Demo, ReadsWithTheMethodAskedForAlone) {
  const Outcome outcome = run({"demo", "--tokens", "1024", "--method", "full"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("entropyinfer"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out.find("entropyinfer"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\nfirst token"), std::string::npos) << "the table goes with the answer: " << outcome.out;
}

}  // namespace
}  // namespace ei::e2e
