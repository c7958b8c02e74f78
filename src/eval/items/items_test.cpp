// Items of every task: they fit, they hold what they ask for, and they depend on the seed alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "eval/items/files.h"
#include "eval/items/registry.h"
#include "eval/items/source.h"
#include "eval/items/texts.h"
#include "support/embedded_engine.h"

namespace ei::eval {
namespace {

const text::Tokenizer& tokenizer_of_items() { return embedded_engine().tokenizer(); }

ItemSource source_of(std::vector<std::string> tasks, int64_t length, int64_t samples = 1, uint64_t seed = 1) {
  SourceOptions options;
  options.tasks = std::move(tasks);
  options.lengths = {length};
  options.samples = samples;
  options.depths = 3;
  options.seed = seed;
  options.tokenizer = &tokenizer_of_items();
  const auto chat = text::ChatTemplate::parse(tokenizer_of_items().chat_template(), tokenizer_of_items());
  options.frame = *make_chat_frame(tokenizer_of_items(), *chat);
  auto source = ItemSource::open(std::move(options));
  EXPECT_TRUE(source.ok()) << source.error().message;
  return std::move(*source);
}

Item first_item(const ItemSource& source) {
  auto item = source.make(source.refs()[0]);
  EXPECT_TRUE(item.ok()) << item.error().message;
  return item.ok() ? *item : Item{};
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Items, OfEveryTaskFillTheLengthAndNeverPassIt) {
  std::set<std::string_view> names;
  for (const TaskEntry& entry : task_entries()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second);
    for (const int64_t length : {4096, 6001}) {
      const ItemSource source = source_of({std::string(entry.name)}, length);
      const Item item = first_item(source);
      const auto prompt = source.prompt(item);
      ASSERT_TRUE(prompt.ok()) << prompt.error().message;
      EXPECT_FALSE(prompt->truncated);
      EXPECT_FALSE(item.context.ends_with('\n'));
      const int64_t used = prompt->tokens() + static_cast<int64_t>(item.turns.size()) * item.max_new;
      EXPECT_LE(used, length);
      EXPECT_GE(used, length * 9 / 10);
      EXPECT_EQ(item.metric->name, entry.metric);
      EXPECT_EQ(item.turns.size(), entry.name == "chat" ? 4u : 1u);
      for (const ItemTurn& turn : item.turns) {
        ASSERT_FALSE(turn.gold.answers.empty());
        std::string right = turn.gold.answers[0];
        for (size_t i = 1; i < turn.gold.answers.size(); ++i) right += ", " + turn.gold.answers[i];
        EXPECT_NEAR(score_of(*item.metric, turn.gold, right), 1, 1e-9);
      }
    }
  }
}

TEST(Items, HoldTheirAnswersInTheText) {
  for (const TaskEntry& entry : task_entries()) {
    SCOPED_TRACE(entry.name);
    if (entry.name == "none") continue;  // not mentioned
    const Item item = first_item(source_of({std::string(entry.name)}, 4096, 1, 7));
    for (const ItemTurn& turn : item.turns)
      for (const std::string& answer : turn.gold.answers) {
        // Entries of a list, "place: value", are a sentence in the text.
        const size_t colon = answer.find(": ");
        EXPECT_NE(item.context.find(answer.substr(0, colon)), std::string::npos) << answer;
        if (colon == std::string::npos) continue;
        EXPECT_NE(item.context.find(answer.substr(colon + 2)), std::string::npos) << answer;
      }
  }
}

TEST(Items, DependOnTheSeedAndNotOnWhatElseIsAsked) {
  for (const TaskEntry& entry : task_entries()) {
    SCOPED_TRACE(entry.name);
    const std::string name(entry.name);
    const ItemSource alone = source_of({name}, 4000);
    const ItemSource among = source_of({"passkey", name}, 4000, 2);
    const auto& refs = among.refs();
    const auto same = std::find_if(refs.begin(), refs.end(), [&](const auto& r) { return r.id == alone.refs()[0].id; });
    ASSERT_NE(same, refs.end());
    EXPECT_EQ(first_item(alone).context, among.make(*same)->context);
    EXPECT_NE(first_item(alone).context, first_item(source_of({name}, 4000, 1, 2)).context);
  }
}

TEST(Items, OfSingleFactsStandWhereTheyShould) {
  for (const char* task : {"niah_single_1", "niah_single_2", "niah_multikey_2", "passkey", "kv_retrieval", "lines"}) {
    const ItemSource source = source_of({task}, 3000, 3);
    for (const ItemRef& ref : source.refs()) {
      SCOPED_TRACE(ref.id);
      const auto item = source.make(ref);
      ASSERT_TRUE(item.ok());
      EXPECT_EQ(item->depth, static_cast<double>(ref.index) / 2);
      const size_t at = item->context.find(item->turns[0].gold.answers[0]);
      EXPECT_NEAR(static_cast<double>(at) / static_cast<double>(item->context.size()), item->depth, 0.08);
    }
  }
}

TEST(Items, OfQuotesAnswerLongerThanAnyStandardGap) {
  constexpr int64_t kLongestGap = 64;  // entropyinfer's (policy/published_settings_test.cpp)
  const ItemSource source = source_of({"quote"}, 3000, 30);
  std::set<std::string> questions;
  for (const ItemRef& ref : source.refs()) {
    SCOPED_TRACE(ref.id);
    const auto item = source.make(ref);
    ASSERT_TRUE(item.ok());
    const std::string& question = item->turns[0].question;
    const std::string& answer = item->turns[0].gold.answers[0];
    const size_t open = question.find('"');
    const std::string cue = question.substr(open + 1, question.rfind('"') - open - 1);
    EXPECT_EQ(occurrences(item->context, cue), 1u) << cue;
    EXPECT_EQ(occurrences(item->context, cue + " " + answer), 1u) << "the answer goes on where the cue ends";
    const int64_t tokens = static_cast<int64_t>(tokenizer_of_items().tokenize(" " + answer, {})->size());
    EXPECT_GT(tokens, kLongestGap);
    EXPECT_GE(item->max_new, tokens);
    EXPECT_FALSE(item->context.starts_with(cue)) << "a text begins with something else";
    questions.insert(question.substr(0, open));
  }
  EXPECT_EQ(questions.size(), 4u) << "every form is used";
}

TEST(Items, OfWordsCountAsRulerDoes) {
  const Item common = first_item(source_of({"cwe"}, 6000));
  const std::string list = common.context.substr(common.context.find("Now the list:"));
  for (const std::string& word : common.turns[0].gold.answers) EXPECT_EQ(occurrences(list, " " + word + " "), 30u);
  EXPECT_EQ(common.turns[0].gold.answers.size(), 10u);
  const Item frequent = first_item(source_of({"fwe"}, 6000));
  const auto& gold = frequent.turns[0].gold.answers;
  ASSERT_EQ(gold.size(), 3u);
  const size_t dots = occurrences(frequent.context, " ... ");
  EXPECT_GT(dots, 2 * occurrences(frequent.context, " " + gold[0] + " "));
  EXPECT_GT(occurrences(frequent.context, " " + gold[0] + " "), occurrences(frequent.context, " " + gold[1] + " "));
  EXPECT_GT(occurrences(frequent.context, " " + gold[1] + " "), occurrences(frequent.context, " " + gold[2] + " "));
}

TEST(Items, UuidsAreOfVersionFour) {
  Random random(5);
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = random_uuid(random);
    ASSERT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
    for (const size_t dash : {8, 13, 18, 23}) EXPECT_EQ(uuid[dash], '-');
  }
}

TEST(Items, OfGroupsAreTheirMembers) {
  const auto all = expand_tasks({"ruler", "vt", "longbench:a.jsonl", "chat"});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(std::count(all->begin(), all->end(), "vt"), 1);
  EXPECT_EQ(all->size(), 14u);
  EXPECT_FALSE(expand_tasks({"sum"}).ok());
}

TEST(Items, ThatDoNotFitSaySo) {
  const ItemSource source = source_of({"niah_single_3"}, 100);
  const auto item = source.make(source.refs()[0]);
  ASSERT_FALSE(item.ok());
  EXPECT_NE(item.error().message.find("does not fit in 100 tokens"), std::string::npos) << item.error().message;
}

TEST(Prompts, LoseTheMiddleOfALongText) {
  const ItemSource source = source_of({"passkey"}, 2048);
  Item item = first_item(source);
  item.length = 1024;
  const auto cut = source.prompt(item);
  ASSERT_TRUE(cut.ok());
  EXPECT_TRUE(cut->truncated);
  EXPECT_EQ(cut->tokens() + item.max_new, 1024);
  const std::string text = tokenizer_of_items().detokenize(cut->context, true);
  EXPECT_TRUE(text.find("There is important information") != std::string::npos) << "the beginning stays";
  EXPECT_TRUE(text.ends_with(item.context.substr(item.context.size() - 40))) << "and the end";
  item.length = 40;
  EXPECT_FALSE(source.prompt(item).ok());
}

TEST(Prompts, OfAChatGoOnInTurns) {
  const ItemSource source = source_of({"chat"}, 2048);
  const Item item = first_item(source);
  const auto prompt = source.prompt(item);
  ASSERT_TRUE(prompt.ok());
  ASSERT_EQ(prompt->turns.size(), 4u);
  const auto text = [&](size_t turn) { return tokenizer_of_items().detokenize(prompt->turns[turn], true); };
  EXPECT_EQ(text(0), "\n\n" + item.turns[0].question + "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(text(1), "<|im_end|>\n<|im_start|>user\n" + item.turns[1].question + "<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace ei::eval
