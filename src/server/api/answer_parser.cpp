#include "server/api/answer_parser.h"

#include <algorithm>

namespace ei::server {

namespace {
constexpr std::string_view kThought = "</think>", kCall = "<tool_call>", kCalled = "</tool_call>";
constexpr std::string_view kListMark = "[TOOL_CALLS]";
constexpr std::string_view kSpace = " \t\r\n";

// How many characters at the end of `text` could be the beginning of `marker`.
size_t begun(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length)
    if (marker.starts_with(text.substr(text.size() - length))) return length;
  return 0;
}

bool whole_is_json(CallStyle style) {
  return style == CallStyle::kPlain || style == CallStyle::kList || style == CallStyle::kWrapped;
}
}  // namespace

AnswerParser::AnswerParser(const AnswerStyle& style)
    : style_(style), state_(style.begins_thinking && style.parts_thoughts ? State::kThinking : State::kStart) {}

AnswerDelta AnswerParser::feed(std::string_view piece) {
  held_ += piece;
  AnswerDelta delta;
  while (step(delta, /*over=*/false)) {
  }
  return delta;
}

AnswerDelta AnswerParser::finish() {
  AnswerDelta delta;
  while (step(delta, /*over=*/true)) {
  }
  return delta;
}

// Text up to `marker` goes out; true when the marker was found and taken.
bool AnswerParser::step_until(std::string_view marker, std::string& into, bool over) {
  if (behind_marker_) {
    const size_t text = std::min(held_.find_first_not_of(kSpace), held_.size());
    held_.erase(0, text);
    if (held_.empty()) return false;
    behind_marker_ = false;
  }
  const size_t at = held_.find(marker);
  size_t safe = at != std::string::npos ? at : held_.size() - (over ? 0 : begun(held_, marker));
  if (at != std::string::npos) {
    // White space in front of a marker is the template's, not the answer's.
    const size_t end = std::string_view(held_).substr(0, at).find_last_not_of(kSpace);
    into += held_.substr(0, end == std::string::npos ? 0 : end + 1);
    held_.erase(0, at + marker.size());
    behind_marker_ = true;
    return true;
  }
  if (!over) {
    const size_t end = std::string_view(held_).substr(0, safe).find_last_not_of(kSpace);
    safe = end == std::string::npos ? 0 : end + 1;
  }
  into += held_.substr(0, safe);
  held_.erase(0, safe);
  return false;
}

// The first characters decide: a thought, a call, or words.
bool AnswerParser::step_start(AnswerDelta&, bool over) {
  const size_t first = held_.find_first_not_of(kSpace);
  if (first == std::string::npos && !over) return false;
  const std::string_view text = first == std::string::npos ? std::string_view() : std::string_view(held_).substr(first);
  if (style_.parts_thoughts && text.starts_with(kThink)) {
    held_.erase(0, first + kThink.size());
    behind_marker_ = true;
    state_ = State::kThinking;
    return true;
  }
  if (style_.parts_thoughts && !over && begun(text, kThink) == text.size()) return false;
  const bool json = whole_is_json(style_.calls) && (text.starts_with('{') || text.starts_with('['));
  state_ = json ? State::kWhole : State::kText;
  return true;
}

bool AnswerParser::step_call(AnswerDelta& delta, bool over) {
  const size_t end = held_.find(kCalled);
  if (end == std::string::npos && !over) return false;
  const std::string inner = held_.substr(0, end);
  if (const auto calls = parse_calls(style_.calls, inner)) {
    delta.calls.insert(delta.calls.end(), calls->begin(), calls->end());
  } else {
    delta.content += std::string(kCall) + inner + (end == std::string::npos ? "" : std::string(kCalled));
  }
  held_.erase(0, end == std::string::npos ? held_.size() : end + kCalled.size());
  behind_marker_ = true;
  state_ = State::kText;
  return !held_.empty();
}

bool AnswerParser::step(AnswerDelta& delta, bool over) {
  switch (state_) {
    case State::kStart: return step_start(delta, over);
    case State::kThinking:
      if (!step_until(kThought, delta.thought, over)) return false;
      state_ = State::kStart;
      return true;
    case State::kText:
      if (style_.calls != CallStyle::kTagged) {
        if (behind_marker_) held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
        behind_marker_ = behind_marker_ && held_.empty();
        delta.content += std::exchange(held_, {});
        return false;
      }
      if (!step_until(kCall, delta.content, over)) return false;
      state_ = State::kCall;
      return true;
    case State::kCall: return step_call(delta, over);
    case State::kWhole: {
      if (!over || held_.empty()) return false;
      // A control token of some models, plain text of others.
      if (const size_t at = held_.find(kListMark); style_.calls == CallStyle::kList && at != std::string::npos)
        held_.erase(0, at + kListMark.size());
      const Json json = parse_inner(held_);
      if (auto calls = parse_calls(style_.calls, held_)) {
        delta.calls = std::move(*calls);
      } else if (style_.calls == CallStyle::kWrapped && json.is_object() &&
                 json.value("response", Json(0)).is_string()) {
        delta.content += json["response"].get<std::string>();
      } else {
        delta.content += held_;
      }
      held_.clear();
      return false;
    }
  }
  return false;
}

AnswerDelta parse_answer(const AnswerStyle& style, std::string_view text) {
  AnswerParser parser(style);
  AnswerDelta whole = parser.feed(text);
  AnswerDelta rest = parser.finish();
  whole.content += rest.content;
  whole.thought += rest.thought;
  whole.calls.insert(whole.calls.end(), rest.calls.begin(), rest.calls.end());
  return whole;
}

}  // namespace ei::server
