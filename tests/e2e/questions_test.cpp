// Asking about one's own text: a file and a question, stop strings, texts from files, flags that hands of llama.cpp
// type.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "printed_json.h"
#include "process.h"
#include "tools/random_model.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

const std::string kText = "The pass key is 48213. Remember it.";
const char* const kQuestion = "What is the pass key?";

json answer(std::vector<std::string> more) {
  std::vector<std::string> words = {"run", "-n", "8", "--temp", "0", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return parse(outcome.out);
}

TEST(Questions, AFileAndAQuestionAreOnePrompt) {
  const std::string path = write_file("text.txt", kText + "\n");
  const json together = answer({"-f", path, "-p", kQuestion});
  EXPECT_EQ(together["text"], "48213");
  const json by_hand = answer({"-p", kText + "\n\n" + kQuestion});
  EXPECT_EQ(together["tokens"]["prompt"], by_hand["tokens"]["prompt"]);
  EXPECT_EQ(answer({"-e", "-p", kText + "\\n\\n" + kQuestion})["tokens"]["prompt"], by_hand["tokens"]["prompt"]);
}

TEST(Questions, AByteOrderMarkIsNotPartOfTheText) {
  const std::string text = "The pass key is 48213. Remember it. What is the pass key?";
  const auto prompt_tokens = [&](const std::string& name, const std::string& lead) {
    const Outcome outcome = run({"run", "-f", write_file(name, lead + text), "-n", "1", "--json"});
    return parse(outcome.out)["tokens"]["prompt"].get<int64_t>();
  };
  EXPECT_EQ(prompt_tokens("marked.txt", "\xEF\xBB\xBF"), prompt_tokens("plain.txt", ""));
}

TEST(Questions, AnswersAreTheSameHoweverTheModelIsHeldAndThePromptIsRead) {
  const std::vector<std::vector<std::string>> ways = {
      {"--no-mmap"}, {"--mlock"}, {"-ub", "16"}, {"-b", "32", "-ub", "64"}, {"-tb", "1"}, {"-tb", "-1", "-t", "1"}};
  for (const std::vector<std::string>& more : ways) {
    std::vector<std::string> words = {"run", "-p", kText + "\n\n" + kQuestion, "-n", "8", "--temp", "0"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "48213\n") << more[0];
  }
}

TEST(Questions, TheEchoShowsTheQuestionAndTheSizeOfTheText) {
  const std::string path = write_file("long.txt", prose(4000));
  const Outcome outcome = run(Invocation{
      .arguments = {"run", "-f", path, "-p", "How many boats?", "-n", "1", "--temp", "0"}, .terminal = true});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(" KiB of text] ... How many boats?"), std::string::npos) << outcome.err;
}

TEST(Questions, AStopStringEndsTheAnswerInFrontOfIt) {
  const std::string prompt = kText + "\n\n" + kQuestion;
  const json stopped = answer({"-p", prompt, "-r", "nothing, really", "--stop", "13"});
  EXPECT_EQ(stopped["text"], "482");
  EXPECT_EQ(stopped["finish_reason"], "stop");
}

TEST(Questions, GrammarsSchemasAndSystemPromptsComeFromFiles) {
  const std::string grammar = write_file("digits.gbnf", "root ::= \"7\" \"7\"");
  EXPECT_EQ(answer({"-p", kQuestion, "--grammar-file", grammar})["text"], "77");
  const std::string schema = write_file("schema.json", R"({"const": 5})");
  EXPECT_EQ(answer({"-p", kQuestion, "-jf", schema})["text"].get<std::string>().substr(0, 1), "5");
  const std::string system = write_file("system.txt", "Be short.");
  EXPECT_EQ(answer({"-p", kQuestion, "-sysf", system})["tokens"]["prompt"],
            answer({"-p", kQuestion, "-sys", "Be short."})["tokens"]["prompt"]);
}

TEST(Questions, ACacheThatWasReadSparselySaysSo) {
  const std::string path = write_file("sparse.txt", prose(30'000));
  const std::string cache = write_file("sparse.cache", "");
  std::remove(cache.c_str());
  const auto ask = [&](const char* question) {
    return answer({"-f", path, "-p", question, "--method", "entropyinfer", "--prompt-cache", cache, "-n", "1"});
  };
  const json first = ask("How many boats?");
  const json second = ask("Where?");
  ASSERT_GT(second["tokens"]["cached"], 4000);
  EXPECT_EQ(second["prefill"]["density"], 1.0) << "of the question";
  EXPECT_TRUE(second["prefill"]["acted"]);
  EXPECT_NEAR(second["prefill"]["text_density"].get<double>(), first["prefill"]["density"].get<double>(), 0.02);
  for (const json& why : second["idle"])
    EXPECT_EQ(why.get<std::string>().find("the prompt was read whole"), std::string::npos);
}

TEST(Questions, WhereFewLayersAreGlobalTheBudgetInForceIsNamed) {
  RandomModelSpec spec;
  spec.family = "gemma3";
  spec.layers = 4;
  spec.window = 64;
  spec.window_pattern = 2;
  const std::string path = write_file("few.gguf", "");
  ASSERT_TRUE(make_random_model(spec, path).ok());
  const json object = answer({"--raw", "-m", path, "-f", write_file("few.txt", prose(3000)), "--method", "entropyinfer",
                              "--threshold", "512", "--density-base", "2048"});
  ASSERT_FALSE(object["prefill"]["acted"]);
  EXPECT_EQ(object["idle"][0],
            "the prompt was read whole: only 2 of 4 layers attend beyond a sliding window, and there what may be read "
            "before a segment, 0.13 of it and 4096 tokens more (--density, --density-base), covered it");
}

TEST(Questions, ACacheThatIsReplacedIsNamed) {
  const std::string cache = write_file("replaced.cache", "");
  std::remove(cache.c_str());
  const auto ask = [&](const std::string& prompt, const std::string& method) {
    const Outcome outcome = run({"run", "-p", prompt, "--prompt-cache", cache, "--method", method, "-n", "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  const std::string text = prose(2000);
  EXPECT_EQ(ask(text, "full").find("is replaced"), std::string::npos) << "there was none";
  EXPECT_EQ(ask(text, "full").find("is replaced"), std::string::npos) << "it holds all of it";
  const std::string by_other = ask(text, "entropyinfer");
  EXPECT_NE(by_other.find("nothing taken from " + cache), std::string::npos) << by_other;
  EXPECT_NE(by_other.find(cache + " is replaced: of its "), std::string::npos) << by_other;
  EXPECT_NE(by_other.find(" tokens 0 were taken"), std::string::npos) << by_other;
  const std::string shorter = ask("hello", "entropyinfer");
  EXPECT_NE(shorter.find(cache + " is replaced: of its "), std::string::npos) << shorter;
}

TEST(Questions, SwitchesOfLlamaCppAreTakenWithANote) {
  const Outcome outcome = run({"run", "-p", "x", "-n", "1", "--jinja", "-fa", "on", "-ngl", "0", "-t", "-1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("note: --jinja changes nothing here"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("note: --gpu-layers changes nothing here"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace ei::e2e
