// Ctrl-C in commands that work through a list: what is finished is shown and marked, the second leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

// 3 000 000 bytes are minutes of work.
std::string long_text(size_t bytes = 3000000) { return write_file("long.txt", prose(bytes)); }

TEST(Interrupt, PerplexityIsThatOfTheChunksItHasFinished) {
  const std::vector<std::string> arguments = {"perplexity",      "-f",   long_text(),       "-c",    "256",
                                              "--kl-divergence", "--vs", "ctk=f32,ctv=f32", "--json"};
  Process process({.arguments = arguments});
  ASSERT_TRUE(process.wait_for_err("scoring:"));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const json scores = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(scores.is_discarded()) << outcome.out << outcome.err;
  EXPECT_TRUE(scores["interrupted"].get<bool>());
  const int64_t chunks = scores["chunks"];
  EXPECT_GE(chunks, 1);
  EXPECT_LT(chunks, scores["chunks_wanted"]);
  EXPECT_EQ(scores["tokens"], chunks * 127);
  // The chunk that was cut off left no trace on either side.
  std::vector<std::string> again = arguments;
  again.insert(again.end(), {"--chunks", std::to_string(chunks)});
  const Outcome whole = run(again);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const json same = json::parse(whole.out, nullptr, false);
  EXPECT_FALSE(same["interrupted"].get<bool>());
  for (const char* name : {"tokens", "ppl", "ppl_error", "ppl_vs", "mean_kld", "same_top"})
    EXPECT_EQ(scores[name], same[name]) << name;
}

TEST(Interrupt, PerplexitySaysSoInItsLineToo) {
  for (const bool decode : {false, true}) {
    std::vector<std::string> arguments = {"perplexity", "-f", long_text(), "-c", "64"};
    if (decode) arguments.emplace_back("--decode");
    Process process({.arguments = arguments});
    ASSERT_TRUE(process.wait_for_err("scoring:"));
    process.send(SIGINT);
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.code, 130) << outcome.err;
    EXPECT_TRUE(outcome.out.starts_with("PPL = ")) << outcome.out;
    EXPECT_NE(outcome.out.find("; interrupted, "), std::string::npos) << outcome.out;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
  }
}

TEST(Interrupt, TheSecondLeavesAPerplexityAndADemoAtOnce) {
  const std::string text = long_text(400000);
  const std::vector<std::vector<std::string>> commands = {{"perplexity", "-f", text, "-c", "65536", "-v"},
                                                          {"demo", "--method", "full", "--tokens", "65536", "-v"}};
  for (const std::vector<std::string>& arguments : commands) {
    for (const bool twice : {false, true}) {
      SCOPED_TRACE(arguments[0] + (twice ? ", twice" : ", once"));
      Process process({.arguments = arguments});
      ASSERT_TRUE(process.wait_for_err("loaded"));
      ASSERT_TRUE(process.wait_for_cpu(3));  // in the first prompt, that of a minute
      process.interrupt(twice);
      const Outcome outcome = process.finish();
      EXPECT_EQ(outcome.code, 130) << outcome.err;
      EXPECT_EQ(outcome.out, "");
      // The first says why there is no result; the second says nothing any more.
      EXPECT_EQ(outcome.err.find("nterrupted") == std::string::npos, twice) << outcome.err;
    }
  }
}

TEST(Interrupt, ADemoSaysHowFarItHadRead) {
  Process process({.arguments = {"demo", "--method", "full", "--tokens", "65536", "--json"}});
  ASSERT_TRUE(process.wait_for_err("reading the prompt:"));
  ASSERT_TRUE(process.wait_for_cpu(8));  // behind the first chunk
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const size_t at = outcome.err.find("Interrupted: full had read ");
  ASSERT_NE(at, std::string::npos) << outcome.err;
  EXPECT_GT(std::stoll(outcome.err.substr(at + 27)), 0) << outcome.err;
  const json object = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(object.is_discarded()) << outcome.out;
  EXPECT_TRUE(object["demo"]["interrupted"].get<bool>());
  EXPECT_FALSE(object["demo"]["right"].get<bool>());
  EXPECT_TRUE(object["runs"].empty());
}

TEST(Interrupt, ADemoShowsTheMethodsThatHaveAnswered) {
  // The answer of the first method is there; the next one reads, and others wait.
  Process process(
      {.arguments = {"demo", "--tokens", "4096", "--method", "entropyinfer,full,full,full,full,full,full,full"}});
  ASSERT_TRUE(process.wait_for_out("\n"));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const size_t names = outcome.out.find("  entropyinfer");
  ASSERT_NE(names, std::string::npos) << outcome.out;
  const std::string head = outcome.out.substr(names, outcome.out.find('\n', names) - names);
  size_t answered = 0;
  for (size_t at = head.find("full"); at != std::string::npos; at = head.find("full", at + 1)) ++answered;
  EXPECT_LT(answered, 7u) << "all of them" << outcome.out;
  for (const char* line : {"\nanswer          ", "\nfirst token     ", "\nKV cache        "})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << outcome.out;
  EXPECT_NE(outcome.err.find("Expected: "), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace ei::e2e
