// eval: answers are generated, the same items for every method, and a run that was killed goes on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/result.h"
#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

class GeneratedEval : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / str_format("ei_eval_%d", ::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string out() const { return (folder_ / "run").string(); }
  std::string items() const { return contents(out() + "/items.jsonl"); }
  std::vector<std::string> arguments(std::vector<std::string> more) const {
    std::vector<std::string> all = {"eval", "--lengths", "1k", "-t", "1", "--out", out()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::filesystem::path folder_;
};

// Without the conditions in the first line.
std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    json object = json::parse(line);
    if (object.contains("item")) lines.push_back(std::move(object));
  }
  return lines;
}

// What of a result does not depend on when it was made.
std::map<std::pair<std::string, std::string>, json> answers_of(const std::string& text) {
  std::map<std::pair<std::string, std::string>, json> answers;
  for (const json& line : lines_of(text))
    answers[{line["item"], line["method"]}] = {line["predictions"], line["kv_bytes"], line["kv_bytes_peak"]};
  return answers;
}

TEST_F(GeneratedEval, AnswersAtTheSameTimeAreThoseOneAfterAnother) {
  const std::vector<std::string> asked = {
      "--tasks",     "num,list",
      "--kv-budget", "20%",
      "-n",          "1",
      "--methods",   "full,snapkv,entropy-kv:kv-layers=entropy-shuffled:kv-seed=2,h2o,streaming"};
  ASSERT_EQ(run(arguments(asked)).code, 0);
  const auto one_by_one = answers_of(items());
  std::filesystem::remove_all(folder_);
  std::vector<std::string> together = asked;
  together.insert(together.end(), {"--parallel", "3"});
  const Outcome outcome = run(arguments(together));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(answers_of(items()), one_by_one);
  EXPECT_EQ(one_by_one.size(), 10u);
  // The most that was held is the whole prompt, and less is left of it.
  const json full = one_by_one.at({"num/1024/0", "full"});
  const json compressed = one_by_one.at({"num/1024/0", "snapkv:kv-budget=20%"});
  EXPECT_LT(compressed[1], full[1]);
  EXPECT_EQ(compressed[2], full[2]);
}

TEST_F(GeneratedEval, AnswersTheSameItemsWithEveryMethod) {
  const Outcome outcome = run(arguments({"--tasks", "num,list", "-n", "2", "--kv-budget", "10%", "--methods",
                                         "full,snapkv,entropyinfer:kv-gap=4:kv-window=16"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, std::set<std::string>> asked;  // item -> methods
  for (const json& line : lines_of(items())) {
    asked[line["item"]].insert(line["method"].get<std::string>());
    const bool full = line["method"] == "full";
    const double kept = line["kv_kept"];
    EXPECT_EQ(line["compressions"], full ? 0 : 1) << line;
    if (full) {
      EXPECT_EQ(kept, 1);
    } else {
      // A tenth of the prompt, and what was generated behind it.
      EXPECT_GT(kept, 0.09) << line;
      EXPECT_LT(kept, 0.18) << line;
    }
    if (full && line["task"] == "num") {
      EXPECT_EQ(line["score"], 1) << line;
    }
    EXPECT_EQ(line["predictions"].size(), 1u);
    EXPECT_LE(line["prompt_tokens"], 1024);
  }
  EXPECT_EQ(asked.size(), 4u);
  const std::set<std::string> methods = {"full", "snapkv:kv-budget=10%",
                                         "entropyinfer:kv-budget=10%:kv-gap=4:kv-window=16"};
  for (const auto& [item, by] : asked) EXPECT_EQ(by, methods) << item;
  EXPECT_EQ(contents(out() + "/summary.md"), outcome.out);
  EXPECT_NE(contents(out() + "/report.html").find("\"name\":\"snapkv:kv-budget=10%\""), std::string::npos);
  for (const char* word : {"| full | 4 |", "| num 1024 | 2 |", "| snapkv:kv-budget=10% | 4 |", "bootstrap"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << outcome.out;
}

TEST_F(GeneratedEval, SaysInWordsThatAMethodNeverActed) {
  const Outcome outcome = run(arguments(
      {"--tasks", "num", "-n", "1", "--methods", "full,entropyinfer,snapkv:kv-budget=10%,quest:kv-read=128"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, json> lines;
  for (const json& line : lines_of(items())) lines[line["method"]] = line;
  EXPECT_EQ(lines.at("full")["acted"], false);
  EXPECT_EQ(lines.at("full")["kv_idle"], "") << "nothing was asked for";
  EXPECT_EQ(lines.at("entropyinfer")["acted"], false);
  EXPECT_EQ(lines.at("snapkv:kv-budget=10%")["kv_acted"], true);
  EXPECT_EQ(lines.at("quest:kv-read=128")["kv_acted"], true) << "it reads the cache in part";
  const std::string whole = lines.at("entropyinfer")["prefill_idle"];
  const int64_t tokens = lines.at("entropyinfer")["prompt_tokens"];
  EXPECT_EQ(whole.find(str_format("the prompt was read whole: %lld tokens", static_cast<long long>(tokens))), 0u)
      << whole;
  const std::string sentence =
      "entropyinfer never acted, its scores are those of full attention (1 item; on the last: ";
  EXPECT_NE(outcome.out.find("\n- " + sentence + whole), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("snapkv:kv-budget=10% never"), std::string::npos) << outcome.out;
  const std::string page = contents(out() + "/report.html");
  EXPECT_NE(page.find("\"idle\":[\"" + sentence), std::string::npos);
  const Outcome lines_only = run(arguments({"--tasks", "num", "-n", "1", "--methods", "entropyinfer", "--json"}));
  EXPECT_NE(lines_only.err.find("note: " + sentence), std::string::npos) << lines_only.err;
}

TEST_F(GeneratedEval, GoesOnWhereItWasKilled) {
  const std::vector<std::string> words = {"--tasks", "num", "-n", "4", "--methods", "full"};
  const Outcome whole = run(arguments(words));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::string expected = items();
  // Killed in the middle of the third line.
  size_t cut = 0;
  for (int line = 0; line < 3; ++line) cut = expected.find('\n', cut) + 1;
  std::filesystem::resize_file(out() + "/items.jsonl", cut + 25);
  const Outcome again = run(arguments(words));
  ASSERT_EQ(again.code, 0) << again.err;
  const std::vector<json> before = lines_of(expected);
  const std::vector<json> after = lines_of(items());
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    for (const char* name : {"item", "predictions", "score", "kv_bytes"}) EXPECT_EQ(after[i][name], before[i][name]);
    if (i < 2) {
      EXPECT_EQ(after[i]["prompt_s"], before[i]["prompt_s"]) << "not answered again";
    }
  }
  expect_line(run(arguments({"--tasks", "num", "--seed", "2"})), 2, "take another --out");
}

// A file of LongBench's trec with a text of its own.
std::string trec_file(const std::string& name, const std::string& word) {
  const json object = {{"task", "trec"},
                       {"prompt", "The " + word + " went down the river.\nType:"},
                       {"gold", {{"answers", {"Boat"}}, {"all_classes", {"Boat", "River"}}}}};
  return "longbench:" + write_file(name, object.dump() + "\n");
}

TEST_F(GeneratedEval, AnswersItemsOfOneNameEachForItself) {
  const std::string boat = trec_file("boat.jsonl", "boat");
  const std::string horse = trec_file("horse.jsonl", "old horse");
  const std::vector<std::string> one = {"--methods", "full,snapkv:kv-budget=32:kv-window=8", "--tasks", boat};
  std::vector<std::string> both = one;
  both.back() = boat + "," + horse;
  ASSERT_EQ(run(arguments(both)).code, 0);
  const auto two = answers_of(items());
  EXPECT_EQ(two.size(), 4u) << items();
  EXPECT_TRUE(two.count({"trec/1024/1", "full"})) << "the second file is answered as well";
  // Another file under the same name: the old answers go, those of a task that is not asked for stay.
  std::vector<std::string> other = one;
  other.back() = horse + ",num";
  const Outcome first = run(arguments({"--methods", "full", "--tasks", "num", "-n", "1"}));
  ASSERT_EQ(first.code, 0) << first.err;
  other.back() = horse;
  const Outcome outcome = run(arguments(other));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("4 results in " + out() + " taken out: 4 of other items"), std::string::npos)
      << outcome.err;
  std::map<std::string, std::string> hashes;
  for (const json& line : lines_of(items())) hashes[line["item"]] = line["item_hash"];
  EXPECT_EQ(hashes.size(), 2u) << items();
  EXPECT_TRUE(hashes.count("trec/1024/0") == 1 && hashes.count("num/1024/0") == 1) << items();
  const Outcome again = run(arguments(other));
  EXPECT_EQ(again.err.find("taken out"), std::string::npos) << again.err;
}

TEST_F(GeneratedEval, GoesOnUnderTheSameConditionsOnly) {
  const std::vector<std::string> words = {"--tasks", "num", "-n", "1", "--methods", "full"};
  ASSERT_EQ(run(arguments(words)).code, 0);
  const std::string before = items();
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run(arguments(more));
  };
  const json conditions = json::parse(before.substr(0, before.find('\n')));
  const std::string keys = conditions["cache_keys"];  // bf16 where attention is AMX's, f16 elsewhere
  expect_line(with({"-ctk", "q8_0"}), 2, "cache_keys: " + keys + ", now q8_0");
  expect_line(with({"-ctk", "q8_0"}), 2, "): take another --out");
  expect_line(with({"--device", "ggml"}), 2, "device: cpu, now ggml");
  expect_line(with({"--rope-freq-base", "12345"}), 2, "overrides: {}, now {\"{arch}.rope.freq_base\":12345.0}");
  expect_line(run(Invocation{.arguments = arguments(words), .variables = {{"EI_CPU_ISA", "scalar"}}}), 2, "computes: ");
  EXPECT_EQ(items(), before);
  EXPECT_EQ(with({"-ctk", keys, "--device", "cpu", "-t", "2"}).code, 0) << "defaults that are said, and threads";
  EXPECT_EQ(items(), before);
}

TEST_F(GeneratedEval, AnswersAnewWhatAMethodDidWithOtherDefaults) {
  const std::vector<std::string> words = {"--tasks", "num", "-n", "1", "--methods", "full,snapkv"};
  ASSERT_EQ(run(arguments(words)).code, 0);
  const std::vector<json> before = lines_of(items());
  ASSERT_EQ(before.size(), 2u);
  const std::string options = before[1]["options"];
  EXPECT_NE(options.find("kv-policy=snapkv kv-budget="), std::string::npos) << options;
  // As an earlier version would have left it, whose snapkv had another window.
  std::string text = items();
  const size_t at = text.find("kv-window=");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "kv-window=1");
  std::ofstream(out() + "/items.jsonl", std::ios::trunc) << text;
  const Outcome outcome = run(arguments(words));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("0 of other items with the same names, 1 of other options"), std::string::npos)
      << outcome.err;
  const std::vector<json> after = lines_of(items());
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[1]["options"], options);
  EXPECT_EQ(after[0]["prompt_s"], before[0]["prompt_s"]) << "full attention is not answered again";
}

TEST_F(GeneratedEval, AsksBehindTheCompression) {
  const Outcome outcome = run(arguments({"--tasks", "num,chat", "-n", "1", "--question-agnostic", "--kv-budget", "50%",
                                         "--methods", "full,snapkv,entropyinfer"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const json& line : lines_of(items())) {
    EXPECT_EQ(line["compressions"] > 0, line["method"] != "full") << line;
    EXPECT_EQ(line["turn_scores"].size(), line["task"] == "chat" ? 4u : 1u);
  }
}

TEST_F(GeneratedEval, CompressesTheCacheBetweenTheTurnsOfAChat) {
  const Outcome outcome = run(arguments({"--tasks", "chat", "-n", "2", "--lengths", "2k", "--methods",
                                         "full,entropyinfer:kv-budget=20%:kv-gap=32,snapkv:kv-budget=20%"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const json& line : lines_of(items())) {
    EXPECT_EQ(line["turn_scores"].size(), 4u);
    EXPECT_EQ(line["compressions"] > 0, line["method"] != "full") << line;
    if (line["method"] == "entropyinfer:kv-budget=20%:kv-gap=32") {
      EXPECT_GT(line["compressed_tokens"], 0) << line;
      EXPECT_EQ(line["turn_scores"][0], 1) << "in front of the compression";
    }
  }
}

TEST_F(GeneratedEval, CompressesTheCacheWithinTheAnswerOfAQuote) {
  const Outcome outcome = run(arguments(
      {"--tasks", "quote", "-n", "2", "--methods", "full,entropyinfer:kv-budget=20%,entropyinfer:kv-policy=full"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const json& line : lines_of(items())) {
    EXPECT_GT(line["generated_tokens"], 64) << line;
    EXPECT_EQ(line["compressions"] > 0, line["method"] == "entropyinfer:kv-budget=20%") << line;
    if (line["method"] == "full") {
      EXPECT_GT(line["score"], 0.6) << line;
    }
  }
}

TEST_F(GeneratedEval, ReadsItemsFromFiles) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += str_format("Boat %d went down the river. ", i);
  const auto write = [](const char* name, const json& object) { return write_file(name, object.dump() + "\n"); };
  const std::string own = write("own.jsonl", {{"context", text + "The special magic number for pale-river is: 73912."},
                                              {"question", "What is the special magic number for pale-river?"},
                                              {"answers", {"73912"}},
                                              {"metric", "found"}});
  const std::string mini = write("mini.jsonl", {{"task", "trec"},
                                                {"prompt", text + "\nType:"},
                                                {"gold", {{"answers", {"Boat"}}, {"all_classes", {"Boat", "River"}}}}});
  const std::string choices = write("choices.jsonl", {{"context", text},
                                                      {"question", "Where?"},
                                                      {"choice_A", "a"},
                                                      {"choice_B", "b"},
                                                      {"choice_C", "c"},
                                                      {"choice_D", "d"},
                                                      {"answer", "B"}});
  const Outcome outcome = run(arguments(
      {"--methods", "full", "--json", "--tasks", "jsonl:" + own + ",longbench:" + mini + ",longbench2:" + choices}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["item"], "own/1024/0");
  EXPECT_EQ(lines[0]["score"], 1) << lines[0];
  EXPECT_EQ(lines[1]["task"], "trec");
  EXPECT_TRUE(lines[2]["likelihood"].is_number());
  EXPECT_TRUE(lines[2]["predictions"][0].get<std::string>().starts_with("The correct answer is ("));
  expect_line(run({"eval", "--question-agnostic", "--methods", "full", "--tasks", "longbench:" + mini}), 2,
              "has its question inside the text");
  const std::string broken = write_file("broken.jsonl", "{\"context\": \"a\", \"answer\": \"b\"}\n{\"context\n");
  expect_line(run({"eval", "--tasks", "jsonl:" + broken}), 2, "broken.jsonl, line 2: not a JSON object");
}

TEST_F(GeneratedEval, ChoosesTheLikeliestLetterOnce) {
  // The same question four times, each letter right in one of them: one choice, whichever it is, is right once.
  std::string lines;
  for (const char* letter : {"A", "B", "C", "D"}) {
    lines += json{{"context", "The boat went down the river to the mill."},
                  {"question", "Where did the boat go?"},
                  {"choice_A", "to the mill"},
                  {"choice_B", "to the sea"},
                  {"choice_C", "nowhere"},
                  {"choice_D", "home"},
                  {"answer", letter}}
                 .dump() +
             "\n";
  }
  const std::string file = write_file("letters.jsonl", lines);
  const Outcome outcome = run(arguments({"--methods", "full", "--json", "-n", "4", "--tasks", "longbench2:" + file}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  double chosen = 0;
  std::set<std::string> answers;
  for (const json& line : lines_of(outcome.out)) {
    chosen += line["likelihood"].get<double>();
    answers.insert(line["predictions"][0].get<std::string>());
  }
  EXPECT_EQ(lines_of(outcome.out).size(), 4u);
  EXPECT_EQ(chosen, 1);
  EXPECT_EQ(answers.size(), 1u) << "the letter that is right is no part of the prompt";
  const std::string summary = contents(out() + "/summary.md");
  EXPECT_NE(summary.find("\n| longbench2 1024, likeliest letter | 4 | 25.0 ["), std::string::npos) << summary;
}

TEST_F(GeneratedEval, ScoresWhatSomebodyElseGenerated) {
  const std::vector<std::string> words = {"--tasks", "num", "-n", "2", "--methods", "full"};
  ASSERT_EQ(run(arguments(words)).code, 0);
  const std::vector<json> lines = lines_of(items());
  const auto predictions = [&](const std::string& first) {
    std::string text;
    for (const json& line : lines) {
      const std::string said = line["index"] == 0 ? first : "nothing";
      text += json({{"item", line["item"]}, {"method", "other"}, {"prediction", said}}).dump() + "\n";
    }
    return text;
  };
  const std::string right = "It is " + lines.at(0)["answers"][0].get<std::string>();
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--predictions", write_file("said.jsonl", predictions(right))});
  const Outcome outcome = run(arguments(more));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("| other | 2 | 50.0 ["), std::string::npos) << outcome.out;
  // What it says the next time takes the place of that.
  more.back() = write_file("said_again.jsonl", predictions("no idea"));
  EXPECT_NE(run(arguments(more)).out.find("| other | 2 | 0.0 ["), std::string::npos);
  more.back() = write_file("wrong.jsonl", "{\"item\": \"num/1024/7\", \"method\": \"m\", \"prediction\": \"\"}\n");
  expect_line(run(arguments(more)), 2, "line 1 of the predictions: no item num/1024/7");
}

TEST_F(GeneratedEval, DumpsItemsThatWereCutInsideACharacter) {
  std::string text;
  for (int i = 0; i < 700; ++i) text += "森林里有";
  const json object = {{"task", "dureader"}, {"prompt", text}, {"gold", {"森"}}};
  const std::string file = "longbench:" + write_file("zh.jsonl", object.dump() + "\n");
  const std::string path = write_file("zh_dump.jsonl", "");
  const Outcome outcome = run({"eval", "--tasks", file, "--lengths", "1000,1001,1002", "--dump-items", path});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  int broken = 0;
  for (const json& line : lines_of(contents(path))) {
    EXPECT_EQ(line["truncated"], true);
    broken += line["prompt_is_exact"] == true ? 0 : 1;
  }
  EXPECT_GT(broken, 0);
}

TEST_F(GeneratedEval, DumpsItemsAndListsTasks) {
  const std::string path = write_file("items_dump.jsonl", "");
  const Outcome outcome = run({"eval", "--tasks", "vt", "-n", "2", "--lengths", "1k", "--dump-items", path});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<json> lines = lines_of(contents(path));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["item"], "vt/1024/1");
  EXPECT_TRUE(lines[0]["context"].get<std::string>().starts_with("<|endoftext|><|im_start|>user\n"));
  EXPECT_EQ(lines[0]["turns"][0]["answers"].size(), 5u);
  const Outcome list = run({"eval", "--list-tasks"});
  EXPECT_EQ(list.code, 0);
  for (const char* word : {"niah_multikey_3", "kv_retrieval", "longbench2", "rouge_l_zh"})
    EXPECT_NE(list.out.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace ei::e2e
