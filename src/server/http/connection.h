// One connection: reads a request within limits, hands it over, writes what comes back, and watches for the client's
// going away meanwhile. Internal to the folder; everything but the Reply runs on the I/O thread.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/byte_room.h"
#include "server/http/http_server.h"
#include "server/http/request_parser.h"
#include "server/http/wire.h"

namespace ei::server {

inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// What connections share: limits, the handler, how many there are.
struct HttpShared {
  const HttpOptions options;
  HttpHandler handler;
  ByteRoom heads{options.all_head_bytes, int64_t{16} << 10};
  ByteRoom bodies{options.all_body_bytes, int64_t{64} << 10};
  std::unique_ptr<TlsContext> tls{};  // null: plain
  std::atomic<int64_t> open{0};
  std::atomic<int64_t> busy{0};   // with a request whose answer is not complete
  bool keeps_connections = true;  // false once the server is about to end
};

class Connection : public Reply, public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, HttpShared& shared);
  ~Connection() override;

  void start();
  void close();

  void send(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  void write(std::string text) override;
  void end() override;
  void on_gone(std::function<void()> gone) override;

 private:
  using Error = boost::system::error_code;
  enum class State { kReading, kWaiting, kAnswering, kStreaming, kLeaving, kClosed };

  void read_request();
  void read_head();
  void head_read();
  void take_head();
  void read_body();
  // Reads on and calls `then`.
  void await_more(void (Connection::*then)());
  void hand_over();
  void free_buffer();
  void refuse(const Error& error);
  // The last answer of the connection: what follows cannot be told from this request's rest.
  void break_off(const HttpResponse& response);
  // The answer to a request whose body has not been read.
  void turn_away(const HttpResponse& response);
  void open_record();
  void skip_newlines();
  void watch();
  void watched(const Error& error);
  void watch_secure();
  void watched_secure(const Error& error, size_t bytes);
  void await_watched();
  void leave();
  void answer(const HttpResponse& response);
  void open_stream(const HttpResponse& head);
  void take_inbox();
  void stream_text(const std::string& text);
  void close_stream();
  std::string head_of(const HttpResponse& response, int64_t body_bytes) const;
  void put(const std::string& bytes);
  void flush_soon();
  void flush();
  void written(const Error& error);
  void answer_complete();
  void set_busy(bool busy);
  void log(bool gone);
  void discard();
  void arm_keep_alive();
  // The client has gone, or is given up.
  void lose();

  HttpShared& shared_;
  Wire stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<RequestParser> parser_;
  HttpRequest request_{};   // that is read, without its body
  bool head_only_ = false;  // its answer
  std::string origin_{};    // that its answer names (CORS)
  std::shared_ptr<ByteRoom::Share> head_share_{};
  std::shared_ptr<ByteRoom::Share> share_{};  // of its body
  boost::asio::steady_timer keep_alive_;
  boost::asio::steady_timer pace_;
  bool paced_ = false;    // the outbox waits for it
  double put_s_ = 0;      // when something was put into the outbox last
  double flushed_s_ = 0;  // and when it was emptied
  std::mutex inbox_mutex_;
  std::string inbox_;  // of other threads: pieces of a stream that the I/O thread has not seen
  State state_ = State::kReading;
  bool keep_ = false;     // the connection, after this answer
  bool chunked_ = false;  // the answer's pieces are framed; HTTP/1.0 ends with the connection
  bool watching_ = false;
  bool answered_ = false;  // a request before
  bool complete_ = false;  // the last byte of the answer is in the outbox
  bool writing_ = false;
  std::string outbox_;  // waits while `sent_` is on its way
  std::string sent_;
  int64_t discarded_ = 0;
  AccessRecord record_{};
  double asked_s_ = 0;  // when the request was whole
  std::function<void()> gone_;
  bool is_gone_ = false;
  bool busy_ = false;
};

}  // namespace ei::server
