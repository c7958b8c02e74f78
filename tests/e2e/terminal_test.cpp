// What a terminal gets and a pipe does not: the progress bar and colour.
#include <gtest/gtest.h>

#include <string>

#include "process.h"

namespace ei::e2e {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Long enough for the bar to be drawn (after a tenth of a second), in many steps.
Outcome read_a_long_prompt(bool terminal, Variables variables, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"run", "-n", "1", "-b", "32", "-t", "1", "--temp", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run(Invocation{
      .arguments = arguments, .input = prose(8000), .variables = std::move(variables), .terminal = terminal});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("generated  1 token "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos);
  return outcome;
}

bool has_bar(const Outcome& outcome) { return outcome.err.find("\rreading the prompt [") != std::string::npos; }

// ESC [ numbers m
bool has_colour(const Outcome& outcome) {
  const std::string& text = outcome.err;
  for (size_t at = 0; (at = text.find("\033[", at)) != std::string::npos; ++at) {
    const size_t end = text.find_first_not_of("0123456789;", at + 2);
    if (end != std::string::npos && text[end] == 'm') return true;
  }
  return false;
}

// NO_COLOR counts when it is not empty.
const Variables kPlain = {{"TERM", "xterm"}, {"NO_COLOR", ""}};

TEST(Terminal, ShowsABarAndColour) {
  const Outcome outcome = read_a_long_prompt(true, kPlain);
  EXPECT_TRUE(has_bar(outcome)) << outcome.err;
  EXPECT_TRUE(has_colour(outcome)) << outcome.err;
  EXPECT_TRUE(outcome.err.find("\033[K") < outcome.err.find("generated")) << "the bar goes before the timings come";
}

TEST(Terminal, ShowsNoColourWhenNobodyWantsIt) {
  EXPECT_FALSE(has_colour(read_a_long_prompt(true, {{"TERM", "xterm"}, {"NO_COLOR", "1"}})));
  EXPECT_FALSE(has_colour(read_a_long_prompt(true, kPlain, {"--color", "off"})));
}

TEST(Terminal, GetsNoEscapeSequenceWhenItIsDumb) {
  const Outcome outcome = read_a_long_prompt(true, {{"TERM", "dumb"}, {"NO_COLOR", ""}});
  EXPECT_FALSE(has_bar(outcome)) << outcome.err;
  EXPECT_EQ(outcome.err.find_first_of("\r\033"), std::string::npos) << outcome.err;
}

TEST(Terminal, RepeatsThePromptUnlessToldNotTo) {
  const std::string prompt = "Who counted the boats?";
  const auto shown = [&](std::vector<std::string> more, bool terminal) {
    std::vector<std::string> arguments = {"run", "-p", prompt, "-n", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(Invocation{.arguments = arguments, .variables = kPlain, .terminal = terminal});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err.find(prompt) != std::string::npos;
  };
  EXPECT_TRUE(shown({}, true));
  EXPECT_FALSE(shown({"--no-display-prompt"}, true));
  EXPECT_FALSE(shown({}, false));
}

TEST(Pipe, GetsNeitherBarNorColour) {
  for (const char* no_color : {"", "1"}) {
    const Outcome outcome = read_a_long_prompt(false, {{"TERM", "xterm"}, {"NO_COLOR", no_color}});
    EXPECT_FALSE(has_bar(outcome)) << outcome.err;
    EXPECT_EQ(outcome.err.find_first_of("\r\033"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace ei::e2e
