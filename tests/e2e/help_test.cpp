// --help, and what documents say of options: made of the same declarations.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "process.h"

namespace ei::e2e {
namespace {

TEST(Help, IsThereForEveryCommand) {
  EXPECT_EQ(run({"-h"}).code, 0);
  EXPECT_EQ(run({"-h", "nothing"}).code, 2);
  EXPECT_TRUE(run({"--version"}).out.starts_with("entropyinfer "));
  EXPECT_NE(run({"--list-devices"}).out.find("cpu"), std::string::npos);
  for (const char* command :
       {"run", "chat", "info", "tokenize", "bench", "perplexity", "eval", "inspect", "demo", "methods"}) {
    for (const char* flag : {"-h", "--help"}) {
      const Outcome outcome = run({command, flag});
      EXPECT_EQ(outcome.code, 0);
      EXPECT_NE(outcome.out.find(std::string("usage: entropyinfer ") + command), std::string::npos);
      EXPECT_EQ(outcome.err, "");
      EXPECT_EQ(run({flag, command}).out, outcome.out);
      std::istringstream lines(outcome.out);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
    }
    EXPECT_EQ(run({"help", command}).out, run({command, "--help"}).out);
    EXPECT_EQ(run({command, "--help-all"}).code, 0);
    EXPECT_EQ(run({command, "--version"}).out, run({"--version"}).out) << command;
  }
}

TEST(Help, BeginsWithWhatEveryoneNeedsAndListsTheMethods) {
  const std::string page = run({"run", "--help"}).out;
  const size_t model = page.find("-m, --model");
  const size_t method = page.find("--method NAME");
  EXPECT_LT(model, page.find("-p, --prompt"));
  EXPECT_LT(page.find("-p, --prompt"), method);
  EXPECT_LT(method, page.find("\nModel:\n"));
  EXPECT_NE(page.find("\n  snapkv "), std::string::npos);
  EXPECT_NE(page.find("(density 0.065, kv-budget 1024+10%)\n"), std::string::npos);
  const std::string listed = page.substr(page.find("\nMethods ("), page.find("\nModel:\n") - page.find("\nMethods ("));
  EXPECT_EQ(listed.find("\n   "), std::string::npos) << "one line each" << listed;
  EXPECT_EQ(page.find("--spread-power"), std::string::npos);
  const std::string methods = run({"run", "--help-methods"}).out;
  EXPECT_NE(methods.find("--spread-power"), std::string::npos);
  EXPECT_EQ(methods.find("--top-k"), std::string::npos);
}

TEST(Help, SaysWhatThePapersCallAnOptionAndWhatItIsByDefault) {
  std::string page = run({"run", "--help-methods"}).out;
  page = std::regex_replace(page, std::regex("\\s+"), " ");
  EXPECT_NE(page.find("over heads and layers (default: 0.065)"), std::string::npos);
  EXPECT_NE(page.find("--alpha X base budgets added for a growth of delta-t + 1 (alpha)"), std::string::npos);
  EXPECT_NE(page.find("last slots that always stay (W; default: 32)"), std::string::npos);
}

TEST(Docs, HoldTheTableOfOptionsThatTheProgramPrints) {
  std::ifstream file(std::string(EI_SOURCE_DIR) + "/docs/options.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), run({"methods", "--options"}).out) << "entropyinfer methods --options > docs/options.md";
}

}  // namespace
}  // namespace ei::e2e
