#include "server/server.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "engine/prompt.h"
#include "server/api/access_line.h"
#include "server/api/api.h"
#include "server/api/call_style.h"
#include "server/api/keys.h"
#include "server/api/text_shelf.h"
#include "server/exceptions.h"
#include "server/http/foreign_pages.h"
#include "server/page.h"
#include "server/text_lanes.h"

namespace ei::server {

namespace {
constexpr double kPollSeconds = 0.02;
constexpr size_t kWaitingTexts = 1024;  // requests of a lane whose JSON nobody has looked at yet

bool is_health(const HttpRequest& request) { return request.path == "/health" || request.path == "/v1/health"; }

bool has_body(const HttpRequest& head) {
  const std::string length = head.header("content-length");
  return !head.header("transfer-encoding").empty() || (!length.empty() && length != "0");
}

// Who has no key is told so before a byte of the body is read, and so are web pages where nobody needs one.
std::function<std::optional<HttpResponse>(const HttpRequest& head)> gate_of(const ServerOptions& options) {
  return [keys = options.keys, page = options.page,
          http = options.http](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (keys.empty()) {
      if (is_health(head)) return std::nullopt;
      const std::string why = why_foreign(http, head);
      if (why.empty()) return std::nullopt;
      return ApiError{.status = 403, .type = "permission_error", .message = why}.to_response();
    }
    if (may_enter(head, keys)) return std::nullopt;
    const bool of_page = page && head.method == "GET" && page_response(head.path).has_value();
    if ((is_health(head) || of_page) && !has_body(head)) return std::nullopt;
    const ApiError error{.status = 401, .type = "authentication_error", .message = "a valid API key is needed"};
    return error.to_response();
  };
}

// `allowed`: the methods that the path takes; empty: there is no such path.
const Route* find_route(const HttpRequest& request, std::string* allowed) {
  for (const Route& route : routes()) {
    if (request.path != route.path) continue;
    if (request.method == route.method) return &route;
    *allowed = route.method == std::string_view("GET") ? "GET, HEAD" : route.method;
  }
  return nullptr;
}
}  // namespace

// An engine and whoever asks it.
struct Server::Service {
  Service(const Engine& of, ServerOptions asked, const std::optional<text::ChatTemplate>& chat, int64_t started)
      : options(std::move(asked)),
        scheduler(of, options.scheduler),
        api{.engine = of,
            .options = options,
            .scheduler = scheduler,
            .shelf = shelf,
            .chat = chat,
            .calls = chat ? call_style_of(*chat) : CallStyle::kWrapped,
            .started = started,
            .long_answers = [this](std::function<void()> job) { return answers.post(std::move(job)); }} {}

  // A request, and who waits for its answer.
  struct Asked {
    HttpRequest request{};
    std::shared_ptr<Reply> reply{};
    std::shared_ptr<CancelToken> gone = std::make_shared<CancelToken>();
    double arrived_s = now_s();
  };
  void handle(HttpRequest request, const std::shared_ptr<Reply>& reply);
  void post(size_t lane, const std::shared_ptr<Asked>& asked);
  void run(size_t lane, const std::shared_ptr<Asked>& asked);
  void route(size_t lane, const std::shared_ptr<Asked>& asked);

  const ServerOptions options;
  TextThread answers{kWaitingTexts};  // behind whom the scheduler goes, which leaves answers there
  Scheduler scheduler;
  TextShelf shelf{};
  const Api api;
  std::atomic<bool> draining{false};
  TextLanes texts{kWaitingTexts};
};

struct Server::Impl {
  void handle(HttpRequest request, const std::shared_ptr<Reply>& reply);

  // Replies must go before the HTTP server they belong to: what holds them is declared behind it.
  std::unique_ptr<HttpServer> http;
  bool page = true;
  const int64_t started = std::time(nullptr);
  std::unique_ptr<Service> service{};
  std::atomic<Service*> ready{nullptr};  // the same, once it is whole
};

// On the I/O thread: nothing here may take long.
void Server::Impl::handle(HttpRequest request, const std::shared_ptr<Reply>& reply) try {
  if (page && request.method == "GET") {
    if (std::optional<HttpResponse> file = page_response(request.path)) return reply->send(std::move(*file));
  }
  if (Service* serving = ready.load(std::memory_order_acquire); serving != nullptr)
    return serving->handle(std::move(request), reply);
  reply->send(unavailable("Loading model").to_response());
} catch (const std::exception& error) {
  reply->send(from_engine(error_of(error)).to_response());
}

// On the I/O thread, too.
void Server::Service::handle(HttpRequest request, const std::shared_ptr<Reply>& reply) {
  const auto refuse = [&](const ApiError& error) { reply->send(error.to_response()); };
  if (is_health(request)) {
    if (draining) return refuse(unavailable("the server is stopping"));
    return reply->send({.body = R"({"status":"ok"})"});
  }
  // Whoever watches sees it to its end.
  if (draining && request.method != "GET") return refuse(unavailable("the server is stopping"));
  const auto asked = std::make_shared<Asked>(Asked{.request = std::move(request), .reply = reply});
  reply->on_gone([gone = asked->gone] { gone->cancel(); });
  post(TextLanes::lane_of(static_cast<int64_t>(asked->request.body.size())), asked);
}

void Server::Service::post(size_t lane, const std::shared_ptr<Asked>& asked) {
  if (!texts.post(lane, [this, lane, asked] { run(lane, asked); })) asked->reply->send(too_busy(1).to_response());
}

// On the thread of that lane.
void Server::Service::run(size_t lane, const std::shared_ptr<Asked>& asked) try {
  if (!asked->gone->cancelled()) route(lane, asked);
} catch (const std::exception& error) {
  asked->gone->cancel();
  asked->reply->send(from_engine(error_of(error)).to_response());
}

void Server::Service::route(size_t lane, const std::shared_ptr<Asked>& asked) {
  const HttpRequest& request = asked->request;
  const Call call{.api = api,
                  .request = request,
                  .reply = asked->reply,
                  .gone = asked->gone,
                  .arrived_s = asked->arrived_s,
                  .most_bytes = TextLanes::kMostBytes[lane],
                  .read_elsewhere = [this, lane, &asked] { post(lane + 1, asked); }};
  if (request.path.starts_with("/slots/") && request.method == "POST") return route_slot_action(call);
  std::string allowed;
  const Route* found = find_route(request, &allowed);
  if (found != nullptr) return found->run(call);
  if (allowed.empty()) return call.refuse(not_found(request.path));
  const ApiError error{.status = 405, .message = "this path does not take " + one_line(request.method).substr(0, 20)};
  HttpResponse refused = error.to_response();
  refused.headers.emplace_back("Allow", allowed);
  call.reply->send(std::move(refused));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->page = options.page;
  HttpOptions http = options.http;
  http.gate = gate_of(options);
  if (options.access_log)
    http.access = [log = options.access_log](const AccessRecord& record) { log(access_line(record)); };
  EI_ASSIGN_OR_RETURN(
      impl->http, HttpServer::start(http, [raw = impl.get()](HttpRequest request, const std::shared_ptr<Reply>& reply) {
        raw->handle(std::move(request), reply);
      }));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Status Server::serve(const Engine& engine, ServerOptions options) {
  EI_CHECK(impl_->service == nullptr);
  std::optional<text::ChatTemplate> chat;
  if (has_template(options.chat_template, engine.tokenizer())) {
    EI_ASSIGN_OR_RETURN(chat, choose_template(options.chat_template, engine.tokenizer()));
  }
  if (options.names.empty()) options.names.emplace_back("entropyinfer");
  options.limits.slots = options.scheduler.slots;
  if (!options.kv_events.empty()) {
    EI_ASSIGN_OR_RETURN(options.scheduler.events, EventSocket::open(options.kv_events));
  }
  impl_->service = std::make_unique<Service>(engine, std::move(options), chat, impl_->started);
  impl_->ready.store(impl_->service.get(), std::memory_order_release);
  return {};
}

Result<std::unique_ptr<Server>> Server::start(const Engine& engine, ServerOptions options) {
  EI_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, listen(options));
  EI_RETURN_IF_ERROR(server->serve(engine, std::move(options)));
  return server;
}

Server::~Server() { impl_->http->stop(); }

uint16_t Server::port() const { return impl_->http->port(); }

std::string Server::kv_events_address() const {
  const auto& events = impl_->service ? impl_->service->options.scheduler.events : nullptr;
  return events ? events->address() : std::string();
}

void Server::drain(double most_s) {
  if (!impl_->service) return;
  Service& service = *impl_->service;
  service.draining = true;
  const double end = now_s() + most_s;
  // In the order in which a request moves on. A connection is busy from its request's last byte to its answer's; whose
  // client has gone, or waits for nothing more, may still be at work.
  const auto idle = [&] {
    return impl_->http->busy() == 0 && service.texts.idle() && service.scheduler.idle() && service.answers.idle();
  };
  const auto wait = [&] {
    while (now_s() < end && !idle()) std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
  };
  wait();
  impl_->http->stop_accepting();
  wait();  // for whom it refused meanwhile
}

}  // namespace ei::server
