// --log-file: what stderr gets, without colour and bar.
#include <gtest/gtest.h>

#include <fstream>

#include "process.h"

namespace ei::e2e {
namespace {

using Words = std::vector<std::string>;

// A log without the time in front of each line.
std::string log_text(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  for (std::string line; std::getline(file, line);) text += line.substr(line.find(' ') + 1) + "\n";
  return text;
}

TEST(LogFile, GetsWhatStderrGets) {
  for (const Words& words : {Words{"run", "-p", "x", "-n", "1"}, Words{"demo", "--tokens", "512"}}) {
    const std::string path = write_file("run.log", "");
    Words arguments = words;
    arguments.insert(arguments.end(), {"-v", "--color", "off", "--log-file", path});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(log_text(path), outcome.err);
  }
}

TEST(LogFile, HasNeitherColourNorBar) {
  const std::string path = write_file("run.log", "");
  const Outcome outcome = run(Invocation{
      .arguments = {"run", "-p", "x", "-n", "1", "-v", "--color", "on", "--log-file", path}, .terminal = true});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find('\033'), std::string::npos);
  const std::string log = log_text(path);
  EXPECT_EQ(log.find_first_of("\033\r"), std::string::npos) << log;
  EXPECT_NE(log.find("\nx\n"), std::string::npos) << "the prompt, as it is shown\n" << log;
  EXPECT_NE(log.find("generated"), std::string::npos) << log;
}

TEST(LogFile, GetsMistakesToo) {
  const std::string path = write_file("mistakes.log", "");
  const std::string config = write_file("log.conf", "nonsense = 1\nlog-file = " + path + "\n");
  const std::vector<std::pair<Invocation, std::string>> mistakes = {
      {{.arguments = {"run", "--bogus", "--log-file", path}}, "run does not know --bogus"},
      {{.arguments = {"run", "--log-file=" + path, "-n"}}, "-n needs a value"},
      {{.arguments = {"run", "-n", "many"}, .variables = {{"EI_ARG_LOG_FILE", path}}}, "not a whole number"},
      {{.arguments = {"run", "-p", "x", "--config", config}}, "unknown option 'nonsense'"},
      {{.arguments = {"fly", "--log-file", path}}, "unknown command 'fly'"},
      {{.arguments = {"info", "-m", "no/such.gguf", "--log-file", path}}, "no/such.gguf"}};
  for (const auto& [invocation, message] : mistakes) {
    write_file("mistakes.log", "");
    const Outcome outcome = run(invocation);
    expect_line(outcome, message == "no/such.gguf" ? 3 : 2, message);
    EXPECT_EQ(log_text(path), outcome.err);
  }
  expect_line(run({"run", "--bogus", "--log-file", "no/such/folder/log"}), 2, "run does not know --bogus");
}

}  // namespace
}  // namespace ei::e2e
