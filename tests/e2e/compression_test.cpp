// KV compression as users meet it: what run, chat and bench do and say.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "printed_json.h"
#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

TEST(Compression, IsReportedByRun) {
  std::string prompt = "The pass key is 48213. Remember it.";
  for (int i = 0; i < 40; ++i) prompt += str_format(" Boat number %d went down the river to the mill.", i);
  const Outcome outcome =
      run(Invocation{.arguments = {"run", "-f", "-", "-n", "40", "--ignore-eos", "--temp", "0", "--json", "--kv-policy",
                                   "latent", "--kv-budget", "128", "--kv-gap", "4", "--kv-repeat", "16"},
                     .input = prompt + "\n\nWhat is the pass key?"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json kv = parse(outcome.out)["kv"];
  EXPECT_EQ(kv["compressions"], 3);  // after 4, 20 and 36 of the 39 tokens fed
  EXPECT_GT(kv["evicted"], 0);
  EXPECT_LE(kv["tokens_kept"], 128 + 16);
  EXPECT_LT(kv["bytes"], kv["bytes_full"]);
  for (const char* name : {"compress_ms", "full_per_second", "compressed_per_second"}) EXPECT_GT(kv[name], 0.0) << name;
  EXPECT_NE(outcome.err.find("compressed 3 times"), std::string::npos) << outcome.err;
}

TEST(Compression, ACtrlCInACompressedAnswerPrintsWhatThereIs) {
  // Compressed at every token, so that the signal comes in front of, during or behind a compression. What is waited for
  // is written on every machine.
  std::string prompt = "Tell me about the river.";
  for (int i = 0; i < 20; ++i) prompt += str_format(" Boat number %d went down to the mill.", i);
  Process process({.arguments = {"run", "-f", "-", "-n", "100000", "--ignore-eos", "--grammar", "root ::= (\" and \")+",
                                 "--kv-policy", "latent", "--kv-budget", "64", "--kv-window", "16", "--kv-gap", "1",
                                 "--kv-repeat", "1"},
                   .input = prompt});
  ASSERT_TRUE(process.wait_for_out(" and "));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_NE(outcome.out.find_first_not_of(' '), std::string::npos);
  EXPECT_NE(outcome.err.find("compressed "), std::string::npos) << outcome.err;
}

// Two facts in one text, a question about each: the second must not be lost to the first.
TEST(Compression, ChatKeepsTheTextForLaterQuestions) {
  std::string message = "The pass key is 48213. Remember it.";
  for (int i = 0; i < 30; ++i) message += str_format(" Boat number %d went down the river to the mill.", i);
  message += " What did the boats do?\n";
  const auto talk = [&](std::vector<std::string> flags) {
    std::vector<std::string> words = {"chat", "--json", "--temp", "0", "-n", "24"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(Invocation{.arguments = words, .input = message + "What is the pass key?\n"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<json> turns = parse_lines(outcome.out);
    EXPECT_EQ(turns.size(), 2u) << outcome.out;
    turns.push_back(outcome.err);
    return turns;
  };
  const std::vector<std::string> small = {"--kv-policy", "latent", "--kv-budget", "64", "--kv-gap", "4"};
  const std::vector<json> kept = talk(small);
  EXPECT_EQ(kept[0]["kv"]["compressions"], 1);
  EXPECT_EQ(kept[0]["kv"]["whole_kept"], true);
  EXPECT_LE(kept[0]["kv"]["tokens_kept"], 64 + 24);
  EXPECT_GT(kept[1]["tokens"]["cached"], 300) << "the whole text is still there";
  EXPECT_EQ(kept[1]["text"], talk({})[1]["text"]) << "as full attention answers";
  EXPECT_NE(kept[1]["text"].get<std::string>().find("48213"), std::string::npos) << kept[1]["text"];
  EXPECT_NE(kept[2].get<std::string>().find("stays for later turns"), std::string::npos);
  std::vector<std::string> freeing = small;
  freeing.emplace_back("--kv-free");
  const std::vector<json> freed = talk(freeing);
  EXPECT_EQ(freed[0]["kv"]["whole_kept"], false);
  EXPECT_LT(freed[0]["kv"]["bytes"], kept[0]["kv"]["bytes"]);
  EXPECT_NE(freed[2].get<std::string>().find("later questions"), std::string::npos) << "a warning line";
}

TEST(Compression, ChatReadsAgainWhatTheCacheCannotBeRewoundTo) {
  std::string message = "The pass key is 48213. Remember it.";
  for (int i = 0; i < 20; ++i) message += str_format(" Boat number %d went down the river to the mill.", i);
  message += " What is the pass key?\n";
  const Outcome outcome = run(Invocation{.arguments = {"chat", "--json", "--temp", "0", "-n", "4", "--kv-policy",
                                                       "latent", "--kv-budget", "64", "--kv-gap", "-1", "--kv-free"},
                                         .input = message + message + "/clear\n" + message});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> turns = parse_lines(outcome.out);
  ASSERT_EQ(turns.size(), 3u) << outcome.out;
  for (const json& turn : turns) EXPECT_LE(turn["kv"]["tokens_kept"], 64 + 4);
  // The second turn goes on over the survivors. The third is the first again: its tokens are in the cache, but with
  // gaps.
  EXPECT_GT(turns[1]["tokens"]["cached"], 64);
  EXPECT_LE(turns[2]["tokens"]["cached"], 64);
  EXPECT_EQ(turns[2]["text"], turns[0]["text"]);
}

TEST(Compression, BenchTimesTheCompressedCache) {
  const Outcome outcome = run({"bench", "-p", "0", "-n", "4", "-d", "200", "-r", "2", "-o", "jsonl", "--method",
                               "entropyinfer", "--kv-budget", "64", "--kv-gap", "8"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json row = parse(outcome.out);
  EXPECT_EQ(row["compressions"], 1);
  EXPECT_GT(row["evicted"], 0);
  EXPECT_EQ(row["compress_ms"], 0.0);
  const json full = parse(run({"bench", "-p", "0", "-n", "4", "-d", "200", "-r", "1", "-o", "jsonl"}).out);
  EXPECT_EQ(full["compressions"], 0);
  EXPECT_LT(row["kv_bytes"], full["kv_bytes"]);
  // A prompt at a depth that was compressed away is read again from the start each time.
  const Outcome prompts = run({"bench", "-p", "64", "-n", "0", "-d", "200", "-r", "2", "-o", "jsonl", "--kv-policy",
                               "latent", "--kv-budget", "64", "--kv-gap", "-1"});
  EXPECT_EQ(prompts.code, 0) << prompts.err;
}

TEST(Compression, PerplexityShowsWhatItCosts) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += str_format("The miller counted %d boats on the river. ", i);
  const auto divergence = [&](const char* vs) {
    const Outcome outcome = run(Invocation{.arguments = {"perplexity", "-f", "-", "-c", "256", "--chunks", "1",
                                                         "--decode", "--json", "--kl-divergence", "--vs", vs},
                                           .input = text});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(parse(outcome.out)["tokens"], 127);
    return parse(outcome.out)["mean_kld"].get<double>();
  };
  EXPECT_EQ(divergence("kv-policy=latent,kv-budget=300"), 0.0);
  const double small = divergence("kv-policy=latent,kv-budget=40");
  EXPECT_GT(small, 1e-4);
  EXPECT_LT(divergence("kv-policy=latent,kv-budget=120"), small);
}

TEST(Compression, IsSeenByPositionWithASparsePrompt) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += str_format("The miller counted %d boats on the river. ", i);
  const Outcome outcome = run(Invocation{.arguments = {"perplexity",
                                                       "-f",
                                                       "-",
                                                       "-c",
                                                       "2048",
                                                       "--chunks",
                                                       "1",
                                                       "--decode",
                                                       "--decode-tokens",
                                                       "100",
                                                       "--method",
                                                       "entropyinfer",
                                                       "--segment",
                                                       "128",
                                                       "--threshold",
                                                       "256",
                                                       "--base-budget",
                                                       "64",
                                                       "--kv-budget",
                                                       "64",
                                                       "--kv-gap",
                                                       "32",
                                                       "--kl-divergence",
                                                       "--json"},
                                         .input = text});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json scores = parse(outcome.out);
  EXPECT_EQ(scores["tokens"], 100);
  EXPECT_EQ(scores["unscored"], 1948);
  ASSERT_EQ(scores["by_position"].size(), 3u) << outcome.out;
  const json& before = scores["by_position"][0];
  EXPECT_EQ(before["first"], 1948);
  EXPECT_EQ(before["tokens"], 32);
  EXPECT_EQ(before["compressed"], 0) << "the gap";
  EXPECT_GT(before["mean_kld"], 0.0) << "the sparse prompt alone";
  const json& behind = scores["by_position"][2];
  EXPECT_EQ(behind["end"], 2048);
  EXPECT_EQ(behind["compressed"], behind["tokens"]);
  EXPECT_GT(behind["mean_kld"], before["mean_kld"]) << "both";
  double weighed = 0;
  for (const json& bucket : scores["by_position"])
    weighed += bucket["mean_kld"].get<double>() * bucket["tokens"].get<double>();
  EXPECT_NEAR(weighed / 100, scores["mean_kld"].get<double>(), 1e-9) << "the buckets are all of it";
}

TEST(Perplexity, CountsEveryNthTokenOfAReadingByPosition) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += str_format("The miller counted %d boats on the river. ", i);
  const auto scores_at = [&](const char* stride) {
    const Outcome outcome = run(Invocation{
        .arguments = {"perplexity", "-f", "-", "-c", "1024", "--chunks", "1", "--stride", stride, "--kl-divergence",
                      "--vs", "ctk=bf16,ctv=bf16", "-ctk", "f32", "-ctv", "f32", "--json"},
        .input = text});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse(outcome.out);
  };
  const json all = scores_at("1");
  EXPECT_EQ(all["tokens"], 511);
  EXPECT_EQ(all["by_position"].size(), 8u);
  EXPECT_EQ(all["by_position"][0]["first"], 513);
  EXPECT_EQ(all["by_position"][7]["end"], 1024);
  EXPECT_EQ(scores_at("7")["tokens"], 73);
}

}  // namespace
}  // namespace ei::e2e
