// Api: what every route knows. Const while the server runs.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "server/api/answer_parser.h"
#include "server/api/api_error.h"
#include "server/api/completion_format.h"
#include "server/api/params.h"
#include "server/api/responder.h"
#include "server/api/text_shelf.h"
#include "server/http/message.h"
#include "server/scheduler/scheduler.h"
#include "server/server.h"
#include "text/chat_template.h"

namespace ei::server {

struct Api {
  const Engine& engine;
  const ServerOptions& options;
  Scheduler& scheduler;
  TextShelf& shelf;
  std::optional<text::ChatTemplate> chat;  // none: neither asked for nor the model's
  CallStyle calls = CallStyle::kWrapped;   // of that template
  int64_t started = 0;                     // when the server began to listen, seconds since 1970
  Responder::Elsewhere long_answers{};     // where they are put into their shape

  const text::Tokenizer& tokenizer() const { return engine.tokenizer(); }
  int64_t context() const;  // tokens that one request may hold
  std::string model_name() const { return options.names.front(); }
};

// One request on its way through the API.
struct Call {
  const Api& api;
  const HttpRequest& request;
  std::shared_ptr<Reply> reply;
  std::shared_ptr<CancelToken> gone = std::make_shared<CancelToken>();  // raised when the client goes away
  double arrived_s = now_s();
  // Of texts that are read on this thread; with more of them the whole request goes to the next one.
  int64_t most_bytes = std::numeric_limits<int64_t>::max();
  std::function<void()> read_elsewhere{};

  void send(const Json& json) const;
  // Also where the error is kReadElsewhere.
  void refuse(const ApiError& error) const;
};
inline constexpr int kReadElsewhere = 0;  // an ApiError's status

using RouteFn = void (*)(const Call& call);
struct Route {
  const char* method;
  const char* path;
  RouteFn run;
};
// Everything that needs JSON or text; /health is answered before.
const std::vector<Route>& routes();

// A request for text: its prompts, what it says about them, and the shape of the answer.
struct TextRequest {
  std::vector<std::vector<int32_t>> prompts{};
  Params params{};
  std::unique_ptr<Format> format{};
  bool shows_prompt = false;
};
// Hands it to the scheduler, or answers why not.
void submit(const Call& call, TextRequest request);

Facts facts_of(const Api& api, const char* id_prefix);

// A prompt of /completion: a text, a list of tokens (and texts among them), {"prompt_string"}, {"prompt_parts"} (texts
// and {"text_id"}, joined), or a list of these.
struct Prompts {
  std::vector<std::vector<int32_t>> tokens{};
  bool many = false;  // a list was given
};
Prompts read_prompts(Fields& fields, const char* name, const Call& call);

// The messages of a chat as the prompt of its answer.
struct ChatPrompt {
  std::vector<int32_t> tokens{};
  std::string text{};
  AnswerStyle style{};  // of what the model will write
  CallGrammar grammar{};
};
// One that is to be answered must fit into the context; that it cannot is found before all of it is tokens.
enum class ChatUse : uint8_t { kAnswer, kCount, kText };
// Errors are left in `fields`.
ChatPrompt read_chat(Fields& fields, const Call& call, ChatUse use);
// The messages alone, in OpenAI's or Anthropic's shape.
std::vector<text::Message> read_messages(Fields& fields, const Call& call);
// What the chat's tools ask of the answer, beside what the request asks.
void take_chat(Fields& fields, ChatPrompt prompt, TextRequest& request);
// What the field `name` says of the answer's shape becomes a schema for the sampler: OpenAI's response_format, or the
// same with the schema beside its type (/v1/responses). `format` may be null.
void read_response_format(Fields& fields, Params& params, const char* name, const Json* format);

// Groups of routes, one file each.
void route_completion(const Call& call);
void route_text_completion(const Call& call);
void route_chat_completion(const Call& call);
void route_count_chat(const Call& call);
void route_messages(const Call& call);
void route_count_messages(const Call& call);
void route_responses(const Call& call);
void route_leave_text(const Call& call);
void route_tokenize(const Call& call);
void route_detokenize(const Call& call);
void route_tokenizer_info(const Call& call);
void route_apply_template(const Call& call);
void route_models(const Call& call);
void route_props(const Call& call);
void route_version(const Call& call);
void route_slots(const Call& call);
void route_metrics(const Call& call);
void route_slot_action(const Call& call);

}  // namespace ei::server
