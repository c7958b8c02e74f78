// Ctrl-C, kills and closed pipes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "process.h"

namespace ei::e2e {
namespace {

// Generates for as long as the context lasts.
const std::vector<std::string> kEndless = {"run", "--raw", "-p", "Once upon a time", "--ignore-eos", "-s", "1"};

// Measured on two cores: 0.03 s, and 0.06 s beside two busy loops.
constexpr double kPromisedSeconds = 1.0;

TEST(Interrupt, TheFirstPrintsWhatThereIs) {
  Process process({.arguments = kEndless});
  ASSERT_TRUE(process.wait_for_out(" "));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with('\n'));
  EXPECT_NE(outcome.err.find("generated"), std::string::npos) << outcome.err;
}

TEST(Interrupt, TheFirstEndsAChatWithWhatThereIs) {
  Process process({.arguments = {"chat", "-p", "Tell me a story.", "--ignore-eos", "-s", "1"}});
  ASSERT_TRUE(process.wait_for_out(" "));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with('\n'));
  EXPECT_NE(outcome.err.find("generated"), std::string::npos) << outcome.err;
}

// Nobody reads the answer, so the program cannot even finish its token.
TEST(Interrupt, TheSecondLeavesAnAnswerAtOnce) {
  const std::vector<std::string> chat = {"chat", "-p", "Tell me a story.", "--ignore-eos", "-s", "1"};
  for (const std::vector<std::string>& arguments : {kEndless, chat}) {
    SCOPED_TRACE(arguments[0]);
    Process process({.arguments = arguments, .pipe_bytes = 4096});
    ASSERT_TRUE(process.wait_until_stuck());
    process.send(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_TRUE(process.running());
    process.send(SIGINT);
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.code, 130) << outcome.err;
    EXPECT_EQ(outcome.err.find("generated"), std::string::npos) << outcome.err;
  }
}

TEST(Interrupt, TheSecondLeavesAPromptAtOnce) {
  for (const char* command : {"run", "chat"}) {
    for (const bool twice : {false, true}) {
      SCOPED_TRACE(std::string(command) + (twice ? ", twice" : ", once"));
      Process process({.arguments = {command, "-v", "-f", "-"}, .input = prose(300'000)});
      ASSERT_TRUE(process.wait_for_err("loaded"));
      ASSERT_TRUE(process.wait_for_cpu(2));
      process.interrupt(twice);
      const Outcome outcome = process.finish();
      EXPECT_EQ(outcome.code, 130) << outcome.err;
      EXPECT_EQ(outcome.out, "");
      // The first says why there is no answer; the second says nothing any more.
      EXPECT_EQ(outcome.err.find("interrupted") == std::string::npos, twice) << outcome.err;
    }
  }
}

TEST(Interrupt, JsonIsStillWritten) {
  std::vector<std::string> arguments = kEndless;
  arguments.insert(arguments.end(), {"--json", "-v"});
  Process process({.arguments = arguments});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  ASSERT_TRUE(process.wait_for_cpu(3));  // reading four tokens and a few of the answer
  process.send(SIGTERM);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const auto object = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(object.is_discarded()) << outcome.out << outcome.err;
  EXPECT_EQ(object["finish_reason"], "interrupted");
}

// A Ctrl-C while it reads: nothing of an answer, and soon.
void expect_stop_within_a_second(const Invocation& invocation) {
  Process process(invocation);
  ASSERT_TRUE(process.wait_for_err("loaded"));
  ASSERT_TRUE(process.wait_for_cpu(2));
  const double start = now_s();
  const double start_cpu = process.cpu_seconds();
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  // Beside other programs it has the CPU for a part of the time only; what it does with that part is its own.
  EXPECT_LT(std::min(now_s() - start, outcome.cpu_seconds - start_cpu), kPromisedSeconds);
}

TEST(Interrupt, ALongPromptStopsWithinASecondHoweverItIsRead) {
  for (const char* method : {"full", "entropyinfer", "entropyinfer-released"}) {
    SCOPED_TRACE(method);
    expect_stop_within_a_second({.arguments = {"run", "-v", "--method", method}, .input = prose(300'000)});
  }
}

TEST(Interrupt, APromptCacheKeepsWhatWasReadUnlessItHoldsMore) {
  const std::string cache = write_file("cut.cache", "");
  std::remove(cache.c_str());
  const auto interrupted = [&](const std::string& text) {
    Process process({.arguments = {"run", "-v", "-b", "128", "-n", "1", "--prompt-cache", cache}, .input = text});
    EXPECT_TRUE(process.wait_for_err("loaded"));
    EXPECT_TRUE(process.wait_for_cpu(1));
    process.send(SIGINT);
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.code, 130) << outcome.err;
    return outcome.err;
  };
  const auto asked = [&](const std::string& text) {
    const Outcome outcome = run({"run", "-p", text, "-n", "1", "--json", "--prompt-cache", cache});
    return nlohmann::json::parse(outcome.out)["tokens"]["cached"].get<int64_t>();
  };
  std::string err = interrupted(prose(300'000));
  EXPECT_NE(err.find(" tokens to " + cache + ": the same command goes on from there"), std::string::npos) << err;
  EXPECT_GT(asked(prose(600)), 50);

  std::remove(cache.c_str());
  EXPECT_EQ(asked(prose(60'000)), 0);
  const std::string file = contents(cache);
  err = interrupted("Otherwise. " + prose(300'000));
  EXPECT_NE(err.find(cache + " stays as it is: it holds "), std::string::npos) << err;
  EXPECT_TRUE(contents(cache) == file);
}

TEST(Interrupt, AnEvaluationStopsWithinASecond) {
  expect_stop_within_a_second({.arguments = {"eval", "--teacher-forced", "--length", "16384", "-v"}});
  expect_stop_within_a_second(
      {.arguments = {"eval", "--tasks", "num", "--lengths", "32k", "-n", "1", "--methods", "full", "--json", "-v"}});
}

TEST(Interrupt, AnEvaluationKeepsTheTextsItHasFinished) {
  Process process({.arguments = {"eval", "--teacher-forced", "--length", "1024", "--contexts", "100000", "--tasks",
                                 "num", "--method", "full", "--json"}});
  ASSERT_TRUE(process.wait_for_out("\n"));  // the answer to the first text
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const std::string last = outcome.out.substr(outcome.out.rfind('\n', outcome.out.size() - 2) + 1);
  const nlohmann::json summary = nlohmann::json::parse(last);
  ASSERT_TRUE(summary.contains("summary")) << last;
  EXPECT_GE(summary["contexts"], 1);
  EXPECT_EQ(summary["contexts"], summary["tested"]["tasks"]["num"]["total"]);
  EXPECT_EQ(summary["contexts"], std::count(outcome.out.begin(), outcome.out.end(), '\n') - 1) << "a line per answer";
  EXPECT_NE(outcome.err.find("of 100000 texts"), std::string::npos) << outcome.err;
}

// Answers are generated, one item after another, and one line of each on stdout. Nobody reads those behind the first
// until the end, so that the program, however quick, waits for room before it has written them all.
class CutEval : public testing::Test {
 protected:
  static constexpr int64_t kLines = 24;  // 12 items, 2 methods

  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ei_cut_eval_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& run, const std::string& name) const {
    return contents((folder_ / run / name).string());
  }
  Invocation eval_into(const std::string& run) const {
    return {.arguments = {"eval", "--tasks", "num,niah_single_1,vt", "--lengths", "512", "-n", "4", "--seed", "5", "-t",
                          "1", "--methods", "full,snapkv:kv-budget=64", "--json", "--out", (folder_ / run).string()},
            .pipe_bytes = 4096};
  }
  // Ended by the signal behind its first answer.
  Outcome cut(const std::string& run, int signal_number) const {
    Process process(eval_into(run));
    EXPECT_TRUE(process.wait_for_out("\n"));
    process.send(signal_number);
    return process.finish();
  }
  // Every line behind the conditions, without what depends on when it was written.
  std::vector<nlohmann::json> results(const std::string& run) const {
    std::vector<nlohmann::json> all;
    std::istringstream stream(file(run, "items.jsonl"));
    std::string line;
    std::getline(stream, line);
    while (std::getline(stream, line)) {
      all.push_back(nlohmann::json::parse(line, nullptr, false));
      for (const char* name : {"prompt_s", "decode_s", "compress_s"}) all.back().erase(name);
    }
    return all;
  }
  // What was there before stays as it was; the rest is what a run without a break finds, in its order, each once.
  void expect_to_go_on(const std::string& run) const {
    const std::string before = file(run, "items.jsonl");
    const Outcome rest = ei::e2e::run(eval_into(run));
    ASSERT_EQ(rest.code, 0) << rest.err;
    const std::string after = file(run, "items.jsonl");
    EXPECT_EQ(after.substr(0, before.size()), before);
    EXPECT_TRUE(after.ends_with(rest.out)) << "only what was missing is answered";
    const Outcome whole = ei::e2e::run(eval_into("whole"));
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_EQ(results(run), results("whole"));
    EXPECT_EQ(file(run, "items.jsonl").substr(0, after.find('\n')),
              file("whole", "items.jsonl").substr(0, after.find('\n')));
    std::set<std::string> names;
    for (const auto& result : results(run))
      EXPECT_TRUE(names.insert(result["item"].get<std::string>() + result["method"].get<std::string>()).second)
          << result;
    EXPECT_EQ(std::ssize(names), kLines);
    const auto tasks = [&](const std::string& page) {
      return page.substr(std::min(page.find("\n| task |"), page.size()));
    };
    EXPECT_EQ(tasks(file(run, "summary.md")), tasks(file("whole", "summary.md")));
    EXPECT_NE(tasks(file(run, "summary.md")), "");
    const Outcome again = ei::e2e::run(eval_into(run));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(again.out, "") << "nothing is left to answer";
    EXPECT_EQ(file(run, "items.jsonl"), after);
  }

  std::filesystem::path folder_;
};

TEST_F(CutEval, GoesOnWhereItWasKilled) {
  int64_t before = 0;
  for (int kill = 0; kill < 2; ++kill) {
    const Outcome outcome = cut("killed", SIGKILL);
    EXPECT_EQ(outcome.signal, SIGKILL) << outcome.err;
    const int64_t now = std::ssize(results("killed"));
    EXPECT_GT(now, before);
    EXPECT_LT(now, kLines);
    EXPECT_EQ(file("killed", "summary.md"), "") << "it had no time for one";
    before = now;
  }
  expect_to_go_on("killed");
}

TEST_F(CutEval, GoesOnWhereACtrlCEndedIt) {
  const Outcome outcome = cut("interrupted", SIGINT);
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_NE(outcome.err.find("interrupted; the same command goes on from here"), std::string::npos) << outcome.err;
  const int64_t answered = std::ssize(results("interrupted"));
  EXPECT_GE(answered, 1);
  EXPECT_LT(answered, kLines);
  EXPECT_TRUE(file("interrupted", "items.jsonl").ends_with(outcome.out)) << "what is printed is on disk";
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), answered);
  EXPECT_NE(file("interrupted", "summary.md").find("| full | " + std::to_string((answered + 1) / 2) + " |"),
            std::string::npos)
      << "the items it has finished: " << file("interrupted", "summary.md");
  EXPECT_NE(file("interrupted", "report.html").find("\"results\":" + std::to_string(answered)), std::string::npos);
  expect_to_go_on("interrupted");
}

TEST(Interrupt, ABenchmarkKeepsTheRowsItHasFinished) {
  Process process({.arguments = {"bench", "-p", "16-8192+1", "-n", "0", "-r", "1", "-o", "json"}});
  ASSERT_TRUE(process.wait_for_out("}"));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const auto rows = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(rows.is_array()) << outcome.out;
  EXPECT_GE(rows.size(), 1u);
}

TEST(Interrupt, AClosedStdoutEndsQuietly) {
  std::vector<std::string> arguments = kEndless;  // with a model of its own, so that no line names the one taken
  arguments.insert(arguments.end(), {"-m", model()});
  Process process({.arguments = arguments});
  ASSERT_TRUE(process.wait_for_out(" "));
  process.close_stdout();
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace ei::e2e
