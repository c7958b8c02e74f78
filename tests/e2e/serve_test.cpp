// serve as a program: it says where it listens, and a signal ends it in order.
#include <gtest/gtest.h>

#include <csignal>

#include "process.h"

namespace ei::e2e {
namespace {

TEST(Serve, ListensSaysWhereAndEndsWithASignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process({.arguments = {"serve", "--port", "0", "--threads", "1"}});
    ASSERT_TRUE(process.wait_for_err("listening on http://127.0.0.1:"));
    process.send(signal);
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("stopping"), std::string::npos);
  }
}

TEST(Serve, RefusesWhatItCannotDo) {
  const std::vector<std::vector<std::string>> bad = {{"serve", "--host", "not an address"},
                                                     {"serve", "--port", "70000"},
                                                     {"serve", "--api-key-file", "/nowhere/keys"},
                                                     {"serve", "--method", "full", "--kv-budget", "100"},
                                                     {"serve", "--chat-template", "no template"}};
  for (const std::vector<std::string>& arguments : bad) {
    const Outcome outcome = Process({.arguments = arguments}).finish();
    EXPECT_EQ(outcome.code, 2) << arguments.back() << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace ei::e2e
