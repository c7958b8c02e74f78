#include "server/api/responder.h"

#include <algorithm>
#include <utility>

#include "server/exceptions.h"

namespace ei::server {

namespace {
// An answer of more bytes of JSON takes milliseconds to write.
constexpr size_t kLongBytes = size_t{128} << 10;
constexpr size_t kTokenBytes = 6;     // of a token's number
constexpr size_t kLikelyBytes = 100;  // of a likely token with its text, bytes and probability
}  // namespace

class Responder::Sink : public TaskSink {
 public:
  Sink(std::shared_ptr<Responder> responder, int choice) : responder_(std::move(responder)), choice_(choice) {}
  void waits() override { responder_->waits(); }
  void progress(const TaskReport& report) override { responder_->progress(choice_, report); }
  void token(const TaskToken& token, const TaskReport& report) override { responder_->token(choice_, token, report); }
  void prompt(std::vector<TaskToken> tokens) override { responder_->prompt(choice_, std::move(tokens)); }
  void finished(const std::string& rest, const TaskReport& report) override {
    responder_->finished(choice_, rest, report);
  }
  void failed(const Error& error) override { responder_->failed(from_engine(error)); }
  void late() override { responder_->failed(too_late(kLate)); }

 private:
  std::shared_ptr<Responder> responder_;
  int choice_;
};

Responder::Responder(std::shared_ptr<Reply> reply, std::unique_ptr<Format> format, const Params& params,
                     Headers headers, std::shared_ptr<CancelToken> cancel, Elsewhere elsewhere)
    : reply_(std::move(reply)),
      format_(std::move(format)),
      params_(params),
      headers_(std::move(headers)),
      cancel_(std::move(cancel)),
      elsewhere_(std::move(elsewhere)) {}

Choice& Responder::add_choice() {
  choices_.push_back({.index = static_cast<int>(choices_.size())});
  return choices_.back();
}

std::shared_ptr<TaskSink> Responder::sink_of(int choice) { return std::make_shared<Sink>(shared_from_this(), choice); }

void Responder::send_head() {
  if (head_sent_) return;
  HttpResponse head{.content_type = "text/event-stream", .headers = headers_};
  head.headers.emplace_back("Cache-Control", "no-cache");
  reply_->begin_stream(std::move(head));
  head_sent_ = true;  // behind what may throw
}

void Responder::open_stream() {
  send_head();
  if (std::exchange(opened_, true)) return;
  reply_->write(format_->opening(choices_));
}

// The head alone, so that comments can follow: what a stream begins with may say how much of its prompt was held.
void Responder::waits() {
  if (!over_ && params_.stream) send_head();
}

void Responder::progress(int choice, const TaskReport& report) {
  if (over_ || !params_.stream) return;
  Choice& of = choices_[static_cast<size_t>(choice)];
  of.report = report;
  open_stream();
  if (params_.return_progress) reply_->write(format_->progress(of));
}

void Responder::token(int choice, const TaskToken& token, const TaskReport& report) {
  if (over_) return;
  Choice& of = choices_[static_cast<size_t>(choice)];
  of.report = report;
  of.text += token.text;
  of.tokens.push_back(token.token);
  if (token.own && !params_.stream) of.probabilities.push_back(token);
  if (!params_.stream) return;
  open_stream();
  reply_->write(format_->piece(of, token));
}

void Responder::prompt(int choice, std::vector<TaskToken> tokens) {
  if (over_) return;
  Choice& of = choices_[static_cast<size_t>(choice)];
  of.prompt_probabilities = std::move(tokens);
}

void Responder::finished(int choice, const std::string& rest, const TaskReport& report) {
  if (over_) return;
  Choice& of = choices_[static_cast<size_t>(choice)];
  of.report = report;
  of.done = true;
  of.text += rest;
  if (params_.stream) {
    open_stream();
    if (!rest.empty()) reply_->write(format_->piece(of, {.text = rest}));
    reply_->write(format_->ending(of));
  }
  if (!std::all_of(choices_.begin(), choices_.end(), [](const Choice& one) { return one.done; })) return;
  if (params_.stream) {
    reply_->write(format_->closing(choices_));
    reply_->end();
  } else if (!elsewhere_ || !is_long() || !elsewhere_([self = shared_from_this()] { self->send_whole(); })) {
    reply_->send({.body = dump(format_->whole(choices_)), .headers = headers_});
  }
  over_ = true;  // behind what may throw: a failure is still to be told
}

bool Responder::is_long() const {
  size_t bytes = 0;  // about
  for (const Choice& choice : choices_) {
    bytes += choice.prompt.size() + choice.text.size() + choice.tokens.size() * kTokenBytes;
    for (const std::vector<TaskToken>* tokens : {&choice.probabilities, &choice.prompt_probabilities})
      for (const TaskToken& token : *tokens) bytes += (1 + token.top.size()) * kLikelyBytes;
  }
  return bytes > kLongBytes;
}

// Nothing comes any more: all that this looks at is its own.
void Responder::send_whole() try {
  if (cancel_->cancelled()) return;
  reply_->send({.body = dump(format_->whole(choices_)), .headers = headers_});
} catch (const std::exception& error) {
  reply_->send(from_engine(error_of(error)).to_response());
}

void Responder::failed(const ApiError& error) {
  if (std::exchange(over_, true)) return;
  cancel_->cancel();  // the other answers are of no use
  if (!head_sent_) {
    HttpResponse response = error.to_response();
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    return reply_->send(std::move(response));
  }
  reply_->write(format_->failure(error));
  reply_->end();
}

}  // namespace ei::server
