// The sending half of a connection: answers whole or in pieces, at the client's pace and ours.
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/connection.h"

namespace ei::server {

namespace http = boost::beast::http;
namespace asio = boost::asio;

namespace {
// Pieces of a stream that come faster than this go out together: a write costs as much as a token of a small model, and
// nobody reads 200 pieces a second.
constexpr double kPaceSeconds = 0.005;
constexpr size_t kPaceBytes = 16 << 10;  // as much goes out whenever it comes
}  // namespace

void Connection::send(HttpResponse response) {
  asio::post(stream_.get_executor(), [self = shared_from_this(), response = std::move(response)] {
    if (self->state_ == State::kWaiting) self->answer(response);
  });
}

void Connection::begin_stream(HttpResponse head) {
  asio::post(stream_.get_executor(), [self = shared_from_this(), head = std::move(head)] { self->open_stream(head); });
}

// Whatever is written before the I/O thread looks wakes it once.
void Connection::write(std::string text) {
  {
    const std::lock_guard lock(inbox_mutex_);
    const bool first = inbox_.empty();
    inbox_ += text;
    if (!first || text.empty()) return;
  }
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->take_inbox(); });
}

void Connection::take_inbox() {
  std::string text;
  {
    const std::lock_guard lock(inbox_mutex_);
    text.swap(inbox_);
  }
  stream_text(text);
}

void Connection::end() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->close_stream(); });
}

void Connection::on_gone(std::function<void()> gone) {
  asio::post(stream_.get_executor(), [self = shared_from_this(), gone = std::move(gone)] {
    if (self->is_gone_) return gone();
    if (!self->complete_) self->gone_ = gone;
  });
}

std::string Connection::head_of(const HttpResponse& response, int64_t body_bytes) const {
  const auto status = static_cast<http::status>(response.status);
  std::string head = str_format("HTTP/1.1 %d ", response.status) + std::string(http::obsolete_reason(status)) + "\r\n";
  const auto add = [&](const std::string& name, const std::string& value) { head += name + ": " + value + "\r\n"; };
  add("Server", "entropyinfer");
  add("Content-Type", response.content_type);
  if (body_bytes >= 0) add("Content-Length", str_format("%lld", static_cast<long long>(body_bytes)));
  if (body_bytes < 0 && chunked_) add("Transfer-Encoding", "chunked");
  if (!record_.id.empty()) add("X-Request-Id", record_.id);
  if (!origin_.empty()) {
    add("Access-Control-Allow-Origin", origin_);
    add("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  }
  if (!shared_.options.origins.empty() && origin_ != "*") add("Vary", "Origin");
  for (const auto& [name, value] : response.headers) add(name, value);
  add("Connection", keep_ ? "keep-alive" : "close");
  return head + "\r\n";
}

void Connection::answer(const HttpResponse& response) {
  if (state_ == State::kClosed) return;
  state_ = State::kAnswering;
  complete_ = true;
  record_.status = response.status;
  const std::string head = head_of(response, static_cast<int64_t>(response.body.size()));
  put(head_only_ ? head : head + response.body);
}

void Connection::open_stream(const HttpResponse& head) {
  if (state_ != State::kWaiting) return;
  state_ = State::kStreaming;
  record_.status = head.status;
  if (!chunked_) keep_ = false;
  put(head_of(head, -1));
  flushed_s_ = 0;  // the first piece need not wait
  arm_keep_alive();
}

void Connection::stream_text(const std::string& text) {
  if (state_ != State::kStreaming || complete_ || text.empty()) return;
  if (!chunked_) return put(text);
  put(str_format("%zx\r\n", text.size()) + text + "\r\n");
}

void Connection::close_stream() {
  if (state_ != State::kStreaming || complete_) return;
  complete_ = true;
  put(chunked_ ? "0\r\n\r\n" : "");
}

void Connection::put(const std::string& bytes) {
  record_.bytes += static_cast<int64_t>(bytes.size());
  outbox_ += bytes;
  put_s_ = now_s();
  if (writing_) {  // the client takes its time; what waits for the pace is no fault of its own
    const bool too_much = static_cast<int64_t>(outbox_.size()) > shared_.options.unread_bytes;
    return too_much && state_ == State::kStreaming ? lose() : void();
  }
  if (complete_ || put_s_ >= flushed_s_ + kPaceSeconds || outbox_.size() >= kPaceBytes) return flush();
  if (!paced_) flush_soon();
}

void Connection::flush_soon() {
  paced_ = true;
  pace_.expires_after(milliseconds(kPaceSeconds));
  pace_.async_wait([self = shared_from_this()](const Error&) {
    self->paced_ = false;
    if (self->state_ != State::kClosed && !self->writing_ && !self->outbox_.empty()) self->flush();
  });
}

// Most of the time the system takes it all at once, and nothing has to be waited for.
void Connection::flush() {
  writing_ = true;
  flushed_s_ = now_s();
  sent_ = std::move(outbox_);
  outbox_.clear();
  if (!stream_.secure()) {
    Error error;
    const size_t bytes = stream_.socket().write_some(asio::buffer(sent_), error);
    if (error && error != asio::error::would_block && error != asio::error::try_again) return written(error);
    if (bytes == sent_.size()) return written({});
    sent_.erase(0, bytes);
  }
  stream_.expires_after(milliseconds(shared_.options.write_s));
  asio::async_write(stream_, asio::buffer(sent_), [self = shared_from_this()](const Error& error, size_t) {
    if (!error) self->stream_.expires_never();
    self->written(error);
  });
}

void Connection::written(const Error& error) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (error) return lose();
  if (!outbox_.empty()) return flush();
  if (complete_) answer_complete();
}

// One timer for a stream, however many pieces it has: when it comes it sees how long nothing was said.
void Connection::arm_keep_alive() {
  const double silent = now_s() - put_s_;
  const double left = shared_.options.keep_alive_s - silent;
  if (left <= 0 && !writing_) stream_text(": keep-alive\n\n");
  keep_alive_.expires_after(milliseconds(left > 0 ? left + 0.001 : shared_.options.keep_alive_s));
  keep_alive_.async_wait([weak = weak_from_this()](const Error& error) {
    const auto self = weak.lock();
    if (!error && self && self->state_ == State::kStreaming && !self->complete_) self->arm_keep_alive();
  });
}

}  // namespace ei::server
