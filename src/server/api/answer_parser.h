// AnswerParser: the text of an answer, piece by piece, into what it says, what it thinks (<think>…</think>) and the
// tools it calls. A call is handed over when it is whole; text that may still become a marker is held back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/tools.h"

namespace ei::server {

inline constexpr std::string_view kThink = "<think>";

struct AnswerStyle {
  CallStyle calls = CallStyle::kNone;
  bool parts_thoughts = true;    // false: they stay in the text
  bool begins_thinking = false;  // the prompt ended with <think>
};

struct AnswerDelta {
  std::string content{};
  std::string thought{};
  std::vector<ToolCall> calls{};

  bool empty() const { return content.empty() && thought.empty() && calls.empty(); }
};

class AnswerParser {
 public:
  explicit AnswerParser(const AnswerStyle& style);
  AnswerDelta feed(std::string_view piece);
  // The answer is over: what was held back.
  AnswerDelta finish();

 private:
  enum class State { kStart, kThinking, kText, kCall, kWhole };
  bool step(AnswerDelta& delta, bool over);
  bool step_start(AnswerDelta& delta, bool over);
  bool step_call(AnswerDelta& delta, bool over);
  bool step_until(std::string_view marker, std::string& into, bool over);

  const AnswerStyle style_;
  State state_;
  bool behind_marker_ = false;  // white space that follows one is part of it
  std::string held_{};
};

// All at once.
AnswerDelta parse_answer(const AnswerStyle& style, std::string_view text);

}  // namespace ei::server
