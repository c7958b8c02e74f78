#include "server/http/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <thread>

#include "server/exceptions.h"
#include "server/http/connection.h"

namespace ei::server {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {
// Where no more connections can be had (no descriptor, no memory) the next try would fail as well.
constexpr std::chrono::milliseconds kAcceptPause{100};
}  // namespace

struct HttpServer::Impl {
  explicit Impl(const HttpOptions& options, HttpHandler handler)
      : shared{.options = options, .handler = std::move(handler)} {}

  struct Listener {
    explicit Listener(asio::io_context& context) : acceptor(context), pause(context) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
  };

  Status listen(const std::string& host);
  void accept(Listener& listener);
  void close_listeners();
  void take(tcp::socket socket);
  void run();
  void forget_ended();

  HttpShared shared;
  asio::io_context context{1};
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::weak_ptr<Connection>> connections;
  uint16_t port = 0;
  std::thread thread;
};

Status HttpServer::Impl::listen(const std::string& host) {
  boost::system::error_code error;
  const auto fail = [&](const char* what) {
    return make_error(ErrorKind::kUsage, "cannot %s %s:%d: %s", what, host.c_str(),
                      static_cast<int>(shared.options.port), error.message().c_str());
  };
  const asio::ip::address address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) return fail("understand the address");
  const tcp::endpoint endpoint(address, port != 0 ? port : shared.options.port);
  auto listener = std::make_unique<Listener>(context);
  tcp::acceptor& acceptor = listener->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (error) return fail("open");
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (address.is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
  acceptor.bind(endpoint, error);
  if (error) return fail("listen on");
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail("listen on");
  port = acceptor.local_endpoint(error).port();
  listeners.push_back(std::move(listener));
  accept(*listeners.back());
  return {};
}

void HttpServer::Impl::accept(Listener& listener) {
  listener.acceptor.async_accept([this, &listener](const boost::system::error_code& error, tcp::socket socket) {
    if (!listener.acceptor.is_open()) return;
    if (error) {
      listener.pause.expires_after(kAcceptPause);
      return listener.pause.async_wait([this, &listener](const boost::system::error_code&) {
        if (listener.acceptor.is_open()) accept(listener);
      });
    }
    // A socket that there is no memory for is closed.
    if (shared.open < shared.options.connections) contain([&] { take(std::move(socket)); });
    accept(listener);
  });
}

void HttpServer::Impl::close_listeners() {
  for (const auto& listener : listeners) listener->acceptor.close();
}

void HttpServer::Impl::take(tcp::socket socket) {
  const auto connection = std::make_shared<Connection>(std::move(socket), shared);
  connections.push_back(connection);
  connection->start();
  forget_ended();
}

// What a handler throws ends that handler: all connections share this thread.
void HttpServer::Impl::run() {
  while (!context.stopped()) contain([&] { context.run(); });
}

void HttpServer::Impl::forget_ended() {
  if (static_cast<int64_t>(connections.size()) < 2 * shared.open + 64) return;
  std::erase_if(connections, [](const auto& connection) { return connection.expired(); });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, HttpHandler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  EI_ASSIGN_OR_RETURN(impl->shared.tls, load_tls(options.certificate_file, options.key_file));
  for (const std::string& host : options.hosts) EI_RETURN_IF_ERROR(impl->listen(host));
  impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::stop() {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->context, [impl = impl_.get()] {
    impl->close_listeners();
    for (const auto& weak : impl->connections)
      if (const auto connection = weak.lock()) connection->close();
    impl->context.stop();
  });
  impl_->thread.join();
}

uint16_t HttpServer::port() const { return impl_->port; }
int64_t HttpServer::connections() const { return impl_->shared.open; }
int64_t HttpServer::busy() const { return impl_->shared.busy; }

void HttpServer::stop_accepting() {
  asio::post(impl_->context, [impl = impl_.get()] {
    impl->shared.keeps_connections = false;
    impl->close_listeners();
  });
}

}  // namespace ei::server
