#include "request_walk.h"

#include "engine/prompt.h"
#include "server/api/call_style.h"
#include "support/waiting_reply.h"

namespace ei::fuzz {
namespace {

using server::CallStyle;
using server::HttpResponse;
using server::Json;

// The template shows every part of a message, so that all of them are written out.
constexpr const char* kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

bool is_error(int status) { return status >= 400; }
constexpr int kDropped = 503;

// An error of the request's own, in the shape of OpenAI's.
std::string wrong_error(const HttpResponse& response) {
  const Json json = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "an error that is no JSON object";
  const Json error = json.value("error", Json(nullptr));
  if (!error.is_object()) return "an error without 'error'";
  const Json message = error.value("message", Json(nullptr));
  return message.is_string() && !message.get<std::string>().empty() ? "" : "an error without a message";
}

}  // namespace

RequestWalk::RequestWalk(const std::string& model) {
  EngineOptions options;
  options.model_path = model;
  options.backend_options.threads = 1;
  Result<std::unique_ptr<Engine>> engine = Engine::load(options);
  if (!engine.ok()) {
    failure_ = engine.error().message;
    return;
  }
  engine_ = std::move(*engine);
  options_.names = {"walk"};
  scheduler_ = std::make_unique<server::Scheduler>(*engine_, options_.scheduler);
}

RequestWalk::~RequestWalk() = default;

int64_t RequestWalk::submitted() const { return scheduler_->totals().cancelled; }

std::string RequestWalk::ask(const server::Api& api, const server::Route& route, const std::string& body) {
  const int64_t before = submitted();
  server::HttpRequest request{.method = "POST", .path = route.path, .body = body};
  const auto answer = std::make_shared<server::WaitingReply>();
  try {
    // Its client has gone, so that the scheduler drops what it is given before a token is computed.
    const auto gone = std::make_shared<CancelToken>();
    gone->cancel();
    route.run({.api = api, .request = request, .reply = answer, .gone = gone});
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();  // the server would say 500
  }
  const HttpResponse response = answer->wait();
  if (answer->answers() != 1) return "answered more than once";
  if (response.status == kDropped && submitted() == before) return "dropped before the scheduler: " + response.body;
  if (!is_error(response.status) || response.status == kDropped) {
    ++taken_;
    return "";
  }
  if (response.status >= 500) return "answered with " + std::to_string(response.status) + ": " + response.body;
  return wrong_error(response);
}

std::string RequestWalk::complaint(const std::string& body) {
  // A template that writes calls in each of the ways, and none at all.
  for (const CallStyle style : {CallStyle::kTagged, CallStyle::kPlain, CallStyle::kList, CallStyle::kWrapped}) {
    Result<text::ChatTemplate> chat = choose_template(kTemplate, engine_->tokenizer());
    if (!chat.ok()) return chat.error().message;
    const server::Api api{.engine = *engine_,
                          .options = options_,
                          .scheduler = *scheduler_,
                          .shelf = shelf_,
                          .chat = std::move(*chat),
                          .calls = style};
    for (const server::Route& route : server::routes()) {
      const std::string path = route.path;
      const bool chats = path.find("chat") != path.npos || path.find("messages") != path.npos ||
                         path.find("responses") != path.npos || path == "/apply-template";
      if (route.method != std::string("POST") || (!chats && style != CallStyle::kTagged)) continue;
      if (const std::string wrong = ask(api, route, body); !wrong.empty()) return path + ": " + wrong;
    }
  }
  return "";
}

}  // namespace ei::fuzz
