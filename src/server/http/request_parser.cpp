#include "server/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <cctype>

namespace ei::server {

namespace http = boost::beast::http;

namespace {
constexpr size_t kMethodBytes = 32;
}  // namespace

RequestParser::RequestParser(const HttpOptions& options) : options_(options) {
  header_limit(static_cast<uint32_t>(most_head_bytes(options)));
  body_limit(static_cast<uint64_t>(options.body_bytes));
}

void RequestParser::on_request_impl(Verb, Text method, Text target, int given_version, Error& error) {
  version = given_version;
  if (method.size() > kMethodBytes) {
    error = http::error::bad_method;
    return;
  }
  head.method = std::string(method);
  head_bytes += static_cast<int64_t>(method.size() + target.size());
  if (static_cast<int64_t>(target.size()) > options_.header_bytes) {
    complaint = "the request's path is longer than this server takes";
    error = http::error::header_limit;
    return;
  }
  const std::string whole(target);
  const size_t query = whole.find('?');
  head.path = whole.substr(0, query);
  if (query != std::string::npos) head.query = whole.substr(query + 1);
}

void RequestParser::on_field_impl(Field, Text name, Text value, Error& error) {
  const auto bytes = static_cast<int64_t>(name.size() + value.size());
  if (++fields_ > options_.header_count) complaint = "too many headers";
  if (bytes > options_.header_bytes) complaint = "a header is larger than this server takes";
  if (complaint != nullptr) {
    error = http::error::header_limit;
    return;
  }
  if (is_header_done()) return;  // a trailer: what it says comes too late
  head_bytes += bytes;
  std::string key(name);
  std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
  head.headers[key] = std::string(value);
}

// Where a body ends that is coded in another way, a proxy in front may see otherwise.
void RequestParser::on_header_impl(Error& error) {
  if (head.headers.contains("transfer-encoding") && !chunked()) error = http::error::bad_transfer_encoding;
}

void RequestParser::on_body_init_impl(const boost::optional<uint64_t>& length, Error&) {
  if (length) body.reserve(static_cast<size_t>(*length));  // at most body_limit()
}

size_t RequestParser::on_body_impl(Text piece, Error&) {
  body.append(piece.data(), piece.size());
  return piece.size();
}

size_t RequestParser::on_chunk_body_impl(uint64_t, Text piece, Error& error) { return on_body_impl(piece, error); }

}  // namespace ei::server
