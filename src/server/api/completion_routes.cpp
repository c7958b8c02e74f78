// /completion, /v1/completions, /v1/chat/completions: text for a prompt.
#include <algorithm>

#include "server/api/api.h"

namespace ei::server {

namespace {
constexpr int kMostLogprobs = 100;
constexpr int kMostTopLogprobs = 20;  // as OpenAI
constexpr int64_t kMostBestOf = int64_t{1} << 31;

// logprobs: a number (OpenAI's completions) or true with top_logprobs (its chat). llama.cpp's n_probs asks for as many
// here as the first of them, not for the whole vocabulary: `top_logprobs` is an object, and to fill one takes n^2 / 2
// steps.
void read_logprobs(Fields& fields, Params& params) {
  params.generate.sampler.candidates = 0;  // OpenAI's are those of all logits
  const auto take = [&](const char* name, int least, int most) {
    params.probabilities = std::max(static_cast<int>(fields.whole(name, 0, 0, most)), least);
    params.probabilities_by = name;
  };
  const Json* logprobs = fields.find("logprobs");
  if (logprobs == nullptr || (logprobs->is_boolean() && !logprobs->get<bool>()))
    return take("n_probs", 0, kMostLogprobs);
  if (logprobs->is_boolean()) return take("top_logprobs", 1, kMostTopLogprobs);
  take("logprobs", 1, kMostLogprobs);
}
// Of OpenAI's completions, as llama-server does.
void refuse_more_than_there_is(Fields& fields, const Params& params) {
  if (!fields.text("suffix").empty()) fields.fail("suffix", "is not supported: leave it out");
  if (fields.whole("best_of", 1, 1, kMostBestOf) > params.choices)
    fields.fail("best_of", "is not supported: leave it out, or as many as 'n'");
}
}  // namespace

void route_completion(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  TextRequest request;
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  Prompts prompts = fields.error() ? Prompts{} : read_prompts(fields, "prompt", call);
  if (fields.error()) return call.refuse(*fields.error());
  const bool many = prompts.many || request.params.choices > 1;
  request.prompts = std::move(prompts.tokens);
  request.format = native_format(facts_of(call.api, ""), request.params, many);
  request.shows_prompt = true;
  submit(call, std::move(request));
}

void route_text_completion(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  TextRequest request;
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  read_logprobs(fields, request.params);
  refuse_more_than_there_is(fields, request.params);
  request.params.echo = fields.flag("echo", false);
  // OpenAI's 0 asks for the tokens' own log-probabilities alone.
  request.params.scores_prompt = request.params.echo && fields.has("logprobs");
  if (request.params.scores_prompt) request.params.cache_prompt = false;
  Prompts prompts = fields.error() ? Prompts{} : read_prompts(fields, "prompt", call);
  if (fields.error()) return call.refuse(*fields.error());
  request.prompts = std::move(prompts.tokens);
  request.format = text_format(facts_of(call.api, "cmpl-"), request.params);
  request.shows_prompt = request.params.verbose || request.params.echo;
  submit(call, std::move(request));
}

void route_chat_completion(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  TextRequest request;
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  read_logprobs(fields, request.params);
  read_response_format(fields, request.params, "response_format", fields.find("response_format"));
  if (!fields.error()) take_chat(fields, read_chat(fields, call, ChatUse::kAnswer), request);
  if (fields.error()) return call.refuse(*fields.error());
  request.format = chat_format(facts_of(call.api, "chatcmpl-"), request.params);
  request.shows_prompt = request.params.verbose;
  submit(call, std::move(request));
}

void route_count_chat(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  Fields fields(body.json);
  const ChatPrompt prompt = read_chat(fields, call, ChatUse::kCount);
  if (fields.error()) return call.refuse(*fields.error());
  call.send(Json{{"input_tokens", prompt.tokens.size()}});
}

}  // namespace ei::server
