// What the commands promise to users and scripts: streams, JSON names, precedence, help, repeatable answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "printed_json.h"
#include "process.h"
#include "support/temp_folder.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

const char* const kQuestion = "The pass key is 48213. Remember it.\n\nWhat is the pass key?";

json run_json(std::vector<std::string> more, std::vector<std::pair<std::string, std::string>> variables = {}) {
  std::vector<std::string> arguments = {"run", "-p", kQuestion, "-n", "8", "--temp", "0", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run(Invocation{.arguments = arguments, .variables = std::move(variables)});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return parse(outcome.out);
}

TEST(Run, PrintsTheAnswerOnStdoutAndTheTimingsOnStderr) {
  const Outcome outcome = run({"run", "-m", model(), "-p", kQuestion, "-n", "8", "--temp", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "48213\n");
  for (const char* word :
       {"prompt", "generated", "first token", "density", "tokens kept", "KV cache", "memory", "peak"}) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
  }
  EXPECT_EQ(outcome.err.find('\033'), std::string::npos) << "colour without a terminal";
}

TEST(Run, JsonHasEveryName) {
  const json object = run_json({"-s", "7"});
  EXPECT_EQ(object.at("text"), "48213");
  EXPECT_EQ(object.at("finish_reason"), "stop");
  EXPECT_EQ(object.at("backend"), "cpu");
  EXPECT_EQ(object.at("method"), "full");
  EXPECT_EQ(object.at("seed"), 7);
  EXPECT_TRUE(object.at("model").is_string());
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups = {
      {"tokens", {"prompt", "generated", "cached"}},
      {"timings", {"load_ms", "prompt_ms", "ttft_ms", "predicted_ms", "prompt_per_second", "predicted_per_second"}},
      {"prefill", {"density", "pairs", "pairs_dense", "profile_ms", "plan_ms", "attention_ms", "matmul_ms"}},
      {"kv", {"bytes", "bytes_full", "tokens_kept", "tokens_total", "compressions", "evicted"}},
      {"memory", {"peak_rss_bytes", "device_bytes"}}};
  for (const auto& [group, names] : groups) {
    for (const char* name : names) EXPECT_TRUE(object.at(group).at(name).is_number()) << group << "." << name;
  }
  EXPECT_EQ(object["prefill"]["density"], 1.0);
  EXPECT_EQ(object["kv"]["tokens_kept"], object["kv"]["tokens_total"]);
  EXPECT_EQ(object["tokens"]["generated"], 5);
}

TEST(Run, ReadsAPromptSparselyWithTheOptionsOfTheMethod) {
  std::string prompt = "The pass key is 48213. Remember it.";
  for (int i = 0; i < 100; ++i) prompt += str_format(" Boat number %d went down the river to the mill.", i);
  const auto read = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "-f", "-", "-n", "8", "--temp", "0", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(Invocation{.arguments = arguments, .input = prompt + "\n\nWhat is the pass key?"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse(outcome.out);
  };
  const json sparse =
      read({"--method", "entropyinfer", "--segment", "128", "--threshold", "256", "--base-budget", "64"});
  EXPECT_EQ(sparse["text"], "48213");
  EXPECT_EQ(sparse["method"], "entropyinfer");
  EXPECT_EQ(sparse["method_options"], "base-budget=64,segment=128,threshold=256");
  EXPECT_LT(sparse["prefill"]["density"], 0.9);
  EXPECT_GT(sparse["prefill"]["profile_ms"], 0.0);
  // Every kv_head of the eight layers, with what it is and what it read.
  const json& heads = sparse["prefill"]["heads"];
  ASSERT_EQ(heads.size(), 16u);
  double read_least = 1;
  double read_most = 0;
  for (const json& head : heads) {
    EXPECT_TRUE(head["class"] == "rigid" || head["class"] == "dynamic");
    read_least = std::min(read_least, head["share_read"].get<double>());
    read_most = std::max(read_most, head["share_read"].get<double>());
  }
  EXPECT_GT(read_least, 0.0);
  EXPECT_LT(read_least, read_most) << "entropies decide";
  // The presets start at 4 096 tokens: shorter prompts lose nothing.
  const json whole = read({"--method", "entropyinfer"});
  EXPECT_EQ(whole["prefill"]["density"], 1.0);
  EXPECT_TRUE(whole["prefill"]["heads"].empty());
}

TEST(Run, TheSameSeedGivesTheSameText) {
  const std::vector<std::string> arguments = {"run", "-p", "Once upon a time", "--raw", "-n", "24", "--temp", "1.5",
                                              "-s",  "42"};
  const Outcome first = run(arguments);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, run(arguments).out);
}

TEST(Run, NothingThatOnlyDividesTheWorkChangesTheText) {
  const std::string text = run_json({"-t", "1"})["text"];
  EXPECT_EQ(run_json({"-t", "2"})["text"], text);
  EXPECT_EQ(run_json({"-b", "7"})["text"], text);
}

TEST(Run, StopsAtTheLengthAskedFor) {
  const json object = run_json({"-n", "3", "--ignore-eos"});
  EXPECT_EQ(object["finish_reason"], "length");
  EXPECT_EQ(object["tokens"]["generated"], 3);
  EXPECT_EQ(run_json({"-n", "0"})["tokens"]["generated"], 0);
}

TEST(Run, StopsWhenTheContextIsFull) {
  const int64_t prompt = run_json({"-n", "0"})["tokens"]["prompt"];
  const json object = run_json({"-n", "-1", "--ignore-eos", "-c", std::to_string(prompt + 4)});
  EXPECT_EQ(object["finish_reason"], "length");
  EXPECT_LE(object["kv"]["tokens_total"], prompt + 4);
}

TEST(Run, FollowsAGrammarAndASchema) {
  const Outcome grammar = run({"run", "-p", "Say something.", "--grammar", "root ::= \"yes\" | \"no\"", "-n", "8"});
  EXPECT_TRUE(grammar.out == "yes\n" || grammar.out == "no\n") << grammar.out << grammar.err;
  const Outcome schema = run({"run", "-p", "Say something.", "-j", R"({"enum": ["left", "right"]})", "-n", "16"});
  EXPECT_TRUE(schema.out == "\"left\"\n" || schema.out == "\"right\"\n") << schema.out << schema.err;
}

TEST(Run, ReadsThePromptFromAFileAndFromStdin) {
  const std::string path = write_file("question.txt", std::string(kQuestion) + "\n");
  const std::string expected = "48213\n";
  EXPECT_EQ(run({"run", "-f", path, "-n", "8", "--temp", "0"}).out, expected);
  const Invocation piped{.arguments = {"run", "-f", "-", "-n", "8", "--temp", "0"}, .input = kQuestion};
  EXPECT_EQ(run(piped).out, expected);
  const Invocation bare{.arguments = {"run", "-n", "8", "--temp", "0"}, .input = kQuestion};
  EXPECT_EQ(run(bare).out, expected);
}

TEST(Run, WritesTheLogitsOfEveryPosition) {
  const std::string path = write_file("logits.bin", "");
  const json object = run_json({"--logits-out", path});
  const int64_t prompt = object["tokens"]["prompt"];
  const int64_t vocab = parse(run({"info", "--json"}).out)["config"]["vocab"];
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)), prompt * vocab * 4);
  EXPECT_EQ(object["text"], "48213");
  std::FILE* file = std::fopen(path.c_str(), "rb");
  std::vector<float> logits(static_cast<size_t>(vocab));
  EXPECT_EQ(std::fread(logits.data(), 4, logits.size(), file), logits.size());
  std::fclose(file);
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
}

TEST(Settings, FlagBeatsEnvironmentBeatsConfig) {
  const std::string config = write_file("settings.conf", "seed = 1\npredict = 1\n");
  EXPECT_EQ(run_json({"--config", config})["seed"], 1);
  EXPECT_EQ(run_json({"--config", config}, {{"EI_ARG_SEED", "2"}})["seed"], 2);
  EXPECT_EQ(run_json({"--config", config, "-s", "3"}, {{"EI_ARG_SEED", "2"}})["seed"], 3);
  EXPECT_EQ(run_json({}, {{"EI_ARG_CONFIG", config}})["seed"], 1);
}

TEST(Settings, ColourCanBeForced) {
  const Outcome outcome = run({"run", "-p", "x", "-n", "1", "--color", "on"});
  EXPECT_NE(outcome.err.find('\033'), std::string::npos);
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos);
}

TEST(PromptCacheFile, SparesReadingTheSameTextAgain) {
  const kv::TempFolder folder;
  const std::string path = folder.file("prompt.cache");
  const auto ask = [&](const char* question) {
    return run({"run", "--json", "--temp", "0", "-n", "8", "--prompt-cache", path.c_str(), "-p", question});
  };
  const Outcome first = ask("The pass key is 48213. Remember it. What is the pass key?");
  ASSERT_EQ(first.code, 0) << first.err;
  const json told = json::parse(first.out);
  EXPECT_EQ(told["tokens"]["cached"], 0);
  const json again = json::parse(ask("The pass key is 48213. Remember it. What is the pass key?").out);
  EXPECT_EQ(again["text"], told["text"]);
  EXPECT_EQ(again["tokens"]["cached"], told["tokens"]["prompt"].get<int>() - 1);
  const json other = json::parse(ask("The pass key is 48213. Remember it. And who asks?").out);
  EXPECT_GT(other["tokens"]["cached"], 5);
  kv::write_all(path, {'n', 'o'});
  const Outcome bad = ask("x");
  EXPECT_NE(bad.code, 0);
  EXPECT_NE(bad.err.find("prompt.cache"), std::string::npos);
  EXPECT_EQ(kv::read_all(path).size(), 2u) << "what could not be read is not replaced";
  EXPECT_EQ(run({"run", "-p", "x", "--prompt-cache", folder.file("no/such/folder").c_str()}).code, 1);
}

TEST(Chat, KeepsEarlierTurnsInTheCache) {
  const Outcome outcome = run(Invocation{.arguments = {"chat", "--json", "--temp", "0", "-n", "8"},
                                         .input = "The pass key is 48213. Remember it. What is the pass key?\n"
                                                  "And what is \\\nthe pass key?\n/clear\nhello\n/exit\nnever read\n"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> turns = parse_lines(outcome.out);
  ASSERT_EQ(turns.size(), 3u) << outcome.out;
  EXPECT_EQ(turns[0]["tokens"]["cached"], 0);
  EXPECT_GE(turns[1]["tokens"]["cached"], turns[0]["tokens"]["prompt"]);
  EXPECT_LT(turns[2]["tokens"]["prompt"], turns[1]["tokens"]["prompt"]);
}

TEST(Chat, AnswersASingleTurn) {
  const Outcome outcome = run(Invocation{.arguments = {"chat", "-st", "--temp", "0", "-n", "8"}, .input = kQuestion});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "48213\n");
}

TEST(Run, TakesTheSingleTurnFlagOfLlamaCpp) {
  for (const char* flag : {"-st", "--single-turn"}) {
    const Outcome outcome = run({"run", flag, "-p", kQuestion, "-n", "8", "--temp", "0"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "48213\n");
  }
}

TEST(Tokenize, PrintsIdsPiecesAndJson) {
  const json object = parse(run({"tokenize", "-p", "hello there", "--json"}).out);
  EXPECT_EQ(object["count"], object["tokens"].size());
  EXPECT_EQ(parse(run({"tokenize", "-p", "hello there", "--ids"}).out), object["tokens"]);
  const Invocation piped{.arguments = {"tokenize", "--ids"}, .input = "hello there"};
  EXPECT_EQ(parse(run(piped).out), object["tokens"]);
}

TEST(Tokenize, ReadsSpecialTokensOnlyWhenAsked) {
  const json plain = parse(run({"tokenize", "-p", "<|im_end|>", "--no-bos", "--ids"}).out);
  const json special = parse(run({"tokenize", "-p", "<|im_end|>", "--no-bos", "--parse-special", "--ids"}).out);
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(special.size(), 1u);
}

TEST(Bench, RowsCarryLlamaBenchNames) {
  const Outcome outcome = run({"bench", "-p", "16,32", "-n", "2", "-d", "0,8", "-r", "2", "-o", "json", "--no-warmup"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json rows = parse(outcome.out);
  ASSERT_EQ(rows.size(), 6u);
  for (const char* name :
       {"n_prompt",   "n_gen",    "n_depth",        "n_threads",    "avg_ns",   "stddev_ns",  "avg_ts",  "stddev_ts",
        "samples_ns", "method",   "method_options", "backend",      "density",  "profile_ms", "plan_ms", "attention_ms",
        "matmul_ms",  "kv_bytes", "peak_rss_bytes", "build_commit", "cpu_info", "gpu_info"}) {
    for (const json& row : rows) EXPECT_TRUE(row.contains(name)) << name;
  }
  EXPECT_EQ(rows[1]["n_prompt"], 32);
  EXPECT_EQ(rows[2]["n_gen"], 2);
  EXPECT_EQ(rows[3]["n_depth"], 8);
  EXPECT_EQ(rows[0]["samples_ns"].size(), 2u);
  for (const json& row : rows) EXPECT_GE(row["n_batch"], 1024) << "the chunk that was really used";
  const Outcome lines = run({"bench", "-p", "8", "-n", "0", "-r", "1", "-o", "jsonl"});
  EXPECT_EQ(parse(lines.out)["n_prompt"], 8);
  EXPECT_EQ(parse(run({"bench", "-p", "8", "-n", "0", "-r", "1", "--json"}).out).at(0)["n_prompt"], 8);
  EXPECT_NE(run({"bench", "-p", "8", "-n", "0", "-r", "1"}).out.find("pp8"), std::string::npos);
  EXPECT_TRUE(run({"bench", "-p", "8", "-n", "0", "-r", "1", "-o", "csv"}).out.starts_with("build_commit,"));
}

TEST(Perplexity, IsThatOfGuessingOnNoiseAndZeroDivergenceFromItself) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "The miller went down to the river and counted the boats. ";
  const std::string path = write_file("prose.txt", text);
  const Outcome plain = run({"perplexity", "-f", path, "-c", "64", "--chunks", "2", "--json"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  const json scores = parse(plain.out);
  EXPECT_EQ(scores["chunks"], 2);
  EXPECT_EQ(scores["tokens"], 2 * 31);
  EXPECT_GT(scores["ppl"], 1.0);
  EXPECT_LT(scores["ppl"], 4096.0);
  EXPECT_NE(run({"perplexity", "-f", path, "-c", "64", "--chunks", "1"}).out.find("(31 tokens in 1 chunk of 64)"),
            std::string::npos);
  const json same = parse(
      run({"perplexity", "-f", path, "-c", "64", "--chunks", "1", "--kl-divergence", "--vs", "b=7", "--json"}).out);
  EXPECT_LT(same["mean_kld"], 1e-3);
  const json other = parse(run({"perplexity", "-f", path, "-c", "64", "--chunks", "1", "-ctk", "f32", "-ctv", "f32",
                                "--kl-divergence", "--vs", "ctk=bf16,ctv=bf16", "--json"})
                               .out);
  EXPECT_GT(other["mean_kld"], 0.0);
  EXPECT_LT(other["mean_kld"], 0.01);
  EXPECT_GE(other["same_top"], 0.9);
  const json quantised = parse(run({"perplexity", "-f", path, "-c", "64", "--chunks", "1", "-ctk", "q8_0", "-ctv",
                                    "q8_0", "--kl-divergence", "--vs", "ctk=f16,ctv=f16", "--json"})
                                   .out);
  EXPECT_GT(quantised["mean_kld"], 0.0);
  EXPECT_LT(quantised["mean_kld"], 0.01);
  const json sparse = parse(run({"perplexity", "-f", path, "-c", "512", "--chunks", "1", "--kl-divergence", "--method",
                                 "streaming", "--segment", "64", "--threshold", "64", "--base-budget", "64", "--json"})
                                .out);
  EXPECT_EQ(sparse["vs"], "method=full,kv-policy=full") << "when nothing else is said";
}

TEST(Eval, WritesOneLinePerQuestionAndASummaryOfBothSides) {
  const std::vector<std::string> sparse = {"--method",    "entropyinfer", "--segment",     "128",
                                           "--threshold", "256",          "--base-budget", "64"};
  std::vector<std::string> arguments = {"eval", "--teacher-forced", "--length",  "1536",  "--contexts",
                                        "1",    "--tasks",          "num,multi", "--json"};
  arguments.insert(arguments.end(), sparse.begin(), sparse.end());
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> lines = parse_lines(outcome.out);
  ASSERT_EQ(lines.size(), 5u) << outcome.out;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines[i]["length"], 1536);
    EXPECT_EQ(lines[i]["method"], i < 2 ? "full" : "entropyinfer");
    EXPECT_EQ(lines[i]["score"] == 1, lines[i]["prediction"] == lines[i]["answer"]) << lines[i];
    for (const char* name : {"density", "kv_bytes", "compressions"}) EXPECT_TRUE(lines[i][name].is_number()) << name;
  }
  const json& summary = lines[4];
  EXPECT_EQ(summary["vs"]["method"], "full");
  EXPECT_EQ(summary["vs"]["density"], 1.0);
  EXPECT_EQ(summary["vs"]["tasks"]["num"]["right"], 1);
  EXPECT_EQ(summary["tested"]["method_options"], "base-budget=64,segment=128,threshold=256");
  EXPECT_EQ(summary["tested"]["tasks"]["multi"]["total"], 1);
  EXPECT_LT(summary["tested"]["density"], 0.9);
  EXPECT_GT(summary["tested"]["profile_ms"], 0.0);
  EXPECT_GT(summary["mean_kld"], 0.0);
  EXPECT_GT(summary["positions"], 50);
  for (const char* name : {"mean_kld_error", "same_top", "same_top_error"}) EXPECT_TRUE(summary[name].is_number());
  for (const char* name : {"ppl", "ppl_error", "prompt_ms", "plan_ms", "choosing_share"}) {
    EXPECT_TRUE(summary["tested"][name].is_number()) << name;
    EXPECT_TRUE(summary["vs"][name].is_number()) << name;
  }
}

TEST(Eval, TestsFurtherSettingsOnTheSameTexts) {
  const std::vector<std::string> common = {
      "eval",     "--teacher-forced", "--length",  "1536", "--contexts",  "1",   "--tasks",       "num",
      "--method", "entropyinfer",     "--segment", "128",  "--threshold", "256", "--base-budget", "64"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run(more);
  };
  const Outcome both = with({"--also", "base-budget=512,block=16;budget-rule=fixed", "--json"});
  const Outcome alone = with({"--base-budget", "512", "--block", "16", "--json"});
  ASSERT_EQ(both.code, 0) << both.err;
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::vector<json> lines = parse_lines(both.out);
  ASSERT_EQ(lines.size(), 7u) << both.out;  // four answers, three summaries
  EXPECT_EQ(lines[4]["tested"]["method_options"], "base-budget=64,segment=128,threshold=256");
  EXPECT_EQ(lines[6]["tested"]["method_options"], "base-budget=64,budget-rule=fixed,segment=128,threshold=256");
  const json& further = lines[5];
  const json expected = parse_lines(alone.out).back();
  EXPECT_EQ(further["tested"]["method_options"], expected["tested"]["method_options"]);
  EXPECT_EQ(further["mean_kld"], expected["mean_kld"]);
  EXPECT_LT(further["mean_kld"], lines[4]["mean_kld"]);
  EXPECT_EQ(further["tested"]["density"], expected["tested"]["density"]);
  const Outcome table = with({"--also", "budget-rule=fixed"});
  EXPECT_NE(table.out.find("budget-rule=fixed"), std::string::npos) << table.out;
  for (const char* wrong : {"length=2048", "threads=1", "also=block=16", "base-budget", "no-such=1", ";"}) {
    const Outcome outcome = with({"--also", wrong});
    EXPECT_EQ(outcome.code, 2) << wrong;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Eval, ShowsATableAndTakesATextFromOutside) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += str_format("Boat %d went down the river to the old mill. ", i);
  const std::string path = write_file("haystack.txt", text);
  const Outcome outcome = run(
      {"eval", "--teacher-forced", "--length", "1024", "--contexts", "1", "--tasks", "num,pass", "--haystack", path});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* word : {"| num ", "| pass ", "1.00 (1/1)", "perplexity", "density", "time per text"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
  EXPECT_EQ(outcome.out.find("KLD"), std::string::npos) << "nothing to compare full with";
}

}  // namespace
}  // namespace ei::e2e
