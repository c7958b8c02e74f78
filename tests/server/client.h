// A small HTTP client for tests, on plain sockets: it can also say what no library would.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ei::server {

struct Answer {
  int status = 0;                                // 0: the connection ended without one
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};                            // without chunk sizes

  nlohmann::json json() const;                 // null when it is none
  std::vector<nlohmann::json> events() const;  // of a stream, without [DONE]
};

// One connection. Closed with the object: a client that goes away.
class Client {
 public:
  explicit Client(uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& bytes);
  // What comes until the answer is complete or the connection ends.
  Answer read();
  // What has come when `text` is in it, or at the end.
  std::string read_until(const std::string& text);
  // Has the other side closed the connection? What has come is kept.
  bool ended();
  // Has something come that nobody has read?
  bool heard();

 private:
  bool more();
  int socket_ = -1;
  std::string buffer_{};
};

std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers = {});
Answer get(uint16_t port, const std::string& path, const std::string& headers = {});
Answer post(uint16_t port, const std::string& path, const nlohmann::json& body, const std::string& headers = {});

}  // namespace ei::server
