// Ctrl-C and closed pipes.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "process.h"

namespace ei::e2e {
namespace {

// Generates for as long as the context lasts.
const std::vector<std::string> kEndless = {"run", "--raw", "-p", "Once upon a time", "--ignore-eos", "-s", "1"};

TEST(Interrupt, TheFirstPrintsWhatThereIs) {
  Process process({.arguments = kEndless});
  ASSERT_TRUE(process.wait_for_out(" "));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with('\n'));
  EXPECT_NE(outcome.err.find("generated"), std::string::npos) << outcome.err;
}

TEST(Interrupt, JsonIsStillWritten) {
  std::vector<std::string> arguments = kEndless;
  arguments.insert(arguments.end(), {"--json", "-v"});
  Process process({.arguments = arguments});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  std::this_thread::sleep_for(std::chrono::seconds(3));  // reading four tokens and a few of the answer
  process.send(SIGTERM);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const auto object = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(object.is_discarded()) << outcome.out << outcome.err;
  EXPECT_EQ(object["finish_reason"], "interrupted");
}

TEST(Interrupt, ALongPromptStopsWithinASecond) {
  std::string story;
  while (story.size() < 300000) story += "The miller went down to the river and counted the boats again. ";
  Process process({.arguments = {"run", "-v"}, .input = story});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const double start = now_s();
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  // One second is the promise; a busy machine gets some more.
  EXPECT_LT(now_s() - start, 5.0);
}

TEST(Interrupt, AnEvaluationStopsWithinASecond) {
  Process process({.arguments = {"eval", "--length", "16384", "-v"}});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const double start = now_s();
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_LT(now_s() - start, 5.0);  // as above
}

TEST(Interrupt, AClosedStdoutEndsQuietly) {
  Process process({.arguments = kEndless});
  ASSERT_TRUE(process.wait_for_out(" "));
  process.close_stdout();
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace ei::e2e
