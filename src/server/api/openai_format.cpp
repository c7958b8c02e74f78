#include <algorithm>
#include <utility>

#include "server/api/completion_format.h"

namespace ei::server {

namespace {
// That begin in `piece`: the halves of one that tokens share add up.
size_t characters(const std::string& piece) {
  return static_cast<size_t>(std::count_if(piece.begin(), piece.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// What text and chat completions have in common.
class OpenAiFormat : public Format {
 public:
  OpenAiFormat(const Facts& facts, const Params& params, const char* whole_object, const char* chunk_object)
      : facts_(facts), params_(params), whole_object_(whole_object), chunk_object_(chunk_object) {}

  Json whole(const std::vector<Choice>& choices) override {
    Json json = envelope(whole_object_);
    for (const Choice& choice : choices) {
      Json one = whole_choice(choice);
      if (choices.size() > 1) one["timings"] = timings_json(choice.report);
      json["choices"].push_back(std::move(one));
    }
    json["usage"] = usage_json(choices);
    json["timings"] = timings_json(choices.front().report);
    if (params_.verbose) json["__verbose"] = native_format(facts_, params_, false)->whole(choices);
    return json;
  }

  std::string progress(const Choice& choice) override {
    Json json = envelope(chunk_object_);
    json["prompt_progress"] = progress_json(choice.report);
    json["timings"] = timings_json(choice.report);
    return event_text(json);
  }

  std::string closing(const std::vector<Choice>& choices) override {
    std::string events;
    if (params_.include_usage) {
      Json json = envelope(chunk_object_);
      json["usage"] = usage_json(choices);
      json["timings"] = timings_json(choices.front().report);
      events = event_text(json);
    }
    return events + "data: [DONE]\n\n";
  }

 protected:
  virtual Json whole_choice(const Choice& choice) const = 0;

  Json envelope(const char* object) const {
    return {{"choices", Json::array()}, {"created", facts_.created},
            {"model", facts_.model},    {"system_fingerprint", facts_.fingerprint},
            {"object", object},         {"id", facts_.id}};
  }

  std::string chunk(const Choice& choice, Json json, bool with_timings) const {
    Json made = envelope(chunk_object_);
    made["choices"].push_back(std::move(json));
    if (with_timings) made["timings"] = timings_json(choice.report);
    return event_text(made);
  }

  const Facts facts_;
  const Params params_;
  const char* const whole_object_;
  const char* const chunk_object_;
};

class TextFormat : public OpenAiFormat {
 public:
  TextFormat(const Facts& facts, const Params& params)
      : OpenAiFormat(facts, params, "text_completion", "text_completion") {}

  std::string opening(const std::vector<Choice>& choices) override {
    told_.resize(choices.size());
    return {};
  }

  std::string piece(const Choice& choice, const TaskToken& token) override {
    const std::string before = echoed(choice);
    Json scores;
    if (token.own) scores = logprobs({}, {token}, told_of(choice).characters);
    return before + chunk(choice, streamed(choice, token.text, std::move(scores), nullptr), params_.timings_per_token);
  }

  std::string ending(const Choice& choice) override {
    const std::string before = echoed(choice);
    return before + chunk(choice, streamed(choice, "", nullptr, finish_reason(choice.report)), /*with_timings=*/true);
  }

 protected:
  Json whole_choice(const Choice& choice) const override {
    size_t offset = 0;
    return {{"text", (params_.echo ? choice.prompt : std::string()) + choice.text},
            {"index", choice.index},
            {"logprobs", choice.probabilities.empty() && choice.prompt_probabilities.empty()
                             ? Json(nullptr)
                             : logprobs(choice.prompt_probabilities, choice.probabilities, offset)},
            {"finish_reason", finish_reason(choice.report)}};
  }

 private:
  // Of a choice that is streamed.
  struct Told {
    size_t characters = 0;  // of the tokens so far, with those of an echoed prompt
    bool echoed = false;
  };
  Told& told_of(const Choice& choice) { return told_[static_cast<size_t>(choice.index)]; }

  static Json streamed(const Choice& choice, const std::string& text, Json scores, Json reason) {
    return {
        {"text", text}, {"index", choice.index}, {"logprobs", std::move(scores)}, {"finish_reason", std::move(reason)}};
  }

  // The prompt goes before all else of its choice. Its scores are there only when it has been read.
  std::string echoed(const Choice& choice) {
    if (!params_.echo || std::exchange(told_of(choice).echoed, true)) return {};
    Json scores;
    if (params_.scores_prompt) scores = logprobs(choice.prompt_probabilities, {}, told_of(choice).characters);
    return chunk(choice, streamed(choice, choice.prompt, std::move(scores), nullptr), params_.timings_per_token);
  }

  // OpenAI's lists side by side, and llama.cpp's objects of the answer's tokens under `content`. `offset`: characters
  // before them, and then behind them.
  Json logprobs(const std::vector<TaskToken>& prompt, const std::vector<TaskToken>& answer, size_t& offset) const {
    Json tokens = Json::array();
    Json own = Json::array();
    Json top = Json::array();
    Json offsets = Json::array();
    const auto add = [&](const TaskToken& token) {
      const std::string piece = facts_.tokenizer->piece(token.token, /*special=*/true);
      tokens.push_back(piece);
      own.push_back(token.own ? Json(token.own->log_probability) : Json(nullptr));
      Json likely = Json::object();
      // Two tokens may be spelled alike; the likelier one, which comes first, stays.
      for (const TokenProbability& one : token.top)
        likely.emplace(facts_.tokenizer->piece(one.token, /*special=*/true), one.log_probability);
      top.push_back(token.own ? std::move(likely) : Json(nullptr));
      offsets.push_back(offset);
      offset += characters(piece);
    };
    for (const TaskToken& token : prompt) add(token);
    for (const TaskToken& token : answer) add(token);
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(own)},
            {"top_logprobs", std::move(top)},
            {"text_offset", std::move(offsets)},
            {"content", probabilities_json(answer, *facts_.tokenizer)}};
  }

  std::vector<Told> told_{};  // [choices], of a stream
};

Json calls_json(const std::vector<ToolCall>& calls, size_t first, bool with_index) {
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Json call = {{"type", "function"},
                 {"id", "call_" + random_name()},
                 {"function", {{"name", calls[i].name}, {"arguments", calls[i].arguments}}}};
    if (with_index) call["index"] = first + i;
    list.push_back(std::move(call));
  }
  return list;
}

class ChatFormat : public OpenAiFormat {
 public:
  ChatFormat(const Facts& facts, const Params& params)
      : OpenAiFormat(facts, params, "chat.completion", "chat.completion.chunk") {}

  std::string opening(const std::vector<Choice>& choices) override {
    std::string events;
    for (const Choice& choice : choices) {
      parsers_.emplace_back(params_.style);
      calls_.push_back(0);
      events += delta(choice, {{"role", "assistant"}, {"content", nullptr}}, Json(nullptr), false);
    }
    return events;
  }

  std::string piece(const Choice& choice, const TaskToken& token) override {
    const AnswerDelta parsed = parsers_[static_cast<size_t>(choice.index)].feed(token.text);
    if (parsed.empty() && !token.own) return {};
    Json json = {{"finish_reason", nullptr}, {"index", choice.index}, {"delta", said(choice, parsed)}};
    if (token.own) json["logprobs"] = {{"content", probabilities_json({token}, *facts_.tokenizer)}};
    return chunk(choice, std::move(json), params_.timings_per_token);
  }

  std::string ending(const Choice& choice) override {
    const AnswerDelta rest = parsers_[static_cast<size_t>(choice.index)].finish();
    const std::string last = rest.empty() ? "" : delta(choice, said(choice, rest), Json(nullptr), false);
    const bool calls = calls_[static_cast<size_t>(choice.index)] > 0;
    const bool with_timings = !params_.include_usage || parsers_.size() > 1;  // those of one answer come with its usage
    return last + delta(choice, Json::object(), calls ? "tool_calls" : finish_reason(choice.report), with_timings);
  }

 protected:
  Json whole_choice(const Choice& choice) const override {
    const AnswerDelta answer = parse_answer(params_.style, choice.text);
    Json message = {{"role", "assistant"}, {"content", answer.content}};
    if (!answer.thought.empty()) message["reasoning_content"] = answer.thought;
    if (!answer.calls.empty()) {
      if (answer.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = calls_json(answer.calls, 0, /*with_index=*/false);
    }
    Json json = {{"finish_reason", answer.calls.empty() ? finish_reason(choice.report) : "tool_calls"},
                 {"index", choice.index},
                 {"message", std::move(message)}};
    if (!choice.probabilities.empty())
      json["logprobs"] = {{"content", probabilities_json(choice.probabilities, *facts_.tokenizer)}};
    return json;
  }

 private:
  std::string delta(const Choice& choice, Json content, Json reason, bool with_timings) const {
    Json json = {{"finish_reason", std::move(reason)}, {"index", choice.index}, {"delta", std::move(content)}};
    return chunk(choice, std::move(json), with_timings);
  }

  Json said(const Choice& choice, const AnswerDelta& parsed) {
    Json json = Json::object();
    if (!parsed.content.empty()) json["content"] = parsed.content;
    if (!parsed.thought.empty()) json["reasoning_content"] = parsed.thought;
    if (parsed.calls.empty()) return json;
    size_t& count = calls_[static_cast<size_t>(choice.index)];
    json["tool_calls"] = calls_json(parsed.calls, count, /*with_index=*/true);
    count += parsed.calls.size();
    return json;
  }

  std::vector<AnswerParser> parsers_{};  // [choices], of a stream
  std::vector<size_t> calls_{};          // [choices]: made so far
};
}  // namespace

const char* finish_reason(const TaskReport& report) {
  using Ending = Generation::Ending;
  return report.ending == Ending::kEndToken || report.ending == Ending::kStopString ? "stop" : "length";
}

Json usage_json(const std::vector<Choice>& choices) {
  int64_t generated = 0;
  int64_t asked = 0;
  int64_t cached = 0;
  for (const Choice& choice : choices) {
    generated += choice.report.generated_tokens;
    if (choice.same_prompt) continue;
    asked += choice.report.prompt_tokens;
    cached += choice.report.cached_tokens;
  }
  return {{"completion_tokens", generated},
          {"prompt_tokens", asked},
          {"total_tokens", generated + asked},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

std::unique_ptr<Format> text_format(const Facts& facts, const Params& params) {
  return std::make_unique<TextFormat>(facts, params);
}
std::unique_ptr<Format> chat_format(const Facts& facts, const Params& params) {
  return std::make_unique<ChatFormat>(facts, params);
}

}  // namespace ei::server
