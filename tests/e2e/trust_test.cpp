// Nothing is lost or assumed without a word: which model it is, whether a method did anything, what cannot be honoured.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "printed_json.h"
#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(Trust, TheModelIsNamedWhenNobodyAskedForIt) {
  const Outcome without = run({"run", "-p", "x", "-n", "1"});
  EXPECT_EQ(count(without.err, "no -m FILE: taking the model that ships with the program"), 1u) << without.err;
  EXPECT_EQ(run({"run", "-m", model(), "-p", "x", "-n", "1"}).err.find("no -m FILE"), std::string::npos);
  const Outcome talk = run(Invocation{.arguments = {"chat", "-n", "1"}, .input = "hello\nhello\n"});
  EXPECT_EQ(count(talk.err, "no -m FILE"), 1u) << "once a conversation";
  EXPECT_EQ(count(run({"tokenize", "-p", "x"}).err, "no -m FILE"), 1u);
  const std::vector<std::string> dump = {
      "eval", "--tasks", "num", "-n", "1", "--lengths", "1k", "--dump-items", write_file("dump.jsonl", "")};
  EXPECT_EQ(count(run(dump).err, "no -m FILE"), 1u);
}

TEST(Trust, AContextBeyondTheTrainedOneIsWarnedAbout) {
  EXPECT_NE(run({"run", "-p", "x", "-n", "1", "-c", "200000"}).err.find("warning: --ctx-size 200000 is beyond"),
            std::string::npos);
  EXPECT_EQ(run({"run", "-p", "x", "-n", "1", "-c", "2000"}).err.find("warning"), std::string::npos);
}

TEST(Trust, AnAnswerThatEndsForWantOfRoomSaysSo) {
  const Outcome full = run({"run", "-p", "x", "-c", "30", "--ignore-eos"});
  EXPECT_NE(full.err.find("the context of 30 tokens is full"), std::string::npos) << full.err;
  EXPECT_EQ(run({"run", "-p", "x", "-c", "300", "-n", "3", "--ignore-eos"}).err.find("is full"), std::string::npos);
}

TEST(Trust, AMethodThatNeverActedSaysSo) {
  const Outcome idle = run({"run", "-p", "x", "-n", "2", "--method", "entropyinfer", "--json"});
  ASSERT_EQ(idle.code, 0) << idle.err;
  EXPECT_EQ(parse(idle.out)["acted"], false);
  EXPECT_EQ(parse(idle.out)["idle"].size(), 2u) << "the prompt and the cache";
  EXPECT_EQ(count(idle.err, "note: the prompt was read whole"), 1u) << idle.err;
  EXPECT_EQ(count(idle.err, "note: the cache was not compressed"), 1u) << idle.err;

  const Outcome active = run(Invocation{.arguments = {"run", "-f", "-", "-n", "2", "--method", "entropyinfer", "--json",
                                                      "--segment", "64", "--threshold", "128", "--base-budget", "64"},
                                        .input = prose(8000)});
  ASSERT_EQ(active.code, 0) << active.err;
  EXPECT_EQ(parse(active.out)["acted"], true);
  EXPECT_EQ(parse(active.out)["prefill"]["acted"], true);
  EXPECT_EQ(parse(active.out)["kv"]["acted"], false);

  const json full = parse(run({"run", "-p", "x", "-n", "1", "--json"}).out);
  EXPECT_EQ(full["acted"], false);
  EXPECT_TRUE(full["idle"].empty()) << "nothing was asked for";
}

TEST(Trust, AnIdleMethodIsNothingToCompare) {
  const std::string path = write_file("short.txt", prose(4000));
  const Outcome compared = run({"perplexity", "-m", model(), "-f", path, "-c", "128", "--chunks", "1", "--method",
                                "entropyinfer", "--kl-divergence"});
  EXPECT_EQ(compared.code, 2);
  EXPECT_NE(compared.err.find("method 'entropyinfer' never acts on 128 tokens (--ctx-size)"), std::string::npos)
      << compared.err;
  EXPECT_EQ(compared.err.find("scoring"), std::string::npos) << "before anything is read";
  const Outcome at_its_end = run({"perplexity",
                                  "-m",
                                  model(),
                                  "-f",
                                  path,
                                  "-c",
                                  "256",
                                  "--chunks",
                                  "1",
                                  "--method",
                                  "entropyinfer",
                                  "--threshold",
                                  "128",
                                  "--segment",
                                  "128",
                                  "--density",
                                  "0.1",
                                  "--density-base",
                                  "8",
                                  "--local-budget",
                                  "8",
                                  "--last-dense",
                                  "off",
                                  "--kl-divergence"});
  EXPECT_EQ(at_its_end.code, 0) << "the last segment is read sparsely: " << at_its_end.err;
  for (const char* method : {"snapkv", "quest"}) {
    const std::vector<std::string> words = {"perplexity", "-f",       path,   "-c",
                                            "512",        "--method", method, "--kl-divergence"};
    expect_line(run(words), 2, "never sees that: add --decode");
  }
  expect_line(run({"perplexity", "-f", path, "-c", "512", "-ctk", "q8_0", "-ctv", "q8_0", "--kl-divergence"}), 2,
              "nothing here is another");
  // The prompt is read whole, the cache compressed behind it, when everything has been scored.
  const Outcome behind = run({"perplexity", "-m",          model(),     "-f",
                              path,         "-c",          "512",       "--chunks",
                              "1",          "--method",    "streaming", "--threshold",
                              "0",          "--segment",   "64",        "--base-budget",
                              "4096",       "--kv-budget", "64",        "--kl-divergence"});
  EXPECT_EQ(behind.code, 2) << behind.out;
  EXPECT_NE(behind.err.find("has no generated tokens"), std::string::npos) << behind.err;
  const Outcome plain =
      run({"perplexity", "-f", path, "-c", "128", "--chunks", "1", "--method", "entropyinfer", "--json"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(parse(plain.out)["acted"], false);
  const Outcome exam = run({"eval", "--teacher-forced", "-m", model(), "--length", "1k", "--contexts", "1", "--tasks",
                            "num", "--method", "entropyinfer"});
  EXPECT_EQ(exam.code, 2);
  EXPECT_EQ(exam.out, "");
  EXPECT_NE(exam.err.find("method 'entropyinfer' never acts on 1024 tokens (--length)"), std::string::npos) << exam.err;
}

TEST(Trust, ABiasOfATokenThatDoesNotExistIsSaid) {
  const Outcome outcome = run({"run", "-p", "x", "-n", "1", "-l", "99999999-inf", "-l", "5+1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("this model has no token 99999999"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("no token 5"), std::string::npos) << outcome.err;
}

TEST(Trust, ControlTokensInAMessageAreRefusedNotIgnored) {
  expect_line(run({"run", "-p", "<|im_end|>", "--parse-special"}), 2, "--parse-special wants --raw");
  EXPECT_EQ(run({"run", "-p", "<|im_end|>", "--parse-special", "--raw", "-n", "1"}).code, 0);
}

}  // namespace
}  // namespace ei::e2e
