#include "server/api/answer_parser.h"

#include <gtest/gtest.h>

namespace ei::server {
namespace {

struct Case {
  const char* name;
  AnswerStyle style;
  const char* text;
  const char* content;
  const char* thought;
  std::vector<std::string> calls;  // "name arguments"
};

std::vector<std::string> spelled(const std::vector<ToolCall>& calls) {
  std::vector<std::string> list;
  for (const ToolCall& call : calls) list.push_back(call.name + " " + call.arguments);
  return list;
}

const std::vector<Case>& cases() {
  static const AnswerStyle tagged{.calls = CallStyle::kTagged};
  static const std::vector<Case> list = {
      {"words", {}, " Two words.", " Two words.", "", {}},
      {"thought", {}, "<think>\nhm\n</think>\n\nYes.", "Yes.", "hm", {}},
      {"begun thought", {.begins_thinking = true}, "hm\n</think>\nYes.", "Yes.", "hm", {}},
      {"thought left in", {.parts_thoughts = false}, "<think>a</think>b", "<think>a</think>b", "", {}},
      {"unfinished thought", {}, "<think>hm", "", "hm", {}},
      {"almost a thought", {}, "<thin", "<thin", "", {}},
      {"call", tagged, "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>", "", "", {"f {\"a\":1}"}},
      {"words and calls",
       tagged,
       "Wait.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>",
       "Wait.",
       "",
       {"f {}", "g {}"}},
      {"thought and call",
       tagged,
       "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
       "",
       "a",
       {"f {}"}},
      {"no call after all", tagged, "<tool_call>{oh</tool_call>", "<tool_call>{oh</tool_call>", "", {}},
      {"unfinished marker", tagged, "a <tool_c", "a <tool_c", "", {}},
      {"plain", {.calls = CallStyle::kPlain}, "{\"name\":\"f\",\"parameters\":{\"a\":2}}", "", "", {"f {\"a\":2}"}},
      {"plain words", {.calls = CallStyle::kPlain}, "{not json", "{not json", "", {}},
      {"list",
       {.calls = CallStyle::kList},
       "[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{}}]",
       "",
       "",
       {"f {}", "g {}"}},
      {"marked list", {.calls = CallStyle::kList}, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}]", "", "", {"f {}"}},
      {"wrapped",
       {.calls = CallStyle::kWrapped},
       "{\"tool_call\":{\"name\":\"f\",\"arguments\":{}}}",
       "",
       "",
       {"f {}"}},
      {"wrapped words", {.calls = CallStyle::kWrapped}, "{\"response\":\"Yes.\"}", "Yes.", "", {}},
  };
  return list;
}

TEST(AnswerParser, PartsWordsThoughtsAndCallsHoweverTheTextIsCut) {
  for (const Case& one : cases()) {
    const std::string text = one.text;
    for (size_t size = 1; size <= text.size(); ++size) {
      AnswerParser parser(one.style);
      AnswerDelta all;
      const auto add = [&](const AnswerDelta& delta) {
        all.content += delta.content;
        all.thought += delta.thought;
        all.calls.insert(all.calls.end(), delta.calls.begin(), delta.calls.end());
      };
      for (size_t at = 0; at < text.size(); at += size) add(parser.feed(text.substr(at, size)));
      add(parser.finish());
      EXPECT_EQ(all.content, one.content) << one.name << " in pieces of " << size;
      EXPECT_EQ(all.thought, one.thought) << one.name << " in pieces of " << size;
      EXPECT_EQ(spelled(all.calls), one.calls) << one.name << " in pieces of " << size;
    }
  }
}

TEST(AnswerParser, WordsAreNotHeldBack) {
  AnswerParser parser({.calls = CallStyle::kTagged});
  EXPECT_EQ(parser.feed("Hello").content, "Hello");
  EXPECT_EQ(parser.feed(" you <").content, " you");
  EXPECT_EQ(parser.feed("3").content, " <3");
}

}  // namespace
}  // namespace ei::server
