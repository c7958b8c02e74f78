// What the server and its HTTP layer say to each other: plain structs, and a Reply that any thread may use.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ei::server {

struct HttpRequest {
  std::string method{};                          // "GET", also for HEAD: the answer then goes without its body
  std::string path{};                            // "/v1/models", without the query
  std::string query{};                           // "action=save"
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};
  std::string id{};                    // the client's X-Request-Id, or one of ours; its answer carries it
  std::shared_ptr<const void> room{};  // what it takes of the room for all heads and bodies

  // Empty where there is none.
  std::string header(const std::string& lower_case_name) const;
  // The value of `name` in the query; empty where there is none.
  std::string argument(std::string_view name) const;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json; charset=utf-8";
  std::string body{};
  Headers headers{};
};

// What the access log says of a request that is over: nothing of what it said.
struct AccessRecord {
  std::string id{};
  std::string method{};
  std::string path{};
  int status = 0;      // 0: the client went before there was an answer
  int64_t bytes = 0;   // sent
  double seconds = 0;  // from the request's last byte to the answer's
  bool gone = false;   // the client, before the end
};

// The answer to one request. Calls may come from any thread and return at once; after the client has gone they do
// nothing.
class Reply {
 public:
  virtual ~Reply() = default;
  // The whole answer.
  virtual void send(HttpResponse response) = 0;
  // Or in pieces: the head (its body is not used), then text as it comes, then the end. A stream in which nothing is
  // written for a while gets a comment, so that nobody on the way takes it for dead.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string text) = 0;
  virtual void end() = 0;
  // Called once, on the I/O thread, if the client goes away or stops reading before the answer is complete; at once
  // if it has gone already.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// Called on the I/O thread: must not take long.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Reply> reply)>;

}  // namespace ei::server
