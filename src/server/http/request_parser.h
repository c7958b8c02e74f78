// RequestParser: one request out of bytes as they come. Beast's own bounds what waits to be read; this one counts what
// was taken, too, and keeps nothing of trailers and of chunks' extensions. Internal to the folder.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <string>

#include "server/http/http_server.h"

namespace ei::server {

// Of the request line and all headers together, the line being one more.
inline int64_t most_head_bytes(const HttpOptions& options) { return options.header_bytes * (options.header_count + 1); }

class RequestParser : public boost::beast::http::basic_parser<true> {
 public:
  // `options` must outlive it.
  explicit RequestParser(const HttpOptions& options);

  HttpRequest head{};  // as far as it came; without an id
  std::string body{};
  int version = 11;                 // 10: HTTP/1.0
  int64_t head_bytes = 0;           // of what was taken
  const char* complaint = nullptr;  // why http::error::header_limit, where it is not the sum

 private:
  using Error = boost::system::error_code;
  using Text = boost::beast::string_view;
  using Verb = boost::beast::http::verb;
  using Field = boost::beast::http::field;

  void on_request_impl(Verb verb, Text method, Text target, int given_version, Error& error) override;
  void on_response_impl(int, Text, int, Error&) override {}
  void on_field_impl(Field field, Text name, Text value, Error& error) override;
  // Newer versions of Beast call this for trailers.
  void on_trailer_field_impl(Field field, Text name, Text value, Error& error) {
    on_field_impl(field, name, value, error);
  }
  void on_header_impl(Error& error) override;
  void on_body_init_impl(const boost::optional<uint64_t>& length, Error& error) override;
  size_t on_body_impl(Text piece, Error& error) override;
  void on_chunk_header_impl(uint64_t, Text, Error&) override {}
  size_t on_chunk_body_impl(uint64_t left, Text piece, Error& error) override;
  void on_finish_impl(Error&) override {}

  const HttpOptions& options_;
  int fields_ = 0;  // trailers among them
};

}  // namespace ei::server
