// --device cuda and --device auto where no GPU can be used: without a driver, with one that shows no GPU
// (CUDA_VISIBLE_DEVICES is empty here), and in a program that was built without CUDA.
#include <gtest/gtest.h>

#include <algorithm>

#include "printed_json.h"
#include "process.h"

namespace ei::e2e {
namespace {

Outcome run_without_gpu(std::vector<std::string> arguments) {
  return run(Invocation{.arguments = std::move(arguments), .variables = {{"CUDA_VISIBLE_DEVICES", ""}}});
}

// As the program was built, not as the machine is.
bool has_cuda() { return run({"--list-devices"}).out.find("cuda ") != std::string::npos; }

TEST(Devices, AGpuThatIsNotThereIsOneLineAndExitCodeFive) {
  const std::string message = has_cuda() ? "no usable NVIDIA GPU (" : "unknown backend 'cuda'; this build has: cpu, ";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "-m", model(), "-p", "x", "-n", "2"},
        {"info", "-m", model()},
        {"bench", "-m", model(), "-p", "8", "-n", "0", "-r", "1"},
        {"demo", "--tokens", "1024"},
        {"serve", "-m", model(), "--port", "0"}}) {
    SCOPED_TRACE(arguments.front());
    std::vector<std::string> with = arguments;
    with.insert(with.end(), {"--device", "cuda"});
    const Outcome outcome = run_without_gpu(with);
    if (outcome.code == 2 && arguments.front() == "serve") continue;  // built without the server
    expect_line(outcome, 5, message);
  }
}

TEST(Devices, AutoTakesTheCpuThenAndOneLineSaysSo) {
  const std::vector<std::string> asked = {
      "run", "-m", model(), "-p", "The pass key is 4711. The pass key is", "-n", "4", "-t", "1", "--temp", "0"};
  std::vector<std::string> on_cpu = asked;
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  std::vector<std::string> by_itself = asked;
  by_itself.insert(by_itself.end(), {"--device", "auto"});
  const Outcome named = run_without_gpu(on_cpu);
  const Outcome chosen = run_without_gpu(by_itself);
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_EQ(chosen.out, named.out);
  const std::string why = has_cuda() ? "no usable NVIDIA GPU (" : "this build has no cuda backend\n";
  EXPECT_TRUE(chosen.err.starts_with("--device auto takes cpu: " + why)) << chosen.err;
  EXPECT_EQ(std::count(chosen.err.begin(), chosen.err.end(), '\n'),
            std::count(named.err.begin(), named.err.end(), '\n') + 1)
      << chosen.err;
  const Outcome info = run_without_gpu({"info", "--json", "--device", "auto"});
  EXPECT_EQ(parse(info.out)["backend"]["name"], "cpu");
}

}  // namespace
}  // namespace ei::e2e
