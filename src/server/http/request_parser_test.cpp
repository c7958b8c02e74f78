#include "server/http/request_parser.h"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>

namespace ei::server {
namespace {

namespace http = boost::beast::http;

// Every piece comes alone, and is taken as far as the parser takes it.
boost::system::error_code read(RequestParser& parser, const std::vector<std::string>& pieces) {
  boost::system::error_code error;
  std::string waits;
  parser.eager(true);
  for (const std::string& piece : pieces) {
    waits += piece;
    waits.erase(0, parser.put(boost::asio::buffer(waits), error));
    if (error && error != http::error::need_more) return error;
    if (parser.is_done()) return {};
  }
  return error;
}

TEST(RequestParser, TakesARequestInPieces) {
  const HttpOptions options;
  RequestParser parser(options);
  EXPECT_FALSE(read(parser, {"POST /a?b=1 HTT", "P/1.0\r\nName: V", "alue\r\nContent-Length: 3\r\n\r\nx", "yz"}));
  EXPECT_EQ(parser.head.method, "POST");
  EXPECT_EQ(parser.head.path, "/a");
  EXPECT_EQ(parser.head.query, "b=1");
  EXPECT_EQ(parser.head.header("name"), "Value");
  EXPECT_EQ(parser.body, "xyz");
  EXPECT_EQ(parser.version, 10);
}

// Beast's own limit is that of what waits, and lines that come with a byte of the next one do not.
TEST(RequestParser, HeadersThatComeLineByLineAreCounted) {
  const HttpOptions options;
  RequestParser parser(options);
  std::vector<std::string> pieces(101, ":b\r\na");
  pieces.insert(pieces.begin(), "GET / HTTP/1.1\r\na");
  EXPECT_EQ(read(parser, pieces), http::error::header_limit);
  EXPECT_STREQ(parser.complaint, "too many headers");
}

TEST(RequestParser, TrailersAndExtensionsLeaveNothing) {
  const HttpOptions options;
  RequestParser parser(options);
  EXPECT_FALSE(read(parser, {"POST / HTTP/1.1\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\nz\r\n",
                             "0;x\r\nAuthorization: late\r\nA: 2\r\n\r\n"}));
  EXPECT_EQ(parser.body, "z");
  EXPECT_EQ(parser.head.headers.size(), 2u);
  EXPECT_EQ(parser.head.header("a"), "1");
  EXPECT_EQ(parser.head.header("authorization"), "");
}

TEST(RequestParser, BodiesThatEndNobodyKnowsWhereAreRefused) {
  const HttpOptions options;
  for (const char* coding : {"gzip", "chunked, gzip", "identity"}) {
    RequestParser parser(options);
    EXPECT_EQ(read(parser, {"POST / HTTP/1.1\r\nTransfer-Encoding: " + std::string(coding) + "\r\n\r\n"}),
              http::error::bad_transfer_encoding)
        << coding;
  }
  RequestParser both(options);
  EXPECT_TRUE(read(both, {"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"}));
  RequestParser endless(options);
  EXPECT_TRUE(read(endless, {std::string(33, 'A') + " / HTTP/1.1\r\n\r\n"})) << "no method is that long";
}

}  // namespace
}  // namespace ei::server
