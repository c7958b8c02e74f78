#include "server/http/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <set>
#include <thread>

#include "server/exceptions.h"
#include "server/http/connection.h"

namespace ei::server {

namespace asio = boost::asio;
using asio::ip::tcp;

struct HttpServer::Impl {
  explicit Impl(const HttpOptions& options, HttpHandler handler)
      : shared{.options = options, .handler = std::move(handler)} {}

  Status listen(const std::string& host);
  void accept(tcp::acceptor& acceptor);
  void take(tcp::socket socket);
  void run();
  void forget_ended();

  HttpShared shared;
  asio::io_context context{1};
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
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
  auto acceptor = std::make_unique<tcp::acceptor>(context);
  acceptor->open(endpoint.protocol(), error);
  if (error) return fail("open");
  acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (address.is_v6()) acceptor->set_option(asio::ip::v6_only(true), error);
  acceptor->bind(endpoint, error);
  if (error) return fail("listen on");
  acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail("listen on");
  port = acceptor->local_endpoint(error).port();
  acceptors.push_back(std::move(acceptor));
  accept(*acceptors.back());
  return {};
}

void HttpServer::Impl::accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    // A socket that there is no memory for is closed.
    if (!error && shared.open < shared.options.connections) contain([&] { take(std::move(socket)); });
    accept(acceptor);
  });
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
    for (const auto& acceptor : impl->acceptors) acceptor->close();
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
    for (const auto& acceptor : impl->acceptors) acceptor->close();
  });
}

}  // namespace ei::server
