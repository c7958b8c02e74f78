// Memory that runs out, at any point: one clear line and exit code 4, what was generated is printed, never a signal.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.h"
#include "printed_json.h"
#include "process.h"
#include "tools/random_model.h"

namespace ei::e2e {
namespace {

constexpr int64_t kStep = int64_t{2} << 20;
constexpr int64_t kMost = int64_t{1} << 30;

// A cache that grows fast, of a model that is named: of one that is not a line says which was taken. One thread:
// several would wait for each other by spinning, for minutes on a busy machine.
std::vector<std::string> endless(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run",          "-m", model(), "--raw", "-p",  "Once upon a time",
                                        "--ignore-eos", "-t", "1",     "-ctk",  "f32", "-ctv",
                                        "f32",          "-s", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Outcome run_within(int64_t bytes, std::vector<std::string> more) {
  Invocation invocation{.arguments = endless(std::move(more)), .address_space = bytes};
#if defined(__x86_64__)
  invocation.variables = {{"EI_DENSE", "ggml"}};  // oneDNN's own ways to fail are not held to this
#endif
  return run(invocation);
}

// Every amount of memory, from too little to load anything to enough for a short answer. Returns the latter.
int64_t expect_clear_lines_up_to_enough() {
  for (int64_t bytes = 16 * kStep; bytes < kMost; bytes += kStep) {
    const Outcome outcome = run_within(bytes, {"-n", "20"});
    if (outcome.code == 0) return bytes;
    if (outcome.code == 127) continue;  // the system could not even start the program
    EXPECT_EQ(outcome.signal, 0) << bytes << outcome.err;
    EXPECT_EQ(outcome.code, 4) << bytes << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("entropyinfer: ")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  ADD_FAILURE() << "never enough";
  return kMost;
}

// What a report says where memory ended the answer.
void expect_report_of_what_was_generated(const Outcome& outcome, size_t more_than) {
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  const auto object = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(object.is_discarded()) << outcome.out << outcome.err;
  EXPECT_EQ(object["finish_reason"], "memory");
  EXPECT_GT(object["text"].get<std::string>().size(), more_than);
  EXPECT_TRUE(outcome.err.find("entropyinfer: ") != std::string::npos) << outcome.err;
}

TEST(Memory, ThatRunsOutEndsInOneLineAndKeepsWhatWasGenerated) {
  const int64_t least = expect_clear_lines_up_to_enough();
  // With so much beside it that the cache, which grows, is what no longer fits, and not what is made once for a report.
  const int64_t enough = least + 4 * kStep;
  const Outcome text = run_within(enough, {"-n", "-1"});
  EXPECT_EQ(text.signal, 0);
  EXPECT_EQ(text.code, 4) << text.err;
  EXPECT_GT(text.out.size(), 40u);
  EXPECT_NE(text.err.find("entropyinfer: the KV cache does not fit in memory"), std::string::npos) << text.err;
  expect_report_of_what_was_generated(run_within(enough, {"-n", "-1", "--json"}), 40);
  // With less, anything may be what finds none.
  for (int64_t bytes = least; bytes < enough; bytes += kStep / 2) {
    SCOPED_TRACE(bytes);
    expect_report_of_what_was_generated(run_within(bytes, {"-n", "-1", "--json"}), 0);
  }
}

// A model whose weights in bf16 alone would take as much.
TEST(Memory, APromptTakesLessThan300MegabytesBesideWeightsAndCache) {
  RandomModelSpec spec = *random_model_preset("llama-3.2-1b");
  spec.layers = 3;
  spec.vocab = 8000;
  spec.types = {"Q4_K"};
  const std::string path = write_file("wide.gguf", "");
  ASSERT_TRUE(make_random_model(spec, path).ok());
  std::string prompt;
  while (prompt.size() < 2000) prompt += "A long text of short words, all of them well known. ";
  const std::vector<std::string> arguments = {"run", "--raw", "-m",     path, "-f", write_file("words.txt", prompt),
                                              "-n",  "1",     "--json", "-c", "0"};
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json object = parse(outcome.out);
  EXPECT_GT(object["tokens"]["prompt"].get<int64_t>(), 1500);
  const auto weights = static_cast<int64_t>(std::filesystem::file_size(path));
  const int64_t beside =
      object["memory"]["peak_rss_bytes"].get<int64_t>() - object["kv"]["bytes"].get<int64_t>() - weights;
  EXPECT_LT(beside, 300'000'000);
  std::filesystem::remove(path);
}

// The rule as it was released decides over the whole prompt, so activations of every token are held meanwhile: some 6.5
// kB a token in this model, beside the cache's 4. Otherwise a chunk at a time is held.
TEST(Memory, APromptReadSparselyTakesLittleMoreThanOneReadInFull) {
  std::string prompt;
  for (int i = 0; i < 250; ++i)
    prompt += str_format("Boat number %d went down the river to the mill with %d sacks. ", i, 7 * i % 90);
  const std::string path = write_file("boats.txt", prompt);
  int64_t tokens = 0;
  const auto peak = [&](const char* method) {
    const Outcome outcome =
        run({"run", "--raw", "-f", path, "-n", "1", "-t", "1", "-c", "0", "--json", "--method", method});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json object = parse(outcome.out);
    tokens = object["tokens"]["prompt"].get<int64_t>();
    return object["memory"]["peak_rss_bytes"].get<int64_t>();
  };
  // Of one method too, a run's peak is now 2 MB more and now less.
  const auto least_peak = [&](const char* method) { return std::min(peak(method), peak(method)); };
  const int64_t full = least_peak("full");
  EXPECT_GT(tokens, 5000);
  EXPECT_LT(least_peak("entropyinfer"), full + full / 20);
  EXPECT_LT(peak("entropyinfer-released"), full + 9000 * tokens);
}

}  // namespace
}  // namespace ei::e2e
