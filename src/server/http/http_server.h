// HttpServer: HTTP/1.1 on one thread of its own (Boost.Beast, which nothing outside this folder sees). It reads whole
// requests within limits and hands them over; answers come back through a Reply.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/message.h"

namespace ei::server {

struct HttpOptions {
  std::vector<std::string> hosts = {"127.0.0.1"};
  uint16_t port = 8080;            // 0: any; HttpServer::port() says which
  std::string certificate_file{};  // PEM; with its key: TLS
  std::string key_file{};
  int64_t body_bytes = int64_t{64} << 20;
  int64_t all_body_bytes = int64_t{256} << 20;  // of all that are here at a time, less 64 KiB of each; then 503
  int64_t header_bytes = int64_t{8} << 10;      // of one header, and of the request line
  int header_count = 100;                       // trailers among them
  int64_t all_head_bytes = int64_t{64} << 20;   // of all that are here at a time, less 16 KiB of each; then 503
  int connections = 4096;                       // more are closed at once
  double read_s = 30;                           // for a request's headers, and as much for its body
  double idle_s = 120;                          // for the next request on a connection that is kept
  double write_s = 60;                          // for a client that does not read
  double keep_alive_s = 10;                     // silence in a stream after which a comment is sent
  int64_t unread_bytes = 4 << 20;               // a client that lets more pile up is given up
  std::vector<std::string> origins{};           // whose pages' scripts may ask (cors.h)
  // Both on the I/O thread: must not take long; may be null. The first looks at a request without its body, of which
  // nothing has been read: what it returns is the answer.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> gate{};
  std::function<void(const AccessRecord& record)> access{};
};

class HttpServer {
 public:
  // Listens. kUsage when an address cannot be had, or a certificate.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler handler);
  // Replies must be gone by then.
  ~HttpServer();

  uint16_t port() const;
  // No new connections; those that are open go on.
  void stop_accepting();
  // Closes what is open and ends the thread: no handler runs any more, and replies do nothing.
  void stop();
  int64_t connections() const;  // that are open
  int64_t busy() const;         // of these, whose answer is not complete

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ei::server
