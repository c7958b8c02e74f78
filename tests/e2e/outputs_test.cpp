// What commands write besides an answer: lists, tables, files; also when they are cut off.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "printed_json.h"
#include "process.h"

namespace ei::e2e {
namespace {

std::string long_prompt(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "The miller went down to the river and counted the boats again. ";
  return text;
}

std::string new_folder(const std::string& name) {
  const std::string folder = write_file(name, "") + ".d";
  std::filesystem::create_directory(folder);
  return folder;
}

TEST(Devices, AreListedAsTextOrJson) {
  const Outcome text = run({"--list-devices"});
  const nlohmann::json list = parse(run({"--list-devices", "--json"}).out);
  EXPECT_EQ(list, parse(run({"info", "--list-devices", "--json"}).out));
  ASSERT_GE(list.size(), 2u);
  for (const nlohmann::json& device : list) {
    EXPECT_NE(text.out.find(device["name"].get<std::string>()), std::string::npos) << text.out;
    EXPECT_FALSE(device["summary"].get<std::string>().empty());
  }
}

TEST(Bench, InterruptedBeforeItsFirstRowIsStillJson) {
  Process process({.arguments = {"bench", "-p", "32768", "-n", "0", "-o", "json", "-v"}});
  ASSERT_TRUE(process.wait_for_err("running pp32768"));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.out, "[]\n");
}

TEST(Bench, ShowsWhereALongPromptIs) {
  Process process({.arguments = {"bench", "-p", "65536", "-n", "0", "-t", "1"}});
  EXPECT_TRUE(process.wait_for_err("pp65536"));
  process.interrupt(/*twice=*/true);
  EXPECT_EQ(process.finish().code, 130);
}

TEST(LongTexts, AreSaidToBeLongerThanTheTraining) {
  const Outcome outcome = run({"bench", "-p", "131073", "-n", "0", "-r", "1", "--no-warmup", "-ctk", "q9"});
  expect_line(outcome, 2, "q9");  // nothing is said of a command that does not run
  Process process({.arguments = {"bench", "-p", "131073", "-n", "0", "-r", "1", "--no-warmup"}});
  EXPECT_TRUE(
      process.wait_for_err("warning: a text of 131073 tokens is longer than the 131072 this model was trained for\n"));
  process.interrupt(/*twice=*/true);
  process.finish();
}

TEST(Logits, CountTheirPromptIntoTheTimeToTheFirstToken) {
  const std::string folder = new_folder("timed");
  const Outcome outcome = run(Invocation{.arguments = {"run", "-n", "1", "--json", "--logits-out", folder + "/logits"},
                                         .input = long_prompt(8000)});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json timings = parse(outcome.out)["timings"];
  EXPECT_GE(timings["ttft_ms"].get<double>(), timings["prompt_ms"].get<double>()) << timings;
  struct stat info {};
  ASSERT_EQ(::stat((folder + "/logits").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask);
}

TEST(Logits, LeaveNothingBehindWhenTheProgramIsLeftAtOnceOrKilled) {
  for (const bool killed : {false, true}) {
    const std::string folder = new_folder(killed ? "killed" : "left");
    Process process({.arguments = {"run", "-n", "1", "-t", "1", "-b", "256", "--logits-out", folder + "/logits"},
                     .input = long_prompt(60000)});
    ASSERT_TRUE(process.wait_for_err("reading the prompt"));
    if (killed) {
      process.send(SIGKILL);
    } else {
      process.interrupt(/*twice=*/true);
    }
    process.finish();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
}

}  // namespace
}  // namespace ei::e2e
