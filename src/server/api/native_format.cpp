#include <algorithm>
#include <cmath>

#include "server/api/completion_format.h"

namespace ei::server {

namespace {
using Ending = Generation::Ending;

const char* stop_type(Ending ending) {
  if (ending == Ending::kEndToken) return "eos";
  if (ending == Ending::kStopString) return "word";
  return ending == Ending::kNone ? "none" : "limit";
}

// "generation_settings/n_predict" names a member of a member.
Json chosen_fields(const Json& all, const std::vector<std::string>& names) {
  if (names.empty()) return all;
  Json chosen = Json::object();
  for (const std::string& name : names) {
    const Json* at = &all;
    for (size_t begin = 0; at != nullptr && begin <= name.size();) {
      const size_t end = std::min(name.find('/', begin), name.size());
      const auto found = at->is_object() ? at->find(name.substr(begin, end - begin)) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
      begin = end + 1;
    }
    if (at != nullptr) chosen[name] = *at;
  }
  return chosen;
}

class NativeFormat : public Format {
 public:
  NativeFormat(const Facts& facts, const Params& params, bool many) : facts_(facts), params_(params), many_(many) {}

  Json whole(const std::vector<Choice>& choices) override {
    if (!many_) return one(choices.front());
    Json list = Json::array();
    for (const Choice& choice : choices) list.push_back(one(choice));
    return list;
  }

  std::string progress(const Choice& choice) override {
    Json json = head(choice, "");
    json["prompt_progress"] = progress_json(choice.report);
    json["timings"] = timings_json(choice.report);
    return event_text(json);
  }

  std::string piece(const Choice& choice, const TaskToken& token) override {
    Json json = head(choice, token.text);
    if (token.token != text::kNoToken) json["tokens"].push_back(token.token);
    if (token.own) json["completion_probabilities"] = probabilities_json({token}, *facts_.tokenizer, drawn());
    if (params_.timings_per_token) json["timings"] = timings_json(choice.report);
    return event_text(json);
  }

  std::string ending(const Choice& choice) override {
    Json json = one(choice);
    if (json.contains("content")) json["content"] = "";
    return event_text(json);
  }

  std::string closing(const std::vector<Choice>&) override { return {}; }

 private:
  bool drawn() const { return params_.generate.sampler.candidates > 0; }
  static Json head(const Choice& choice, const std::string& text) {
    return {{"index", choice.index},
            {"content", text},
            {"tokens", Json::array()},
            {"stop", false},
            {"id_slot", choice.report.slot},
            {"tokens_predicted", choice.report.generated_tokens},
            {"tokens_evaluated", choice.report.prompt_tokens}};
  }

  Json one(const Choice& choice) const {
    const TaskReport& report = choice.report;
    Params used = params_;
    used.generate.sampler.seed = report.seed;
    Json json = {{"index", choice.index},
                 {"content", choice.text},
                 {"tokens", params_.return_tokens ? Json(choice.tokens) : Json::array()},
                 {"id_slot", report.slot},
                 {"stop", true},
                 {"model", facts_.model},
                 {"tokens_predicted", report.generated_tokens},
                 {"tokens_evaluated", report.prompt_tokens},
                 {"generation_settings", settings_json(used, *facts_.tokenizer)},
                 {"prompt", choice.prompt},
                 {"has_new_line", choice.text.find('\n') != std::string::npos},
                 {"truncated", choice.capped && report.ending == Ending::kLength},
                 {"stop_type", stop_type(report.ending)},
                 {"stopping_word", report.stopped_by},
                 {"tokens_cached", report.prompt_tokens + std::max<int64_t>(report.generated_tokens - 1, 0)},
                 {"timings", timings_json(report)}};
    if (!params_.stream && !choice.probabilities.empty())
      json["completion_probabilities"] = probabilities_json(choice.probabilities, *facts_.tokenizer, drawn());
    return chosen_fields(json, params_.response_fields);
  }

  const Facts facts_;
  const Params params_;
  const bool many_;
};
}  // namespace

Json timings_json(const TaskReport& report) {
  const auto rate = [](int64_t count, double seconds) {
    return seconds > 0 && count > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  const auto each_ms = [](int64_t count, double seconds) {
    return count > 0 ? seconds * 1e3 / static_cast<double>(count) : 0.0;
  };
  const double predicted_ms = report.generate_s * 1e3;
  const int64_t steps = std::max<int64_t>(report.generated_tokens - 1, 0);  // the first comes with the prompt
  Json json = {{"cache_n", report.cached_tokens},
               {"prompt_n", report.read_tokens},
               {"prompt_ms", report.prompt_s * 1e3},
               {"prompt_per_token_ms", each_ms(report.read_tokens, report.prompt_s)},
               {"prompt_per_second", rate(report.read_tokens, report.prompt_s)},
               {"predicted_n", report.generated_tokens},
               {"predicted_ms", predicted_ms},
               {"predicted_per_token_ms", each_ms(steps, report.generate_s)},
               {"predicted_per_second", predicted_ms > 0 ? 1e3 / predicted_ms * static_cast<double>(steps) : 0.0},
               {"queue_ms", report.queue_s * 1e3},
               {"density", report.density},
               {"kv_tokens_kept", report.kv_tokens_kept},
               {"kv_tokens_total", report.kv_tokens_total},
               {"kv_bytes", report.kv_bytes},
               {"compressions", report.compressions}};
  if (report.heads && !report.heads->summary.empty()) json["heads"] = head_summary_json(*report.heads);
  return json;
}

Json progress_json(const TaskReport& report) {
  Json json = {{"total", report.prompt_tokens},
               {"cache", report.cached_tokens},
               {"processed", report.cached_tokens + report.read_tokens},
               {"time_ms", report.prompt_s * 1e3}};
  if (report.heads && !report.heads->columns.empty()) json["heads"] = head_trace_json(*report.heads);
  return json;
}

Json probabilities_json(const std::vector<TaskToken>& tokens, const text::Tokenizer& tokenizer, bool drawn) {
  const auto describe = [&](const TokenProbability& probability) {
    const std::string piece = tokenizer.piece(probability.token, /*special=*/true);
    Json bytes = Json::array();
    for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
    Json json = {{"id", probability.token}, {"token", piece}, {"bytes", std::move(bytes)}};
    if (drawn) {
      json["prob"] = std::exp(probability.log_probability);
    } else {
      json["logprob"] = probability.log_probability;
    }
    return json;
  };
  Json list = Json::array();
  for (const TaskToken& token : tokens) {
    Json json = describe(*token.own);
    Json top = Json::array();
    for (const TokenProbability& likely : token.top) top.push_back(describe(likely));
    json[drawn ? "top_probs" : "top_logprobs"] = std::move(top);
    list.push_back(std::move(json));
  }
  return list;
}

std::unique_ptr<Format> native_format(const Facts& facts, const Params& params, bool many) {
  return std::make_unique<NativeFormat>(facts, params, many);
}

}  // namespace ei::server
