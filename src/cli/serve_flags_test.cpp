#include "cli/serve_flags.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ei::cli {
namespace {

TEST(ServeFlags, AreAllOnThePageOfTheCommandLine) {
  std::ifstream file(EI_SOURCE_DIR "/docs/command-line.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const Option& option : serve_flags()) {
    const std::string flag = "`--" + std::string(option.name()) + "`";
    EXPECT_NE(page.str().find(flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace ei::cli
