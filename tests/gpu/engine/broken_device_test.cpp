// A GPU that fails in the middle of work: one error of kind kDevice for everybody who asks it for something, nobody
// waits for ever, and the process ends by itself. Each test breaks the GPU of a process of its own.
#include "gpu/engine/broken_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cli/command.h"
#include "gpu/engine/sides.h"
#include "support/embedded_engine.h"

namespace ei::testing {
namespace {

constexpr unsigned kHangs = 300;  // seconds; a signal ends the process then
constexpr int kWrong = 99;        // exit code that no kind of error has

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(kWrong);
}

// By itself, as the program does.
[[noreturn]] void leave_with(const Status& status) {
  must(!status.ok(), "work on a broken device is an error");
  must(status.error().message.find('\n') == std::string::npos, "an error is one line");
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(exit_code(status.error().kind));
}

void must_fail_too(const Status& status) {
  const bool heard = !status.ok() && status.error().kind == ErrorKind::kDevice;
  if (!heard) std::fprintf(stderr, "heard: %s\n", status.ok() ? "nothing" : status.error().message.c_str());
  must(heard, "others hear that it is the device");
}

std::unique_ptr<Engine> engine_on_the_gpu() {
  ::alarm(kHangs);
  EngineOptions options;
  options.backend = "cuda";
  std::unique_ptr<Engine> engine = load_embedded(options);
  must(engine != nullptr, "there is an engine");
  return engine;
}

[[noreturn]] void fail_in_a_prompt(const std::string& method) {
  Status failed;
  {
    const auto engine = engine_on_the_gpu();
    const auto bystander = open_session(*engine, {});
    must(bystander->prefill(ei::random_tokens(300, 1)).ok(), "a session at rest");
    SessionOptions options;
    options.method = method;
    options.batch = 4096;
    const auto session = open_session(*engine, options);
    bool broken = false;
    failed = session->prefill(ei::random_tokens(100000, 3), [&](const PrefillProgress& progress) {
      if (progress.done >= 16384 && !broken) {
        broken = true;
        break_device();
      }
    });
    must(session->position() >= 16384 && session->position() < 100000, "what was read before is held");
    must_fail_too(session->decode(5));
    must_fail_too(session->prefill(ei::random_tokens(10, 1)));
    must_fail_too(bystander->decode(5));
    auto opened = engine->new_session({});
    if (!opened.ok()) must_fail_too(opened.error());
  }
  leave_with(failed);
}

[[noreturn]] void fail_while_generating() {
  Status failed;
  {
    const auto engine = engine_on_the_gpu();
    const auto session = open_session(*engine, {});
    must(session->prefill(ei::random_tokens(2000, 1)).ok(), "a prompt");
    for (int i = 0; i < 20; ++i) must(session->decode(likeliest(*session)).ok(), "tokens as a graph");
    break_device();
    for (int i = 0; i < 10000 && failed.ok(); ++i) failed = session->decode(likeliest(*session));
    must_fail_too(session->decode(5));
  }
  leave_with(failed);
}

// The whole program, whose GPU fails while it writes: stdout is the answer so far, stderr one line.
[[noreturn]] void fail_under_the_program() {
  ::alarm(kHangs);
  must(std::freopen("/dev/null", "w", stdout) != nullptr, "nobody reads the answer");
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    break_device();
  }).detach();
  const char* words[] = {"entropyinfer", "run",    "-m",          EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf",
                         "--device",     "cuda",   "-p",          "The ferry left the harbour",
                         "-n",           "120000", "--ignore-eos"};
  std::exit(cli::main_with_arguments(static_cast<int>(std::size(words)), const_cast<char**>(words)));
}

// Another process, from the beginning: a fork of this one could not use its GPU.
struct CudaFailureDeathTest : ::testing::Test {
  void SetUp() override {
    EI_NEEDS_GPU();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};
const ::testing::ExitedWithCode kExitsForDevice(5);
constexpr const char* kLine = "the GPU failed \\(";

TEST_F(CudaFailureDeathTest, InAPromptIsOneError) { EXPECT_EXIT(fail_in_a_prompt("full"), kExitsForDevice, kLine); }

TEST_F(CudaFailureDeathTest, InASparsePromptIsOneError) {
  EXPECT_EXIT(fail_in_a_prompt("entropyinfer"), kExitsForDevice, kLine);
}

TEST_F(CudaFailureDeathTest, BetweenTokensIsOneError) { EXPECT_EXIT(fail_while_generating(), kExitsForDevice, kLine); }

TEST_F(CudaFailureDeathTest, UnderTheProgramIsALineAndExitCodeFive) {
  EXPECT_EXIT(fail_under_the_program(), kExitsForDevice, "^entropyinfer: the GPU failed \\([^\n]*\n$");
}

}  // namespace
}  // namespace ei::testing
