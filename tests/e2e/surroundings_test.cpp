// What a program may find when it starts: closed descriptors, limits, signals that are ignored, too few cores.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/cores.h"
#include "printed_json.h"
#include "process.h"

namespace ei::e2e {
namespace {

std::string folder_file(const std::string& name) {
  const std::string path = write_file(name, "");
  std::filesystem::remove(path);
  return path;
}

TEST(ClosedDescriptors, DoNotGoToTheNextFile) {
  const std::vector<std::string> arguments = {"run", "--raw", "-p", "x", "-n", "1", "--temp", "0"};
  for (const int closed : {STDOUT_FILENO, STDERR_FILENO}) {
    const std::string logits = folder_file("closed.bin");
    const std::string log = folder_file("closed.log");
    std::vector<std::string> more = arguments;
    more.insert(more.end(), {"--logits-out", logits, "--log-file", log});
    const Outcome outcome = run(Invocation{.arguments = more, .closed = {closed}});
    EXPECT_EQ(outcome.code, closed == STDOUT_FILENO ? 1 : 0) << outcome.err;
    EXPECT_EQ(std::filesystem::file_size(logits) % (4096 * sizeof(float)), 0u) << "rows of logits and nothing else";
    const std::string lines = contents(log);
    EXPECT_EQ(lines.find("generated"), lines.rfind("generated")) << lines;
  }
}

TEST(FileSizeLimit, IsOneLineAndNoSignal) {
  const std::string path = folder_file("limited.bin");
  const Outcome outcome =
      run(Invocation{.arguments = {"run", "--raw", "-p", "x y z", "-n", "1", "--logits-out", path}, .file_size = 4096});
  expect_line(outcome, 1, "File too large");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Threads, MoreThanCoresAreNotTaken) {
  const std::string many = std::to_string(usable_cores() + 6);
  const Outcome outcome = run({"run", "-p", "hello", "-n", "4", "-t", many, "-s", "1", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("--threads " + many + " is more than the cores there are"), std::string::npos);
  EXPECT_LT(std::min(outcome.seconds, outcome.cpu_seconds), 20) << "threads without a core hold the others up";
  const Outcome bench = run({"bench", "-p", "8", "-n", "0", "-r", "1", "-t", many, "--json"});
  EXPECT_EQ(parse(bench.out)[0]["n_threads"], usable_cores()) << bench.out;
}

TEST(RooflineMeter, SaysWhatIsMissing) {
  const std::vector<std::string> arguments = {"bench", "--roofline", "-p", "0", "-n", "0", "-t"};
  std::vector<std::string> memory = arguments;
  memory.push_back("1");
  expect_line(run(Invocation{.arguments = memory, .address_space = int64_t{400} << 20}), 4, "out of memory");
  std::vector<std::string> threads = arguments;
  threads.push_back("500");
  expect_line(run(Invocation{.arguments = threads, .address_space = int64_t{1000} << 20}), 4, "could not start");
}

TEST(IgnoredInterrupt, StaysIgnored) {
  Process process({.arguments = {"run", "-v", "-p", "Tell me a story.", "-n", "300", "--ignore-eos", "-s", "1"},
                   .ignores_interrupts = true});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  process.send(SIGINT);
  EXPECT_EQ(process.finish().code, 0);
}

TEST(Interrupt, APromptHalfReadGivesAnObjectToo) {
  for (const char* command : {"run", "chat"}) {
    Process process({.arguments = {command, "-v", "--json", "-f", "-"}, .input = prose(300'000)});
    ASSERT_TRUE(process.wait_for_err("loaded"));
    ASSERT_TRUE(process.wait_for_cpu(2));
    process.send(SIGINT);
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.code, 130);
    EXPECT_NE(outcome.err.find("interrupted after "), std::string::npos) << outcome.err;
    const nlohmann::json object = parse(outcome.out);
    EXPECT_EQ(object["finish_reason"], "interrupted");
    EXPECT_EQ(object["text"], "");
    EXPECT_EQ(object["tokens"]["generated"], 0);
  }
}

TEST(ModelFile, ThatIsCutShortWhileInUseIsNamed) {
  const std::string path = write_file("shrinks.gguf", contents(model()));
  Process process({.arguments = {"run", "-v", "-m", path, "-f", "-", "-n", "1"}, .input = prose(300'000)});
  ASSERT_TRUE(process.wait_for_err("loaded"));
  std::filesystem::resize_file(path, 100);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const size_t at = outcome.err.find("the model file was cut short");
  EXPECT_NE(at, std::string::npos) << outcome.err;
  EXPECT_EQ(at, outcome.err.rfind("the model file was cut short")) << "said once";
}

// Every redrawn bar must fit, or a terminal keeps a line of each.
TEST(NarrowTerminal, HoldsTheBarInOneLine) {
  for (const int columns : {80, 40}) {
    const Outcome outcome = run(Invocation{.arguments = {"run", "-n", "1", "-b", "32", "-t", "1", "--temp", "0"},
                                           .input = prose(8000),
                                           .variables = {{"TERM", "xterm"}},
                                           .terminal = true,
                                           .columns = columns});
    EXPECT_EQ(outcome.code, 0);
    int bars = 0;
    for (size_t at = 0; (at = outcome.err.find("\rreading the prompt", at)) != std::string::npos; ++at, ++bars) {
      const size_t end = outcome.err.find("\033[K", at);
      ASSERT_NE(end, std::string::npos);
      EXPECT_LT(end - at - 1, static_cast<size_t>(columns));
    }
    EXPECT_GT(bars, 0) << outcome.err;
  }
}

}  // namespace
}  // namespace ei::e2e
