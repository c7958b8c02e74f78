#include "eval/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string>

#include "eval/demo_text.h"
#include "eval/para_facts.h"
#include "eval/strip.h"
#include "eval/task_kind.h"

namespace ei::eval {
namespace {

// Stands in for a tokenizer: a token for every five letters of a word, every digit and every mark.
int64_t count_tokens(std::string_view text) {
  int64_t tokens = 0;
  int letters = 0;
  for (unsigned char c : text) {
    if (std::isalpha(c) != 0) {
      tokens += letters % 5 == 0 ? 1 : 0;
      ++letters;
    } else {
      letters = 0;
      tokens += c == ' ' ? 0 : 1;
    }
  }
  return tokens;
}

Task make(const TaskSpec& spec) {
  auto task = make_task(spec, count_tokens);
  EXPECT_TRUE(task.ok()) << spec.kind << " seed " << spec.seed << ": " << (task.ok() ? "" : task.error().message);
  return task.ok() ? *task : Task{};
}

std::string label(const TaskSpec& spec) {
  return spec.kind + ", seed " + std::to_string(spec.seed) + ", target " + std::to_string(spec.target_tokens);
}

int occurrences(std::string_view text, std::string_view phrase) {
  int count = 0;
  for (size_t at = text.find(phrase); at != std::string_view::npos; at = text.find(phrase, at + 1)) ++count;
  return count;
}

template <typename Check>
void for_each_kind(Check check) {
  for (std::string_view kind : task_kinds())
    for (uint64_t seed = 1; seed <= 6; ++seed)
      for (int64_t target : {1024, 4096})
        check(TaskSpec{.kind = std::string(kind), .target_tokens = target, .seed = seed, .depth = {}, .haystack = {}});
}

TEST(Tasks, FillTheTargetAndNeverPassIt) {
  for_each_kind([](const TaskSpec& spec) {
    const Task task = make(spec);
    const int64_t used = count_tokens(task.user_message()) + task.max_new_tokens + spec.template_tokens;
    EXPECT_EQ(task.prompt_tokens, count_tokens(task.user_message())) << label(spec);
    EXPECT_LE(used, spec.target_tokens) << label(spec);
    EXPECT_GE(used, spec.target_tokens - 160) << label(spec);
    EXPECT_GE(task.max_new_tokens, count_tokens(task.answer)) << label(spec);
  });
}

TEST(Tasks, PlantEveryGoldFactOnceAndInOrder) {
  for_each_kind([](const TaskSpec& spec) {
    const Task task = make(spec);
    EXPECT_EQ(task.gold_facts.empty(), spec.kind == "none") << label(spec);
    size_t last = 0;
    for (const std::string& fact : task.gold_facts) {
      EXPECT_EQ(occurrences(task.context, fact), 1) << label(spec) << ": " << fact;
      EXPECT_GE(task.context.find(fact), last) << label(spec) << ": " << fact;
      last = task.context.find(fact);
    }
  });
}

TEST(Tasks, HoldTheAnswerInTheText) {
  for_each_kind([](const TaskSpec& spec) {
    const Task task = make(spec);
    for (const std::string& gold : task.gold_strings) {
      EXPECT_NE(task.answer.find(gold), std::string::npos) << label(spec);
      if (spec.kind == "none" || spec.kind == "list") continue;
      std::string planted;
      for (const std::string& fact : task.gold_facts) planted += fact + "\n";
      EXPECT_NE(planted.find(gold), std::string::npos) << label(spec) << ": " << gold;
    }
    EXPECT_EQ(score(task, "\n" + task.answer + " "), 1) << label(spec);
    EXPECT_EQ(score(task, task.answer + " x"), 0) << label(spec);
    EXPECT_EQ(contains_score(task, "so: " + task.answer), 1) << label(spec);
  });
}

TEST(Tasks, ListsNameEveryPlaceWithItsOwnValue) {
  const Task task = make({.kind = "list", .seed = 4, .depth = {}, .haystack = {}});
  ASSERT_EQ(task.gold_strings.size(), task.gold_facts.size());
  for (size_t i = 0; i < task.gold_facts.size(); ++i) {
    const std::string& item = task.gold_strings[i];
    EXPECT_NE(task.gold_facts[i].find(item.substr(0, item.find(':'))), std::string::npos) << item;
    EXPECT_NE(task.gold_facts[i].find(item.substr(item.find(": ") + 2)), std::string::npos) << item;
  }
  EXPECT_EQ(task.answer.front(), ' ');
  EXPECT_EQ(task.answer.back(), '.');
}

TEST(Tasks, ChainsLeadFromTheValueThroughEveryName) {
  const Task task = make({.kind = "var", .seed = 2, .depth = {}, .haystack = {}});
  ASSERT_EQ(task.gold_facts.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(task.gold_facts[i].find("VAR " + task.gold_strings[i] + " = "), 0u);
    if (i > 0) {
      EXPECT_NE(task.gold_facts[i].find("= VAR " + task.gold_strings[i - 1] + "."), std::string::npos);
    }
  }
}

TEST(Tasks, AskForAnAbsentFactOnlyWhenTheyMean) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Task task = make({.kind = "none", .seed = seed, .depth = {}, .haystack = {}});
    EXPECT_EQ(task.answer, " not mentioned");
    const size_t at = task.question.find(" for ");
    if (!task.question.starts_with("What is the special magic number")) continue;
    const std::string key = task.question.substr(at + 5, task.question.size() - at - 6);
    EXPECT_EQ(occurrences(task.context, key), 0) << "seed " << seed << ": " << key;
  }
}

TEST(Tasks, StandAtTheDepthAskedFor) {
  for (std::string_view kind : task_kinds()) {
    for (double depth : {0.0, 0.25, 0.5, 0.9, 1.0}) {
      const TaskSpec spec{.kind = std::string(kind), .seed = 3, .depth = depth, .haystack = {}};
      if (make_task({.kind = spec.kind, .depth = 0.5, .haystack = {}}, count_tokens).ok()) {
        const Task task = make(spec);
        const auto before =
            static_cast<double>(count_tokens(task.context.substr(0, task.context.find(task.gold_facts[0]))));
        const double measured = before / static_cast<double>(count_tokens(task.context));
        // A quoted sentence can only be the nearest that suits; distractors move a planted one a little.
        EXPECT_NEAR(measured, depth, 0.08) << kind << " at " << depth;
        EXPECT_NEAR(measured, task.depth, 0.02) << kind << " at " << depth;
      }
    }
  }
}

TEST(Tasks, AreTheSameForTheSameSeedAndDifferForAnother) {
  for_each_kind([](const TaskSpec& spec) {
    const Task task = make(spec);
    EXPECT_EQ(task.user_message(), make(spec).user_message()) << label(spec);
    TaskSpec other = spec;
    other.seed += 100;
    EXPECT_NE(task.context, make(other).context) << label(spec);
  });
}

TEST(Tasks, PlantOneFactAloneOnRequest) {
  const Task task = make({.kind = "num", .seed = 9, .depth = {}, .haystack = {}, .single = true});
  EXPECT_EQ(occurrences(task.context, task.gold_strings[0]), 1);
  int digits = 0;
  for (unsigned char c : task.context) digits += std::isdigit(c) != 0 ? 1 : 0;
  EXPECT_EQ(digits, static_cast<int>(task.answer.size()));
}

TEST(Tasks, RefuseWhatCannotBeMade) {
  const auto message = [](const TaskSpec& spec) {
    const auto task = make_task(spec, count_tokens);
    return task.ok() ? std::string("made") : task.error().message;
  };
  EXPECT_NE(message({.kind = "sum", .depth = {}, .haystack = {}}).find("unknown task kind 'sum'"), std::string::npos);
  EXPECT_NE(message({.kind = "num", .depth = 1.5, .haystack = {}}).find("outside 0 to 1"), std::string::npos);
  EXPECT_NE(message({.kind = "multi", .depth = 0.5, .haystack = {}}).find("leave the depth out"), std::string::npos);
  EXPECT_NE(message({.kind = "num", .target_tokens = 40, .depth = {}, .haystack = {}}).find("does not fit in 40"),
            std::string::npos);
  EXPECT_NE(message({.kind = "num", .depth = {}, .haystack = text_haystack("Too short. Far too short.", 1)})
                .find("too short"),
            std::string::npos);
}

TEST(TaskKinds, PlantFewOthersOnRequest) {
  for (const TaskKind& kind : task_kind_table()) {
    if (kind.make == nullptr) continue;  // quote plants nothing
    size_t most = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      Random random(seed);
      const Facts facts = kind.make(random, {.depth = random.uniform(), .max_lines = 24, .few = true});
      const Facts plenty = kind.make(random, {.depth = random.uniform(), .max_lines = 24});
      EXPECT_EQ(facts.gold.empty(), kind.name == "none") << kind.name;
      for (const size_t line : facts.gold) EXPECT_LT(line, facts.lines.size()) << kind.name;
      EXPECT_FALSE(facts.answer.empty()) << kind.name;
      most = std::max(most, facts.lines.size());
      if (kind.name == "num") {
        EXPECT_LE(facts.lines.size(), 4u);
        EXPECT_GE(plenty.lines.size(), 4u);
      }
      if (kind.name == "multi") {
        EXPECT_LE(facts.lines.size() - facts.gold.size(), 2u);
      }
    }
    EXPECT_LE(most, 15u) << kind.name;  // three chains of five names
  }
}

TEST(Haystack, GivesEverySentenceOfATextOnce) {
  const std::string text = "One is here. Two said, \"No!\" and left?\n\nThree has 3.5 parts. Four ends";
  Haystack haystack = text_haystack(text, 5);
  std::multiset<std::string> pieces;
  for (std::string piece = haystack(); !piece.empty(); piece = haystack()) pieces.insert(piece);
  EXPECT_EQ(pieces, (std::multiset<std::string>{" One is here.", " Two said, \"No!\"", " and left?",
                                                "\n\nThree has 3.5 parts.", " Four ends"}));
}

TEST(Haystack, ReportsAFileThatIsNotThere) {
  const auto haystack = file_haystack("no-such-file.txt", 1);
  ASSERT_FALSE(haystack.ok());
  EXPECT_NE(haystack.error().message.find("no-such-file.txt"), std::string::npos);
}

TEST(ParaFacts, NameTheirKeyAndValue) {
  for (const ParaFact& fact : para_facts()) {
    for (std::string_view form : fact.statements) {
      EXPECT_EQ(occurrences(form, "{k}"), 1) << form;
      EXPECT_EQ(occurrences(form, "{v}"), 1) << form;
    }
    for (std::string_view form : fact.questions) EXPECT_EQ(occurrences(form, "{k}"), 1) << form;
  }
}

TEST(DemoStory, HidesOneFactThatChangesWithTheSeed) {
  std::set<std::string> facts;
  std::set<int> tenths;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto story = make_demo_story(seed, 8192, count_tokens);
    ASSERT_TRUE(story.ok()) << "seed " << seed << ": " << story.error().message;
    EXPECT_EQ(occurrences(story->text, story->fact), 1) << "seed " << seed;
    EXPECT_EQ(occurrences(story->text, story->answer), 1) << "seed " << seed;
    EXPECT_GT(story->depth, 0.08) << "seed " << seed;
    EXPECT_LT(story->depth, 0.92) << "seed " << seed;
    EXPECT_LE(count_tokens(story->text + "\n\n" + story->question), 8192) << "seed " << seed;
    facts.insert(story->fact);
    tenths.insert(static_cast<int>(story->depth * 10));
  }
  EXPECT_EQ(facts.size(), 12u);
  EXPECT_GE(tenths.size(), 4u);
}

}  // namespace
}  // namespace ei::eval
