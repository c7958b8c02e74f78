#include "cli/setup.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>

namespace ei::cli {
namespace {

int64_t locked_kilobytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmLck:" && status >> word) return std::stoll(word);
  return -1;
}

TEST(Setup, AChunkIsNoLongerThanEitherSizeSays) {
  const auto chunk = [](int64_t batch, int64_t ubatch) {
    Settings settings;
    settings.batch_size = batch;
    settings.ubatch_size = ubatch;
    return chunk_tokens(settings);
  };
  EXPECT_EQ(chunk(0, 0), 0);
  EXPECT_EQ(chunk(2048, 0), 2048);
  EXPECT_EQ(chunk(0, 512), 512);
  EXPECT_EQ(chunk(2048, 512), 512);
  EXPECT_EQ(chunk(256, 512), 256);
}

TEST(Setup, MlockKeepsTheModelInMemory) {
#ifdef EI_SANITIZED
  GTEST_SKIP() << "AddressSanitizer locks nothing";
#endif
  Settings settings;
  settings.model = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
  settings.threads = 1;
  settings.mlock = true;
  const Result<Console> console = Console::open(settings);
  ASSERT_TRUE(console.ok());
  if (::mlockall(MCL_CURRENT) != 0) GTEST_SKIP() << "this user may not lock memory";
  ::munlockall();
  ASSERT_EQ(locked_kilobytes(), 0);
  const auto engine = load_engine(settings, *console);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_GT(locked_kilobytes(), (*engine)->file().bytes() / 1024);
  ::munlockall();
}

TEST(Setup, ThreadsForPromptsAreAskedForApart) {
  Settings settings;
  settings.threads = 1;
  EXPECT_EQ(engine_options(settings, "x").backend_options.prompt_threads, 0);
  settings.prompt_threads = 1;
  EXPECT_EQ(engine_options(settings, "x").backend_options.prompt_threads, 1);
  settings.prompt_threads = -1;
  EXPECT_EQ(engine_options(settings, "x").backend_options.prompt_threads, 0);
}

}  // namespace
}  // namespace ei::cli
