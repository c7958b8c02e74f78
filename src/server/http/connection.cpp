#include "server/http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/cors.h"

namespace ei::server {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace asio = boost::asio;

namespace {
constexpr double kLeaveSeconds = 2;
constexpr size_t kDiscardBytes = size_t{64} << 10;
constexpr size_t kWatchBytes = size_t{4} << 10;
constexpr size_t kBodyBytes = size_t{16} << 10;  // that are read at a time

HttpResponse plain_error(int status, const char* message, const char* type = "invalid_request_error") {
  HttpResponse response{.status = status};
  response.body = str_format(R"({"error":{"code":%d,"message":"%s","type":"%s"}})", status, message, type);
  return response;
}

HttpResponse no_room(const char* kind) {
  const std::string message = str_format("the %s of other requests take all the room; try again later", kind);
  HttpResponse response = plain_error(503, message.c_str(), "unavailable_error");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

// The client's, where it is short and plain enough for a log and a header.
std::string request_id(const std::string& given) {
  const bool plain =
      !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
      });
  if (plain) return given;
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return str_format("%016llx", static_cast<unsigned long long>(random()));
}

// What is told to somebody whose bytes are no request, or too many; nothing where nobody listens any more.
std::optional<HttpResponse> refusal_of(const boost::system::error_code& error, const char* complaint) {
  if (error == http::error::body_limit) return plain_error(413, "the body is larger than this server takes");
  if (error == http::error::header_limit)
    return plain_error(431, complaint != nullptr ? complaint : "the headers are larger than this server takes");
  if (error == http::error::buffer_overflow)
    return plain_error(431,
                       "what is beside the body, a chunk's extensions or trailers, is larger than this server takes");
  if (error == http::error::end_of_stream) return std::nullopt;
  if (error.category() != http::make_error_code(http::error::bad_method).category()) return std::nullopt;
  return plain_error(400, "the request is not HTTP/1.1");
}

bool is_newline(char c) { return c == '\r' || c == '\n'; }
}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, HttpShared& shared)
    : shared_(shared),
      stream_(std::move(socket), shared.tls.get()),
      buffer_(std::max(static_cast<size_t>(most_head_bytes(shared.options)), kDiscardBytes) + kBodyBytes),
      keep_alive_(stream_.get_executor()),
      pace_(stream_.get_executor()) {
  ++shared_.open;
}

Connection::~Connection() { --shared_.open; }

void Connection::start() {
  Error ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.socket().non_blocking(true, ignored);
  if (!stream_.secure()) return read_request();
  stream_.expires_after(milliseconds(shared_.options.read_s));
  stream_.async_greet([self = shared_from_this()](const Error& error) { error ? self->lose() : self->read_request(); });
}

void Connection::close() { lose(); }

void Connection::read_request() {
  state_ = State::kReading;
  if (watching_ && stream_.secure()) return await_watched();
  request_ = {};
  head_only_ = false;
  origin_.clear();
  skip_newlines();
  parser_.emplace(shared_.options);
  head_share_ = std::make_shared<ByteRoom::Share>(shared_.heads);
  if (buffer_.size() > 0 || !answered_) {
    stream_.expires_after(milliseconds(shared_.options.read_s));
    // Not at once: a buffer may be full of requests that are answered here.
    return asio::post(stream_.get_executor(), [self = shared_from_this()] { self->read_head(); });
  }
  // A connection that is kept may be silent for a while: the time of the next request begins with its first byte.
  stream_.expires_after(milliseconds(shared_.options.idle_s));
  stream_.async_read_some(buffer_.prepare(kWatchBytes), [self = shared_from_this()](const Error& error, size_t bytes) {
    self->buffer_.commit(bytes);
    error ? self->lose() : self->read_request();
  });
}

void Connection::await_more(void (Connection::*then)()) {
  const size_t room = buffer_.max_size() - buffer_.size();
  if (room == 0) return refuse(http::error::buffer_overflow);
  const size_t piece = std::min(parser_->is_header_done() ? kBodyBytes : kWatchBytes, room);
  stream_.async_read_some(buffer_.prepare(piece), [self = shared_from_this(), then](Error error, size_t bytes) {
    self->buffer_.commit(bytes);
    if (self->state_ != State::kReading) return;
    if (error == asio::error::eof)
      error = self->parser_->got_some() ? http::error::partial_message : http::error::end_of_stream;
    error ? self->refuse(error) : ((*self).*then)();
  });
}

void Connection::read_head() {
  if (state_ != State::kReading) return;
  Error error = http::error::need_more;
  if (buffer_.size() > 0) buffer_.consume(parser_->put(buffer_.cdata(), error));
  if (error && error != http::error::need_more) return refuse(error);
  if (!head_share_->grow(parser_->head_bytes + static_cast<int64_t>(buffer_.size())))
    return break_off(no_room("heads"));
  if (error) return await_more(&Connection::read_head);
  head_read();
}

void Connection::head_read() {
  take_head();
  origin_ = allowed_origin(shared_.options.origins, request_);
  if (!origin_.empty())
    if (const std::optional<HttpResponse> asked = preflight_response(request_)) return turn_away(*asked);
  if (shared_.options.gate)
    if (const std::optional<HttpResponse> refused = shared_.options.gate(request_)) return turn_away(*refused);
  share_ = std::make_shared<ByteRoom::Share>(shared_.bodies);
  parser_->eager(true);
  stream_.expires_after(milliseconds(shared_.options.read_s));
  if (beast::iequals(request_.header("expect"), "100-continue")) {
    static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue), [self = shared_from_this()](const Error& failed, size_t) {
      failed || self->state_ != State::kReading ? self->lose() : self->read_body();
    });
    return;
  }
  read_body();
}

void Connection::take_head() {
  request_ = std::move(parser_->head);
  request_.id = request_id(request_.header("x-request-id"));
  head_only_ = request_.method == "HEAD";
  if (head_only_) request_.method = "GET";  // whoever answers need not know
}

void Connection::read_body() {
  while (!parser_->is_done()) {
    Error error = http::error::need_more;
    if (buffer_.size() > 0) buffer_.consume(parser_->put(buffer_.cdata(), error));
    if (error && error != http::error::need_more) return refuse(error);
    // What waits counts as well: a chunk's extensions, trailers.
    if (!share_->grow(static_cast<int64_t>(parser_->body.size() + buffer_.size()))) return turn_away(no_room("bodies"));
    if (error) return await_more(&Connection::read_body);
  }
  hand_over();
}

void Connection::turn_away(const HttpResponse& response) {
  keep_ = parser_->is_done() && parser_->keep_alive() && shared_.keeps_connections;
  parser_.reset();
  share_ = nullptr;
  head_share_ = nullptr;
  free_buffer();
  open_record();
  answer(response);
}

void Connection::open_record() {
  record_ = {.id = request_.id, .method = head_only_ ? "HEAD" : request_.method, .path = request_.path};
  asked_s_ = now_s();
}

void Connection::refuse(const Error& error) {
  if (const auto response = refusal_of(error, parser_->complaint)) return break_off(*response);
  if (!request_.id.empty()) open_record();
  lose();
}

void Connection::break_off(const HttpResponse& response) {
  keep_ = false;
  if (request_.id.empty()) take_head();  // as far as it came
  parser_.reset();
  share_ = nullptr;
  head_share_ = nullptr;
  buffer_.clear();
  free_buffer();
  open_record();
  answer(response);
}

void Connection::hand_over() {
  keep_ = parser_->keep_alive() && shared_.keeps_connections;
  chunked_ = parser_->version >= 11;
  state_ = State::kWaiting;
  complete_ = false;
  set_busy(true);
  stream_.expires_never();
  open_record();
  HttpRequest request = std::move(request_);
  request.body = std::move(parser_->body);
  request.room = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      std::exchange(head_share_, nullptr), std::exchange(share_, nullptr));
  parser_.reset();
  free_buffer();
  watch();
  shared_.handler(std::move(request), shared_from_this());
}

// Of a large head, which no connection that is kept needs for the next one.
void Connection::free_buffer() {
  if (buffer_.capacity() > 2 * kBodyBytes) buffer_.shrink_to_fit();
}

// Between requests they mean nothing, and some clients send them behind a body.
void Connection::skip_newlines() {
  const auto* bytes = static_cast<const char*>(buffer_.cdata().data());
  buffer_.consume(static_cast<size_t>(std::find_if_not(bytes, bytes + buffer_.size(), is_newline) - bytes));
}

void Connection::watch() {
  skip_newlines();
  if (watching_ || buffer_.size() > 0) return;  // a request behind this one: nothing tells whether the client waits
  watching_ = true;
  if (stream_.secure()) return watch_secure();
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                              [self = shared_from_this()](const Error& error) { self->watched(error); });
}

void Connection::watched(const Error& error) {
  watching_ = false;
  if (error || state_ == State::kClosed || state_ == State::kReading) return;
  char bytes[64] = {};
  const ssize_t got = ::recv(stream_.socket().native_handle(), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  if (gone) return lose();
  if (got < 0) return watch();
  const auto newlines = std::find_if_not(bytes, bytes + got, is_newline) - bytes;
  if (newlines > 0) ::recv(stream_.socket().native_handle(), bytes, static_cast<size_t>(newlines), MSG_DONTWAIT);
  if (newlines == got) watch();
}

// Behind TLS a readable socket tells nothing, it may be the other side's farewell: it is read, and what else comes is
// the beginning of the next request.
void Connection::watch_secure() {
  stream_.async_read_some(buffer_.prepare(kWatchBytes), [self = shared_from_this()](const Error& error, size_t bytes) {
    self->watched_secure(error, bytes);
  });
}

void Connection::watched_secure(const Error& error, size_t bytes) {
  watching_ = false;
  buffer_.commit(bytes);
  if (state_ == State::kClosed || state_ == State::kLeaving) return;
  if (error) return lose();
  if (state_ != State::kReading) return watch();
  keep_alive_.cancel();
  read_request();
}

// The answer is out, and the read that watched the client goes on as that of its next request, which may take a while.
void Connection::await_watched() {
  keep_alive_.expires_after(milliseconds(shared_.options.idle_s));
  keep_alive_.async_wait([weak = weak_from_this()](const Error& error) {
    const auto self = weak.lock();
    if (!error && self && self->watching_ && self->state_ == State::kReading) self->lose();
  });
}

void Connection::set_busy(bool busy) {
  if (std::exchange(busy_, busy) != busy) shared_.busy += busy ? 1 : -1;
}

void Connection::log(bool gone) {
  if (record_.id.empty()) return;  // no whole request
  record_.seconds = now_s() - asked_s_;
  record_.gone = gone;
  if (shared_.options.access) shared_.options.access(record_);
  record_ = {};
}

void Connection::answer_complete() {
  gone_ = nullptr;
  answered_ = true;
  keep_alive_.cancel();
  set_busy(false);
  log(/*gone=*/false);
  if (keep_) return read_request();
  state_ = State::kLeaving;
  stream_.expires_after(milliseconds(kLeaveSeconds));
  if (!stream_.secure()) return leave();
  stream_.async_part([self = shared_from_this()](const Error&) {
    self->watching_ ? self->lose() : self->leave();  // two reads at a time are not allowed
  });
}

void Connection::leave() {
  if (state_ == State::kClosed) return;
  Error ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  discard();
}

// Closing while the client still sends would reset the connection, and the client might never read the answer.
void Connection::discard() {
  buffer_.clear();
  stream_.tcp().async_read_some(buffer_.prepare(kDiscardBytes),
                                [self = shared_from_this()](const Error& error, size_t bytes) {
                                  self->discarded_ += static_cast<int64_t>(bytes);
                                  if (error || self->discarded_ > 2 * self->shared_.options.body_bytes)
                                    return self->lose();
                                  self->discard();
                                });
}

void Connection::lose() {
  if (state_ == State::kClosed) return;
  const bool unanswered = state_ == State::kWaiting || (state_ == State::kStreaming);
  state_ = State::kClosed;
  is_gone_ = unanswered;
  set_busy(false);
  log(/*gone=*/true);
  keep_alive_.cancel();
  pace_.cancel();
  Error ignored;
  stream_.socket().close(ignored);
  if (auto gone = std::exchange(gone_, nullptr); gone && unanswered) gone();
}

}  // namespace ei::server
