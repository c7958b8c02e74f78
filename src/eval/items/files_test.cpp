// Files of benchmarks: every kind and every set is read, and what is wrong is named.
#include "eval/items/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace ei::eval {
namespace {

using nlohmann::json;

class ItemFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ei_item_files_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  static Item only(const std::string& kind_and_path) {
    const auto items = read_item_file(kind_and_path);
    EXPECT_TRUE(items.ok()) << items.error().message;
    return items.ok() && items->size() == 1 ? items->front() : Item{};
  }

  std::filesystem::path folder_;
};

TEST_F(ItemFiles, OfEveryKindBecomeItems) {
  const std::map<std::string, json> examples = {
      {"longbench", {{"dataset", "hotpotqa"}, {"context", "c"}, {"input", "q"}, {"answers", {"a", "b"}}}},
      {"longbench2",
       {{"context", "c"},
        {"question", "q"},
        {"choice_A", "1"},
        {"choice_B", "2"},
        {"choice_C", "3"},
        {"choice_D", "4"},
        {"answer", "B"}}},
      {"infinitebench", {{"context", "c"}, {"input", "q"}, {"answer", "12"}}},
      {"jsonl", {{"context", "c"}, {"question", "q"}, {"answers", {"a"}}, {"max_new_tokens", 7}}},
  };
  for (const FileKind& kind : file_kinds()) {
    SCOPED_TRACE(kind.name);
    const std::string name(kind.name);
    const Item item = only(name + ":" + write("passkey.jsonl", examples.at(name).dump() + "\n\n"));
    EXPECT_EQ(item.context, "c");
    EXPECT_NE(item.turns.at(0).question.find('q'), std::string::npos);
    EXPECT_FALSE(item.turns[0].gold.answers.empty());
    ASSERT_NE(item.metric, nullptr);
    EXPECT_GT(item.max_new, 0);
    EXPECT_EQ(item.choices.size(), name == "longbench2" ? 4u : 0u);
  }
}

TEST_F(ItemFiles, OfLongBenchKnowEverySet) {
  for (const LongBenchSet& set : longbench_sets()) {
    SCOPED_TRACE(set.name);
    EXPECT_TRUE(find_metric(set.metric).ok());
    const json mini = {{"task", set.name}, {"prompt", "text"}, {"gold", {"Paragraph 1"}}};
    const Item item = only("longbench:" + write("mini.jsonl", mini.dump() + "\n"));
    EXPECT_EQ(item.task, set.name);
    EXPECT_EQ(item.metric->name, set.metric);
    EXPECT_EQ(item.plain, set.plain);
    EXPECT_FALSE(item.has_question) << "the prompt holds it";
  }
}

TEST_F(ItemFiles, TakeClassesFromEitherForm) {
  const json v1 = {
      {"dataset", "trec"}, {"context", "c"}, {"input", "q"}, {"answers", {"A"}}, {"all_classes", {"A", "B"}}};
  const json mini = {{"task", "trec"}, {"prompt", "c"}, {"gold", {{"answers", {"A"}}, {"all_classes", {"A", "B"}}}}};
  for (const json& object : {v1, mini}) {
    const Item item = only("longbench:" + write("trec.jsonl", object.dump() + "\n"));
    EXPECT_EQ(item.turns[0].gold.answers, std::vector<std::string>{"A"});
    EXPECT_EQ(item.turns[0].gold.classes, (std::vector<std::string>{"A", "B"}));
  }
}

TEST_F(ItemFiles, OfLongBenchScoreChineseClassesAndCode) {
  const json lsht = {{"dataset", "lsht"},
                     {"context", "新闻内容：……\n类别：体育\n"},
                     {"input", "新闻内容：……\n类别："},
                     {"answers", {"农业、农村"}},
                     {"all_classes", {"农业、农村", "体育", "教育"}}};
  const Item news = only("longbench:" + write("lsht.jsonl", lsht.dump() + "\n"));
  const auto score = [](const Item& item, const char* said) {
    return item.metric == nullptr ? -1 : score_of(*item.metric, item.turns.at(0).gold, said);
  };
  EXPECT_EQ(score(news, "\n农业、农村\n新闻内容：体育"), 1);
  EXPECT_EQ(score(news, "农业、农村，教育"), 0.5);
  EXPECT_EQ(score(news, "体育"), 0);
  const json lcc = {{"dataset", "lcc"}, {"context", "# 打招呼\n"}, {"input", ""}, {"answers", {"print(\"你好\")"}}};
  const Item code = only("longbench:" + write("lcc.jsonl", lcc.dump() + "\n"));
  EXPECT_EQ(score(code, "# 打招呼\nprint(\"你好\")\nprint(1)"), 1);
  EXPECT_EQ(score(code, "print(\"您好\")"), 0.91) << "10 of 11 characters: 20 / 22";
}

TEST_F(ItemFiles, OfInfiniteBenchAskForTheLetterOfAnOption) {
  const json options = {"red", "blue", "green", "white"};
  for (const json& answer : {json("green"), json{"green"}, json{"green", "C"}, json("C")}) {
    const json object = {{"context", "c"}, {"input", "Which colour?"}, {"options", options}, {"answer", answer}};
    const Item item = only("infinitebench:" + write("longbook_choice_eng.jsonl", object.dump() + "\n"));
    ASSERT_NE(item.metric, nullptr);
    EXPECT_EQ(item.metric->name, "letter");
    EXPECT_EQ(item.choices, (std::vector<std::string>{"A", "B", "C", "D"}));
    EXPECT_NE(item.turns.at(0).question.find("Which colour?\n(A) red\n(B) blue\n"), std::string::npos);
    EXPECT_EQ(item.turns[0].gold.answers, std::vector<std::string>{"C"});
    EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, item.lead + "C) green"), 1);
  }
  const auto message = [&](const json& object) {
    const auto items = read_item_file("infinitebench:" + write("longbook_choice_eng.jsonl", object.dump() + "\n"));
    return items.ok() ? std::string("read") : items.error().message;
  };
  EXPECT_NE(message({{"context", "c"}, {"options", {"a", "b"}}, {"answer", "a"}}).find("2 options instead of four"),
            std::string::npos);
  EXPECT_NE(message({{"context", "c"}, {"options", options}, {"answer", "pink"}}).find("'pink' is none of the options"),
            std::string::npos);
  EXPECT_NE(message({{"context", "c"}, {"options", options}}).find("the answers are missing"), std::string::npos);
}

TEST_F(ItemFiles, OfInfiniteBenchAskWhichFunctionIsBroken) {
  const json object = {{"context", "c"}, {"input", ""}, {"options", {"f", "g", "h", "main"}}, {"answer", {"g"}}};
  const Item item = only("infinitebench:" + write("code_debug.jsonl", object.dump() + "\n"));
  EXPECT_NE(item.turns.at(0).question.find("has an error that makes it crash.\n(A) f\n(B) g\n"), std::string::npos);
  EXPECT_EQ(item.turns[0].gold.answers, std::vector<std::string>{"B"});
  EXPECT_EQ(item.max_new, 5);
}

TEST_F(ItemFiles, OfInfiniteBenchAskWhatACallReturns) {
  const std::string asked = "Please give me the exact number of the return value of func_1(-3).";
  const json object = {{"context", "def func_1(x): return x - 1"}, {"input", asked}, {"answer", {-4}}};
  const Item item = only("infinitebench:" + write("code_run.jsonl", object.dump() + "\n"));
  ASSERT_NE(item.metric, nullptr);
  EXPECT_EQ(item.turns.at(0).question, asked);
  EXPECT_EQ(item.max_new, 5);
  EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, " -4."), 1);
  EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, "-4 or 4"), 0);
  // As earlier files have it, and the answer without a list.
  const json earlier = {{"context", "c"}, {"func", "func_1"}, {"func_call", "func_1(-3)"}, {"answer", -4}};
  const Item other = only("infinitebench:" + write("code_run.jsonl", earlier.dump() + "\n"));
  EXPECT_NE(other.turns.at(0).question.find("func_1(-3)"), std::string::npos);
  EXPECT_EQ(score_of(*other.metric, other.turns[0].gold, "-4"), 1);
  const json nothing = {{"context", "c"}, {"input", ""}, {"answer", {1}}};
  const auto none = read_item_file("infinitebench:" + write("code_run.jsonl", nothing.dump() + "\n"));
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("neither input nor func_call"), std::string::npos) << none.error().message;
}

TEST_F(ItemFiles, OfInfiniteBenchAskForEveryValueOfAnExpression) {
  for (const json& answer : {json{8, 5, 7, 3}, json::array({json{8, 5, 7, 3}})}) {
    const json object = {{"context", "8 - 3 + 2 - 4"}, {"input", ""}, {"answer", answer}};
    const Item item = only("infinitebench:" + write("math_calc.jsonl", object.dump() + "\n"));
    ASSERT_NE(item.metric, nullptr);
    EXPECT_EQ(item.max_new, 30000);
    EXPECT_NE(item.turns.at(0).question.find("after every operation"), std::string::npos);
    EXPECT_EQ(item.turns[0].gold.answers, (std::vector<std::string>{"8", "5", "7", "3"}));
    EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, "[8, 5, 7, 3]"), 1);
    EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, "[8, 5, 9, 3]"), 0.5);
  }
}

TEST_F(ItemFiles, OfInfiniteBenchNameTheTasksThereAre) {
  const json object = {{"context", "c"}, {"input", "q"}, {"answer", 3}};
  const auto items = read_item_file("infinitebench:" + write("other.jsonl", object.dump() + "\n"));
  ASSERT_FALSE(items.ok());
  EXPECT_NE(items.error().message.find("is called 'other'"), std::string::npos) << items.error().message;
  for (const char* task :
       {"passkey", "number_string", "kv_retrieval", "math_find", "math_calc", "longbook_qa_eng", "longbook_qa_chn",
        "longbook_sum_eng", "longbook_choice_eng", "longdialogue_qa_eng", "code_run", "code_debug"})
    EXPECT_NE(items.error().message.find(task), std::string::npos) << task;
}

TEST_F(ItemFiles, OfInfiniteBenchFindANameInWhateverCase) {
  const json object = {{"context", "c"}, {"input", "q"}, {"answer", {"MARY ANN", "Mary"}}};
  const Item item = only("infinitebench:" + write("longdialogue_qa_eng.jsonl", object.dump() + "\n"));
  for (const char* said : {"Mary.", "mary ann", "It is MARY's"})
    EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, said), 1) << said;
  EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, "Ann"), 0);
}

TEST_F(ItemFiles, NumberItemsWithinTheirTask) {
  const auto line = [](const char* task) {
    return json({{"task", task}, {"context", "c"}, {"question", "q"}, {"answer", "a"}}).dump() + "\n";
  };
  const auto items = read_item_file("jsonl:" + write("two.jsonl", std::string(line("x")) + line("y") + line("x")));
  ASSERT_TRUE(items.ok());
  EXPECT_EQ((*items)[1].index, 0);
  EXPECT_EQ((*items)[2].index, 1);
}

TEST_F(ItemFiles, NameTheLineAtFault) {
  const auto message = [&](const std::string& kind, const std::string& text) {
    const auto items = read_item_file(kind + ":" + write("wrong.jsonl", text));
    return items.ok() ? std::string("read") : items.error().message;
  };
  EXPECT_NE(message("jsonl", "{}\n").find("wrong.jsonl, line 1: the context is missing"), std::string::npos);
  EXPECT_NE(message("jsonl", "\n[]\n").find("line 2: not a JSON object"), std::string::npos);
  EXPECT_NE(message("jsonl", "{\"context\":\"c\"}\n").find("the answers are missing"), std::string::npos);
  EXPECT_NE(message("jsonl", "{\"context\":\"c\",\"answer\":\"a\",\"metric\":\"bleu\"}\n").find("unknown metric"),
            std::string::npos);
  EXPECT_NE(message("jsonl", "").find("holds no items"), std::string::npos);
  EXPECT_NE(message("longbench", "{\"dataset\":\"x\",\"context\":\"c\"}\n").find("'x' is no set of LongBench"),
            std::string::npos);
  EXPECT_NE(message("longbench2", "{\"context\":\"c\"}\n").find("choice_A is missing"), std::string::npos);
  EXPECT_NE(message("infinitebench", "{\"context\":\"c\"}\n").find("called 'wrong'"), std::string::npos);
}

}  // namespace
}  // namespace ei::eval
