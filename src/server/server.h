// Server: an engine behind HTTP. Threads for I/O (bytes, /health), for texts (JSON, templates, tokens; one for each of
// three lengths) and for computing (all sessions); docs/design.md, "The server".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "server/api/params.h"
#include "server/http/http_server.h"
#include "server/scheduler/scheduler.h"

namespace ei::server {

struct ServerOptions {
  HttpOptions http{};
  SchedulerOptions scheduler{};
  ParamLimits limits{};
  std::vector<std::string> names{};  // of the model; the first is its id
  std::vector<std::string> tags{};
  std::vector<std::string> keys{};  // empty: nobody needs one
  std::string chat_template{};      // instead of the model's
  std::string reasoning = "auto";   // "off": templates are told not to have the model think
  bool parts_thoughts = true;       // thoughts come as reasoning_content, not in the text
  std::string slot_save_path{};     // empty: slots are not saved
  bool slots = true;                // is /slots there?
  bool metrics = false;             // is /metrics there?
  std::string kv_events{};          // where to publish what is held (ZeroMQ); empty: nowhere
  bool page = true;                 // is there a page at /?
  std::string version{};
  std::string commit{};
  std::function<void(const std::string& line)> access_log{};  // a JSON object a request that is over; may be null
};

class Server {
 public:
  // Listens, by `http`, `keys`, `page` and `access_log` of the options, which later ones do not change. Until serve()
  // everything but the page is answered with 503: the model is being loaded.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options);
  // Once: from now on requests are answered. `engine` must outlive the server.
  Status serve(const Engine& engine, ServerOptions options);
  // Both.
  static Result<std::unique_ptr<Server>> start(const Engine& engine, ServerOptions options);
  // Interrupts what runs.
  ~Server();

  uint16_t port() const;
  std::string kv_events_address() const;  // empty: they are not published
  // Health turns to 503, new requests are refused; returns when the last answer is out or after `most_s` seconds.
  void drain(double most_s);

 private:
  struct Impl;
  struct Service;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ei::server
