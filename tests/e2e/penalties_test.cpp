// Penalties look at the prompt and at earlier turns, as in llama.cpp.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

TEST(Penalties, SeeTheTokensOfThePrompt) {
  const auto answer = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "run", "-p", "The pass key is 48213. Remember it.\n\nWhat is the pass key?", "-n", "5", "--temp", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(answer({}), "48213\n");
  for (const char* flag : {"--presence-penalty", "--frequency-penalty", "--repeat-penalty"}) {
    SCOPED_TRACE(flag);
    EXPECT_NE(answer({flag, "100"}), "48213\n");
    EXPECT_EQ(answer({flag, "100", "--repeat-last-n", "0"}), "48213\n") << "no window";
    EXPECT_EQ(answer({flag, "100", "--repeat-last-n", "1"}), "48213\n") << "the key stands before the window";
  }
}

TEST(Penalties, SeeTheEarlierTurnsOfAChat) {
  const auto second_turn = [](const char* last_n) {
    const Outcome outcome = run(Invocation{.arguments = {"chat", "--json", "--temp", "0", "-n", "5",
                                                         "--presence-penalty", "100", "--repeat-last-n", last_n},
                                           .input = "The pass key is 48213. Remember it.\nWhat is the pass key?\n"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const size_t begin = outcome.out.find('\n') + 1;
    const json turn = json::parse(outcome.out.substr(begin), nullptr, false);
    EXPECT_FALSE(turn.is_discarded()) << outcome.out;
    EXPECT_GT(turn["tokens"]["cached"], 10) << "the key was read in the first turn";
    return turn["text"].get<std::string>();
  };
  EXPECT_EQ(second_turn("1"), "48213");
  EXPECT_NE(second_turn("200"), "48213");
}

}  // namespace
}  // namespace ei::e2e
