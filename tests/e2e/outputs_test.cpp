// What commands write besides an answer: lists, tables, files; also when they are cut off.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "printed_json.h"
#include "process.h"

namespace ei::e2e {
namespace {

std::string new_folder(const std::string& name) {
  const std::string folder = write_file(name, "") + ".d";
  std::filesystem::create_directory(folder);
  return folder;
}

TEST(Devices, AreListedAsTextOrJson) {
  const Outcome text = run({"--list-devices"});
  const nlohmann::json list = parse(run({"--list-devices", "--json"}).out);
  EXPECT_EQ(list, parse(run({"info", "--list-devices", "--json"}).out));
  ASSERT_GE(list.size(), 2u);
  for (const nlohmann::json& device : list) {
    EXPECT_NE(text.out.find(device["name"].get<std::string>()), std::string::npos) << text.out;
    EXPECT_FALSE(device["summary"].get<std::string>().empty());
  }
}

TEST(Bench, InterruptedBeforeItsFirstRowIsStillJson) {
  Process process({.arguments = {"bench", "-p", "32768", "-n", "0", "-o", "json", "-v"}});
  ASSERT_TRUE(process.wait_for_err("running pp32768"));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.out, "[]\n");
}

TEST(Bench, ShowsWhereALongPromptIs) {
  Process process({.arguments = {"bench", "-p", "65536", "-n", "0", "-t", "1"}});
  EXPECT_TRUE(process.wait_for_err("pp65536"));
  process.interrupt(/*twice=*/true);
  EXPECT_EQ(process.finish().code, 130);
}

TEST(LongTexts, AreSaidToBeLongerThanTheTraining) {
  const Outcome outcome = run({"bench", "-p", "131073", "-n", "0", "-r", "1", "--no-warmup", "-ctk", "q9"});
  expect_line(outcome, 2, "q9");  // nothing is said of a command that does not run
  Process process({.arguments = {"bench", "-p", "131073", "-n", "0", "-r", "1", "--no-warmup"}});
  EXPECT_TRUE(
      process.wait_for_err("warning: a text of 131073 tokens is longer than the 131072 this model was trained for\n"));
  process.interrupt(/*twice=*/true);
  process.finish();
}

TEST(Logits, CountTheirPromptIntoTheTimeToTheFirstToken) {
  const std::string folder = new_folder("timed");
  const Outcome outcome = run(
      Invocation{.arguments = {"run", "-n", "1", "--json", "--logits-out", folder + "/logits"}, .input = prose(8000)});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json timings = parse(outcome.out)["timings"];
  EXPECT_GE(timings["ttft_ms"].get<double>(), timings["prompt_ms"].get<double>()) << timings;
  struct stat info {};
  ASSERT_EQ(::stat((folder + "/logits").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask);
}

TEST(Logits, LeaveNothingBehindWhenTheProgramIsLeftAtOnceOrKilled) {
  for (const bool killed : {false, true}) {
    const std::string folder = new_folder(killed ? "killed" : "left");
    Process process({.arguments = {"run", "-n", "1", "-t", "1", "-b", "256", "--logits-out", folder + "/logits"},
                     .input = prose(60000)});
    ASSERT_TRUE(process.wait_for_err("reading the prompt"));
    if (killed) {
      process.send(SIGKILL);
    } else {
      process.interrupt(/*twice=*/true);
    }
    process.finish();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
}

std::vector<double> probabilities(const float* logits, size_t count) {
  std::vector<double> shares(logits, logits + count);
  const double most = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - most);
  for (double& share : shares) share /= sum;
  return shares;
}

// p is full attention's, q the method's: worked out here from the logits of both.
TEST(KlDivergence, IsThatOfFullAttentionFromTheMethod) {
  std::string text;
  for (int i = 0; text.size() < 3500; ++i) text += "Boat " + std::to_string(i * 7919 % 1000) + " left the harbour. ";
  const std::string path = write_file("boats.txt", text);
  const std::vector<std::string> method = {
      "--method",      "entropyinfer", "--segment",      "128", "--threshold", "256",
      "--base-budget", "32",           "--local-budget", "8"};
  const auto with_method = [&](std::vector<std::string> words) {
    words.insert(words.end(), method.begin(), method.end());
    return words;
  };
  const auto logits = [&](const std::string& name, bool sparse) {
    const std::string file = write_file(name, "");
    const std::vector<std::string> words = {"run", "--raw", "-f", path, "-n", "1", "--json", "--logits-out", file};
    const Outcome outcome = run(sparse ? with_method(words) : words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::string bytes = contents(file);
    std::vector<float> rows(bytes.size() / sizeof(float));
    std::memcpy(rows.data(), bytes.data(), bytes.size());
    return std::pair(rows, parse(outcome.out)["tokens"]["prompt"].get<int64_t>());
  };
  const auto [full, tokens] = logits("full.bin", false);
  const auto [sparse, again] = logits("sparse.bin", true);
  ASSERT_EQ(full.size(), sparse.size());
  const size_t vocab = full.size() / static_cast<size_t>(tokens);
  double forwards = 0;
  double backwards = 0;
  for (auto row = static_cast<size_t>(tokens / 2); row + 1 < static_cast<size_t>(tokens); ++row) {
    const std::vector<double> p = probabilities(full.data() + row * vocab, vocab);
    const std::vector<double> q = probabilities(sparse.data() + row * vocab, vocab);
    for (size_t i = 0; i < vocab; ++i) {
      forwards += p[i] * std::log(p[i] / q[i]);
      backwards += q[i] * std::log(q[i] / p[i]);
    }
  }
  const auto rows = static_cast<double>(tokens - 1 - tokens / 2);
  const nlohmann::json scores = parse(run(with_method({"perplexity", "-f", path, "-c", std::to_string(tokens),
                                                       "--chunks", "1", "--kl-divergence", "--json"}))
                                          .out);
  EXPECT_NEAR(scores["mean_kld"].get<double>(), forwards / rows, 1e-4);
  ASSERT_GT(std::abs(forwards - backwards) / rows, 3e-4) << "a text that cannot tell the directions apart";
}

}  // namespace
}  // namespace ei::e2e
