// While a model is loaded the server listens already, and says so.
#include <gtest/gtest.h>

#include "server/test_server.h"
#include "support/embedded_engine.h"

namespace ei::server {
namespace {

using nlohmann::json;

TEST(ServerLoading, IsToldToWhoeverAsksAndThenRequestsAreAnswered) {
  const ServerOptions options = test_options();
  auto server = Server::listen(options);
  ASSERT_TRUE(server.ok()) << server.error().message;
  const uint16_t port = (*server)->port();
  const json body = {{"prompt", "a"}, {"n_predict", 1}};
  for (const Answer& answer : {get(port, "/health"), get(port, "/v1/models"), post(port, "/completion", body)}) {
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.json()["error"]["message"], "Loading model") << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"], "unavailable_error");
    EXPECT_EQ(answer.json()["error"]["code"], 503);
  }
  EXPECT_EQ(get(port, "/").status, 200) << "the page tells of it by itself";
  (*server)->drain(1);  // a signal that comes now waits for nothing
  ASSERT_TRUE((*server)->serve(embedded_engine(), options).ok());
  EXPECT_EQ(get(port, "/health").status, 200);
  EXPECT_EQ(post(port, "/completion", body).status, 200);
}

TEST(ServerLoading, APortThatIsTakenIsKnownBeforeAnythingIsLoaded) {
  const TestServer first;
  ServerOptions options = test_options();
  options.http.port = first.port();
  const auto second = Server::listen(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace ei::server
