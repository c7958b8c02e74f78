// Items of files as a run asks for them: names, room for their answers, what a cut leaves of a text, how it is dumped.
#include "eval/items/source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "eval/items/item_hash.h"
#include "support/embedded_engine.h"
#include "text/utf8.h"

namespace ei::eval {
namespace {

class SourcesOfFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ei_sources_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::vector<nlohmann::json>& objects) const {
    const std::string path = (folder_ / name).string();
    std::ofstream file(path);
    for (const nlohmann::json& object : objects) file << object.dump() << "\n";
    return path;
  }

  static const text::Tokenizer& tokenizer() { return embedded_engine().tokenizer(); }
  static ItemSource open(std::vector<std::string> tasks, std::vector<int64_t> lengths = {512}, int64_t samples = 10,
                         bool has_template = true) {
    SourceOptions options;
    options.has_template = has_template;
    options.tasks = std::move(tasks);
    options.lengths = std::move(lengths);
    options.samples = samples;
    options.tokenizer = &tokenizer();
    const auto chat = text::ChatTemplate::parse(tokenizer().chat_template(), tokenizer());
    options.frame = *make_chat_frame(tokenizer(), *chat);
    auto source = ItemSource::open(std::move(options));
    EXPECT_TRUE(source.ok()) << source.error().message;
    return std::move(*source);
  }
  static Item only(const ItemSource& source) {
    EXPECT_EQ(source.refs().size(), 1u);
    auto item = source.make(source.refs()[0]);
    EXPECT_TRUE(item.ok()) << item.error().message;
    return item.ok() ? *item : Item{};
  }
  static std::string hash_of(const ItemSource& source) {
    const Item item = only(source);
    return item_hash(item, *source.prompt(item));
  }
  static nlohmann::json question(const std::string& task, const std::string& context, const std::string& answer = "a") {
    return {{"task", task}, {"context", context}, {"question", "q"}, {"answers", {answer}}};
  }

  std::filesystem::path folder_;
};

TEST_F(SourcesOfFiles, NameEveryItemOnceWhateverFilesShareATask) {
  const std::string first = write("one.jsonl", {question("num", "c1"), question("num", "c2")});
  const std::string second = write("two.jsonl", {question("num", "c3"), question("own", "c4")});
  const ItemSource source = open({"jsonl:" + first, "jsonl:" + second, "num"}, {512, 512, 600}, 2);
  std::set<std::string> ids;
  std::set<std::string> contexts;
  for (const ItemRef& ref : source.refs()) {
    EXPECT_TRUE(ids.insert(ref.id).second) << ref.id;
    contexts.insert(source.make(ref)->context);
    EXPECT_EQ(source.make(ref)->id(), ref.id);
  }
  EXPECT_EQ(ids.size(), 12u) << "two generated and four from files at each of two lengths";
  for (const char* context : {"c1", "c2", "c3", "c4"}) EXPECT_EQ(contexts.count(context), 1u) << context;
  EXPECT_EQ(source.make(source.refs().back())->context,
            open({"num"}, {600}, 2).make({"num", 600, 1, SIZE_MAX, "num/600/1"})->context)
      << "a generated item stays what it is alone";
}

TEST_F(SourcesOfFiles, TellItemsOfOneNameApart) {
  const auto hash = [&](const nlohmann::json& object) {
    return hash_of(open({"jsonl:" + write("x.jsonl", {object})}));
  };
  const nlohmann::json plain = question("t", "a text");
  EXPECT_EQ(hash(plain), hash(plain));
  std::set<std::string> hashes = {hash(plain), hash(question("t", "another text")), hash(question("t", "a text", "b"))};
  for (const auto& [name, value] : std::map<std::string, nlohmann::json>{
           {"question", "which?"}, {"metric", "exact"}, {"max_new_tokens", 9}, {"answers", {"a", "b"}}}) {
    nlohmann::json other = plain;
    other[name] = value;
    EXPECT_TRUE(hashes.insert(hash(other)).second) << name;
  }
  EXPECT_EQ(hashes.size(), 7u);
}

// Without a chat template a prompt ends in "Answer:", which is no part of the answer.
TEST_F(SourcesOfFiles, ScoreWhatWasWrittenAndNotWhatAskedForIt) {
  const auto score = [&](nlohmann::json object, const std::string& metric, const std::string& written) {
    object["metric"] = metric;
    const Item item = only(open({"jsonl:" + write("x.jsonl", {object})}, {512}, 1, false));
    EXPECT_EQ(item.lead, kPlainLead);
    EXPECT_EQ(item.scored(written), written);
    return score_of(*item.metric, item.turns[0].gold, item.scored(written));
  };
  const nlohmann::json fox = question("t", "a text", "red fox");
  EXPECT_EQ(score(fox, "f1", " The red fox"), 1);
  EXPECT_EQ(score(fox, "exact", " red fox"), 1);
  EXPECT_NEAR(score(fox, "rouge_l", " red fox"), 1, 1e-6);
  EXPECT_EQ(score(fox, "f1", " blue answer"), 0);
}

TEST_F(SourcesOfFiles, ScoreTheSentenceThatNamesALetterWithWhatItBeginsWith) {
  const nlohmann::json object = {{"context", "c"},  {"question", "q"}, {"choice_A", "a"}, {"choice_B", "b"},
                                 {"choice_C", "c"}, {"choice_D", "d"}, {"answer", "B"}};
  for (const bool has_template : {true, false}) {
    const Item item = only(open({"longbench2:" + write("two.jsonl", {object})}, {512}, 1, has_template));
    EXPECT_EQ(score_of(*item.metric, item.turns[0].gold, item.scored("B) b")), 1);
  }
}

TEST_F(SourcesOfFiles, DumpTextsThatWereCutInsideACharacter) {
  // Chinese is spelled in bytes by this vocabulary, so most cuts fall inside a character.
  std::string chinese;
  for (int i = 0; i < 400; ++i) chinese += "\xe6\xa3\xae\xe6\x9e\x97\xe9\x87\x8c\xe6\x9c\x89";
  int broken = 0;
  for (int64_t length = 300; length < 306; ++length) {
    const ItemSource source = open({"jsonl:" + write("zh.jsonl", {question("zh", chinese)})}, {length});
    const Item item = only(source);
    const auto prompt = source.prompt(item);
    ASSERT_TRUE(prompt.ok());
    ASSERT_TRUE(prompt->truncated);
    const auto line = nlohmann::json::parse(dumped_item(item, *prompt, tokenizer()));
    const std::string text = line["prompt"];
    EXPECT_TRUE(text::valid_utf8(text));
    EXPECT_EQ(text.find(text::kReplacement), std::string::npos) << "left out, not replaced";
    const bool whole = text::valid_utf8(tokenizer().detokenize(prompt->context, true));
    broken += whole ? 0 : 1;
    EXPECT_EQ(line["prompt_is_exact"].get<bool>(), whole);
    EXPECT_EQ(line["tokens"].size(), prompt->context.size()) << "the tokens are all there";
  }
  EXPECT_GT(broken, 0);
}

TEST_F(SourcesOfFiles, DumpSpacesInFrontOfPunctuation) {
  std::string dots;
  for (int i = 0; i < 20; ++i) dots += "one ... two , three ' s ";
  const ItemSource source = open({"jsonl:" + write("dots.jsonl", {question("dots", dots + "end")})}, {2048});
  const Item item = only(source);
  const auto prompt = source.prompt(item);
  ASSERT_TRUE(prompt.ok());
  const auto line = nlohmann::json::parse(dumped_item(item, *prompt, tokenizer()));
  EXPECT_TRUE(line["prompt_is_exact"].get<bool>());
  for (const char* text : {"prompt", "context"})
    EXPECT_NE(line[text].get<std::string>().find("one ... two , three ' s one"), std::string::npos) << text;
}

TEST_F(SourcesOfFiles, GiveAnswersTheBenchmarksTokensUnlessDigitsTakeMore) {
  const auto most = [&](const std::string& name, const nlohmann::json& answer) {
    const nlohmann::json object = {{"context", "c"}, {"input", "q"}, {"answer", answer}};
    return only(open({"infinitebench:" + write(name + ".jsonl", {object})}, {2048})).max_new;
  };
  EXPECT_EQ(most("longbook_sum_eng", "a"), 1200);
  EXPECT_EQ(most("longbook_qa_eng", "a"), 40);
  EXPECT_EQ(most("longbook_qa_chn", "a"), 40);
  EXPECT_EQ(most("longdialogue_qa_eng", "ANNA"), 40);
  EXPECT_EQ(most("kv_retrieval", "a-b"), 50);
  EXPECT_EQ(most("number_string", "1234"), 12);
  EXPECT_EQ(most("passkey", "1"), 6);
  ASSERT_EQ(tokenizer().tokenize("71432", {})->size(), 5u) << "single digits";
  EXPECT_EQ(most("passkey", "71432"), 5 + 4);
  EXPECT_EQ(most("math_find", 7), 1 + 4) << "and a decimal point with its digit might have followed";
  EXPECT_EQ(most("code_run", {4}), 5);
  ASSERT_EQ(tokenizer().tokenize("-1234", {})->size(), 5u);
  EXPECT_EQ(most("code_run", {-1234}), 5 + 4);
}

TEST_F(SourcesOfFiles, EndAnswersOfNumbersBehindTheRightOnes) {
  const auto most = [&](const nlohmann::json& answer) {
    const nlohmann::json object = {{"context", "1 + 2"}, {"answer", answer}};
    return only(open({"infinitebench:" + write("math_calc.jsonl", {object})}, {65536})).max_new;
  };
  EXPECT_EQ(most({8, 5, 17}), static_cast<int64_t>(tokenizer().tokenize("8, 5, 17, ", {})->size()) + 64);
  EXPECT_EQ(most(std::vector<int>(20000, 123)), 30000) << "the benchmark's most";
}

}  // namespace
}  // namespace ei::eval
