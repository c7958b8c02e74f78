#include "server/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

namespace ei::server {

namespace {
constexpr size_t kReadBytes = 65536;
#ifdef EI_SANITIZED
constexpr timeval kPatience{.tv_sec = 1200, .tv_usec = 0};
#else
constexpr timeval kPatience{.tv_sec = 120, .tv_usec = 0};
#endif

// The pieces of a chunked body joined; false while its end has not come.
bool join_chunks(const std::string& text, std::string& joined) {
  joined.clear();
  for (size_t at = 0;;) {
    const size_t line = text.find("\r\n", at);
    if (line == std::string::npos) return false;
    const size_t size = std::stoul(text.substr(at, line - at), nullptr, 16);
    if (text.size() < line + 2 + size + 2) return false;
    if (size == 0) return true;
    joined += text.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
}
}  // namespace

nlohmann::json Answer::json() const {
  const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, false);
  return parsed.is_discarded() ? nlohmann::json() : parsed;
}

std::vector<nlohmann::json> Answer::events() const {
  std::vector<nlohmann::json> list;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string event = body.substr(at, end - at);
    const size_t data = event.find("data: ");
    if (data != std::string::npos && event.find("[DONE]") == std::string::npos)
      list.push_back(nlohmann::json::parse(event.substr(data + 6)));
    at = end + 2;
  }
  return list;
}

Client::Client(uint16_t port) {
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

Client::~Client() {
  if (socket_ >= 0) ::close(socket_);
}

void Client::send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<size_t>(sent);
  }
}

bool Client::more() {
  std::string piece(kReadBytes, '\0');
  const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
  if (got <= 0) return false;
  buffer_.append(piece, 0, static_cast<size_t>(got));
  return true;
}

std::string Client::read_until(const std::string& text) {
  while (buffer_.find(text) == std::string::npos && more()) {
  }
  return buffer_;
}

bool Client::ended() {
  char byte = 0;
  const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

bool Client::heard() {
  char byte = 0;
  return !buffer_.empty() || ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

Answer Client::read() {
  Answer answer;
  size_t head = std::string::npos;
  while ((head = buffer_.find("\r\n\r\n")) == std::string::npos)
    if (!more()) return answer;
  answer.status = std::stoi(buffer_.substr(9, 3));
  for (size_t at = buffer_.find("\r\n") + 2; at < head;) {
    const size_t end = buffer_.find("\r\n", at);
    const size_t colon = buffer_.find(": ", at);
    std::string name = buffer_.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers[name] = buffer_.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  buffer_.erase(0, head + 4);
  if (answer.headers.contains("content-length")) {
    const size_t length = std::stoul(answer.headers["content-length"]);
    while (buffer_.size() < length && more()) {
    }
    answer.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return answer;
  }
  while (!join_chunks(buffer_, answer.body))
    if (!more()) break;
  return answer;
}

std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers) {
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
  if (!body.empty())
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

Answer get(uint16_t port, const std::string& path, const std::string& headers) {
  Client client(port);
  client.send(request_text("GET", path, "", headers));
  return client.read();
}

Answer post(uint16_t port, const std::string& path, const nlohmann::json& body, const std::string& headers) {
  Client client(port);
  client.send(request_text("POST", path, body.dump(), headers));
  return client.read();
}

}  // namespace ei::server
