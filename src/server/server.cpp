#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "engine/prompt.h"
#include "server/api/access_line.h"
#include "server/api/api.h"
#include "server/api/keys.h"
#include "server/page.h"
#include "server/text_thread.h"

namespace ei::server {

namespace {
constexpr double kPollSeconds = 0.02;
constexpr size_t kWaitingTexts = 1024;  // requests whose JSON nobody has looked at yet

bool is_health(const HttpRequest& request) { return request.path == "/health" || request.path == "/v1/health"; }

const Route* find_route(const HttpRequest& request, bool* known_path) {
  for (const Route& route : routes()) {
    if (request.path != route.path) continue;
    *known_path = true;
    if (request.method == route.method) return &route;
  }
  return nullptr;
}
}  // namespace

struct Server::Impl {
  Impl(const Engine& of, ServerOptions asked, std::optional<text::ChatTemplate> chat)
      : options(std::move(asked)),
        scheduler(of, options.scheduler),
        api{.engine = of, .options = options, .scheduler = scheduler, .chat = std::move(chat)} {}

  void handle(HttpRequest request, std::shared_ptr<Reply> reply);
  void run(const HttpRequest& request, const std::shared_ptr<Reply>& reply);

  // Replies must go before the HTTP server they belong to: what holds them is declared behind it.
  std::unique_ptr<HttpServer> http;
  const ServerOptions options;
  Scheduler scheduler;
  const Api api;
  std::atomic<bool> draining{false};
  TextThread texts{kWaitingTexts};
};

// On the I/O thread: nothing here may take long.
void Server::Impl::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  const auto refuse = [&](const ApiError& error) { reply->send(error.to_response()); };
  if (is_health(request)) {
    if (draining) return refuse({.status = 503, .type = "unavailable_error", .message = "the server is stopping"});
    return reply->send({.body = R"({"status":"ok"})"});
  }
  if (options.page && request.method == "GET") {
    if (std::optional<HttpResponse> file = page_response(request.path)) return reply->send(std::move(*file));
  }
  if (!may_enter(request, options.keys))
    return refuse({.status = 401, .type = "authentication_error", .message = "a valid API key is needed"});
  if (draining) return refuse({.status = 503, .type = "unavailable_error", .message = "the server is stopping"});
  const bool taken = texts.post([this, request = std::move(request), reply] { run(request, reply); });
  if (!taken) refuse(too_busy(1));
}

// On the text thread.
void Server::Impl::run(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const Call call{.api = api, .request = request, .reply = reply};
  try {
    if (request.path.starts_with("/slots/") && request.method == "POST") return route_slot_action(call);
    bool known_path = false;
    const Route* route = find_route(request, &known_path);
    if (route != nullptr) return route->run(call);
    if (!known_path) return call.refuse(not_found(request.path));
    call.refuse({.status = 405, .message = "this path does not take " + one_line(request.method).substr(0, 20)});
  } catch (const std::bad_alloc&) {
    call.refuse({.status = 503, .type = "unavailable_error", .message = "out of memory for this request"});
  } catch (const std::exception& error) {
    call.refuse({.status = 500, .type = "server_error", .message = error.what()});
  }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::start(const Engine& engine, ServerOptions options) {
  std::optional<text::ChatTemplate> chat;
  if (has_template(options.chat_template, engine.tokenizer())) {
    EI_ASSIGN_OR_RETURN(chat, choose_template(options.chat_template, engine.tokenizer()));
  }
  if (options.names.empty()) options.names.emplace_back("entropyinfer");
  options.limits.slots = options.scheduler.slots;
  if (!options.kv_events.empty()) {
    EI_ASSIGN_OR_RETURN(options.scheduler.events, EventSocket::open(options.kv_events));
  }
  if (options.access_log)
    options.http.access = [log = options.access_log](const AccessRecord& record) { log(access_line(record)); };
  auto impl = std::make_unique<Impl>(engine, std::move(options), std::move(chat));
  EI_ASSIGN_OR_RETURN(
      impl->http,
      HttpServer::start(impl->options.http, [raw = impl.get()](HttpRequest request, std::shared_ptr<Reply> reply) {
        raw->handle(std::move(request), std::move(reply));
      }));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() { impl_->http->stop(); }

uint16_t Server::port() const { return impl_->http->port(); }

std::string Server::kv_events_address() const {
  const auto& events = impl_->options.scheduler.events;
  return events ? events->address() : std::string();
}

void Server::drain(double most_s) {
  impl_->draining = true;
  const double end = now_s() + most_s;
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds)); };
  while (now_s() < end && !(impl_->texts.idle() && impl_->scheduler.idle())) wait();
  impl_->http->stop_accepting();
  // The last bytes of answers are on their way.
  const double flushed = std::min(end, now_s() + 1);
  while (now_s() < flushed && impl_->http->busy() > 0) wait();
}

}  // namespace ei::server
