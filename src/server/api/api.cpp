#include "server/api/api.h"

#include <algorithm>
#include <ctime>

#include "server/api/prompt_limit.h"

namespace ei::server {

int64_t Api::context() const {
  const int64_t asked = scheduler.options().session.context;
  return asked > 0 ? asked : engine.config().context;
}

void Call::send(const Json& json) const { reply->send({.body = dump(json)}); }
void Call::refuse(const ApiError& error) const {
  if (error.status == kReadElsewhere && read_elsewhere) return read_elsewhere();
  reply->send(error.to_response());
}

const std::vector<Route>& routes() {
  static const std::vector<Route> table = {
      {"POST", "/completion", route_completion},
      {"POST", "/completions", route_completion},
      {"POST", "/v1/completions", route_text_completion},
      {"POST", "/chat/completions", route_chat_completion},
      {"POST", "/v1/chat/completions", route_chat_completion},
      {"POST", "/chat/completions/input_tokens", route_count_chat},
      {"POST", "/v1/chat/completions/input_tokens", route_count_chat},
      {"POST", "/v1/messages", route_messages},
      {"POST", "/v1/messages/count_tokens", route_count_messages},
      {"POST", "/responses", route_responses},
      {"POST", "/v1/responses", route_responses},
      {"POST", "/texts", route_leave_text},
      {"POST", "/tokenize", route_tokenize},
      {"POST", "/detokenize", route_detokenize},
      {"GET", "/tokenizer_info", route_tokenizer_info},
      {"POST", "/apply-template", route_apply_template},
      {"GET", "/models", route_models},
      {"GET", "/v1/models", route_models},
      {"GET", "/props", route_props},
      {"GET", "/version", route_version},
      {"GET", "/slots", route_slots},
      {"GET", "/metrics", route_metrics},
  };
  return table;
}

Facts facts_of(const Api& api, const char* id_prefix) {
  return {.model = api.model_name(),
          .fingerprint = "b" + api.options.version + "-" + api.options.commit,
          .id = id_prefix + random_name(),
          .created = static_cast<int64_t>(std::time(nullptr)),
          .tokenizer = &api.tokenizer()};
}

namespace {
constexpr size_t kMaxAnswers = 128;  // to all prompts of a request together
// The same: every answer has a copy.
constexpr size_t kMaxBiasCopies = 1'000'000;

// By the clock of now_s(), from the request's last byte on; 0: none. The operator's, where that is sooner.
double deadline_of(const Call& call, const Params& params) {
  double seconds = params.timeout_s;
  const double most = call.api.options.limits.most_s;
  if (most > 0 && (seconds <= 0 || seconds > most)) seconds = most;
  return seconds > 0 ? call.arrived_s + seconds : 0;
}

std::optional<ApiError> limit_answers(const TextRequest& request) {
  const size_t prompts = request.prompts.size();
  const size_t answers = prompts * static_cast<size_t>(request.params.choices);
  if (answers > kMaxAnswers)
    return invalid_field("n", str_format("asks for %d answers to each of %zu prompts: a request may have %zu answers",
                                         request.params.choices, prompts, kMaxAnswers));
  const size_t biases = request.params.generate.sampler.logit_bias.size();
  if (biases * answers > kMaxBiasCopies)
    return invalid_field("logit_bias", str_format("names %zu tokens for each of %zu answers: a request may have %zu, "
                                                  "all answers together",
                                                  biases, answers, kMaxBiasCopies));
  return std::nullopt;
}

// A stream shows those of its prompts in one event, which is made between the steps of all others.
constexpr int64_t kStreamShare = 16;

// An answer without a length of its own gets the longest that there is room for.
std::optional<ApiError> limit_probabilities(TextRequest& request, const Api& api) {
  Params& params = request.params;
  if (params.probabilities == 0) return std::nullopt;
  const bool keeps_answers = !params.stream;
  const bool endless = params.generate.max_tokens < 0;
  int64_t kept = 0;  // tokens
  for (const std::vector<int32_t>& prompt : request.prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    if (params.scores_prompt) kept += params.choices * length;
    if (keeps_answers && !endless)
      kept += params.choices * std::min<int64_t>(params.generate.max_tokens, api.context() - length);
  }
  const ParamLimits& limits = api.options.limits;
  if (params.stream && params.probabilities > limits.most_streamed)
    return invalid_field(params.probabilities_by,
                         str_format("asks for %d likely tokens: each event of a stream may have %d",
                                    params.probabilities, limits.most_streamed));
  const auto answers = static_cast<int64_t>(request.prompts.size()) * params.choices;
  const int64_t all = params.stream ? limits.most_probabilities / kStreamShare : limits.most_probabilities;
  const int64_t most = all / params.probabilities;
  if (kept + (keeps_answers && endless ? answers : 0) > most)
    return invalid_field(
        params.probabilities_by,
        str_format("asks for %d of each of %lld tokens: %s may have %lld, all tokens together; a stream "
                   "keeps those of its prompts alone",
                   params.probabilities, static_cast<long long>(std::max(kept, answers)),
                   params.stream ? "a stream" : "a request", static_cast<long long>(all)));
  if (keeps_answers && endless) params.generate.max_tokens = (most - kept) / answers;
  return std::nullopt;
}
}  // namespace

void submit(const Call& call, TextRequest request) {
  const Api& api = call.api;
  Params& params = request.params;
  // A bad grammar is the request's fault, and known before anything waits for it.
  const auto sampler = text::Sampler::create(api.tokenizer(), params.generate.sampler);
  if (!sampler.ok()) {
    ApiError error = from_engine(sampler.error());
    if (error.status == 400) error.param = params.shaped_by;
    return call.refuse(error);
  }
  if (const auto error = limit_answers(request)) return call.refuse(*error);
  const int64_t context = api.context();
  for (const std::vector<int32_t>& prompt : request.prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    if (length == 0) return call.refuse(invalid_field("prompt", "has no tokens"));
    if (length >= context) return call.refuse(too_long(length, context));
  }
  if (const auto error = limit_probabilities(request, api)) return call.refuse(*error);
  const auto responder = std::make_shared<Responder>(call.reply, std::move(request.format), params, Headers{},
                                                     call.gone, api.long_answers);
  std::vector<Task> tasks;
  for (std::vector<int32_t>& prompt : request.prompts) {
    const int64_t room = context - static_cast<int64_t>(prompt.size());
    const std::string text = request.shows_prompt ? api.tokenizer().detokenize(prompt, /*special=*/true) : "";
    for (int n = 0; n < params.choices; ++n) {
      Task task{.prompt = prompt, .generate = params.generate, .method = params.method};
      Choice& choice = responder->add_choice();
      choice.prompt = text;
      choice.same_prompt = n > 0;
      choice.capped = task.generate.max_tokens < 0 || task.generate.max_tokens > room;
      if (choice.capped) task.generate.max_tokens = room;
      // The same seed would write the same answer again.
      if (n > 0 && task.generate.sampler.seed != text::kRandomSeed)
        task.generate.sampler.seed += static_cast<uint32_t>(n);
      task.cache_prompt = params.cache_prompt;
      task.slot = n == 0 ? params.slot : -1;
      task.probabilities = params.probabilities;
      task.heads = params.return_heads;
      task.scores_prompt = params.scores_prompt;
      task.deadline_s = deadline_of(call, params);
      if (params.stream) task.patience_s = call.arrived_s + api.options.http.keep_alive_s;
      task.line_after_s = params.line_after_s;
      task.priority = params.priority;
      task.cancel = call.gone;
      task.sink = responder->sink_of(choice.index);
      tasks.push_back(std::move(task));
    }
  }
  if (!api.scheduler.submit(std::move(tasks))) call.refuse(too_busy(1));
}

}  // namespace ei::server
