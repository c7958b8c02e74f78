// Responder: gathers the answers of one request's tasks and sends them in the shape of its API, whole or as a stream.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/params.h"
#include "server/http/message.h"
#include "server/scheduler/task.h"

namespace ei::server {

// One answer as far as it is there.
struct Choice {
  int index = 0;
  std::string prompt{};  // its text, where somebody wants to see it
  std::string text{};
  std::vector<int32_t> tokens{};
  std::vector<TaskToken> probabilities{};  // where they were asked for; not of a stream, which tells them at once
  std::vector<TaskToken> prompt_probabilities{};  // the same, of the prompt
  TaskReport report{};
  bool same_prompt = false;  // as the choice before
  bool capped = false;       // the context has no room for as many tokens as were asked for
  bool done = false;
};

// The shape of an API. Pure: from data to text. Calls come in the order of the stream.
class Format {
 public:
  virtual ~Format() = default;
  virtual Json whole(const std::vector<Choice>& choices) = 0;
  // Pieces of a stream, complete events; empty: nothing to say.
  virtual std::string opening(const std::vector<Choice>&) { return {}; }
  virtual std::string progress(const Choice&) { return {}; }
  virtual std::string piece(const Choice& choice, const TaskToken& token) = 0;
  virtual std::string ending(const Choice& choice) = 0;
  virtual std::string closing(const std::vector<Choice>&) { return "data: [DONE]\n\n"; }
  virtual std::string failure(const ApiError& error) { return event_text(error.to_json()); }
};

class Responder : public std::enable_shared_from_this<Responder> {
 public:
  // Runs a job on a thread that may take its time, or says that it does not.
  using Elsewhere = std::function<bool(std::function<void()> job)>;
  // `cancel` ends all tasks of the request. Whole answers that are long are put into their shape `elsewhere` (may be
  // null), since whoever calls the sinks computes for others, too.
  Responder(std::shared_ptr<Reply> reply, std::unique_ptr<Format> format, const Params& params, Headers headers,
            std::shared_ptr<CancelToken> cancel, Elsewhere elsewhere = nullptr);

  Choice& add_choice();
  // Where the task of a choice sends its text.
  std::shared_ptr<TaskSink> sink_of(int choice);

 private:
  class Sink;
  void waits();
  void progress(int choice, const TaskReport& report);
  void token(int choice, const TaskToken& token, const TaskReport& report);
  void prompt(int choice, std::vector<TaskToken> tokens);
  void finished(int choice, const std::string& rest, const TaskReport& report);
  void failed(const ApiError& error);
  void send_head();
  void open_stream();
  bool is_long() const;
  void send_whole();

  std::shared_ptr<Reply> reply_;
  std::unique_ptr<Format> format_;
  const Params params_;
  const Headers headers_;
  const std::shared_ptr<CancelToken> cancel_;
  const Elsewhere elsewhere_;
  std::vector<Choice> choices_{};
  bool head_sent_ = false;  // of a stream
  bool opened_ = false;     // what the stream begins with is sent, too
  bool over_ = false;
};

}  // namespace ei::server
