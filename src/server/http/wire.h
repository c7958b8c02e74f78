// Wire: the bytes of one connection, plain or through TLS, as one kind of stream for Beast. Internal to the folder.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "server/http/tls.h"

#ifdef EI_HAVE_TLS
#include <boost/asio/ssl/stream.hpp>
#endif

namespace ei::server {

class Wire {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  // `tls` may be null: plain. It must outlive the wire.
  Wire(boost::asio::ip::tcp::socket socket, [[maybe_unused]] TlsContext* tls) : tcp_(std::move(socket)) {
#ifdef EI_HAVE_TLS
    if (tls != nullptr) tls_.emplace(tcp_, tls->context);
#endif
  }

  executor_type get_executor() { return tcp_.get_executor(); }
  boost::asio::ip::tcp::socket& socket() { return tcp_.socket(); }
  // What is behind the encryption, where there is one.
  boost::beast::tcp_stream& tcp() { return tcp_; }
  bool secure() const {
#ifdef EI_HAVE_TLS
    return tls_.has_value();
#else
    return false;
#endif
  }
  void expires_after(std::chrono::milliseconds time) { tcp_.expires_after(time); }
  void expires_never() { tcp_.expires_never(); }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
#ifdef EI_HAVE_TLS
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
#endif
    tcp_.async_read_some(buffers, std::forward<Handler>(handler));
  }

  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
#ifdef EI_HAVE_TLS
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
#endif
    tcp_.async_write_some(buffers, std::forward<Handler>(handler));
  }

  // The greeting and the farewell of TLS; `handler` takes an error code. Only where secure().
  template <class Handler>
  void async_greet([[maybe_unused]] Handler&& handler) {
#ifdef EI_HAVE_TLS
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
#endif
  }
  template <class Handler>
  void async_part([[maybe_unused]] Handler&& handler) {
#ifdef EI_HAVE_TLS
    tls_->async_shutdown(std::forward<Handler>(handler));
#endif
  }

 private:
  boost::beast::tcp_stream tcp_;
#ifdef EI_HAVE_TLS
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
#endif
};

}  // namespace ei::server
