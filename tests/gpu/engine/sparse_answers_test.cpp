// Whole prompts that are read sparsely on the GPU, against the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "gpu/engine/sides.h"
#include "support/embedded_engine.h"

namespace ei::testing {
namespace {

const Engine& on(const std::string& device) {
  static std::map<std::string, std::unique_ptr<Engine>> engines;
  std::unique_ptr<Engine>& engine = engines[device];
  if (engine == nullptr) {
    EngineOptions options;
    options.backend = device;
    engine = load_embedded(options);
  }
  return *engine;
}

struct Read {
  double density = 0;
  std::vector<float> logits;
  std::vector<int32_t> counts;
};

Read read(const std::string& device, const SessionOptions& options, const std::vector<int32_t>& tokens) {
  const auto session = on(device).new_session(options);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  const Status done = (*session)->prefill(tokens);
  EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
  Read result;
  result.density = (*session)->stats().pairs / (*session)->stats().pairs_dense;
  result.logits.assign((*session)->logits().begin(), (*session)->logits().end());
  for (int layer = 0; layer < 8; ++layer) {
    if ((*session)->planner() == nullptr || !(*session)->planner()->plans(layer)) continue;
    for (const policy::SegmentRecord& record : (*session)->planner()->records(layer))
      for (const policy::HeadRecord& head : record.heads) result.counts.push_back(head.blocks);
  }
  return result;
}

double divergence(const std::vector<float>& a, const std::vector<float>& b) {
  const auto log_total = [](const std::vector<float>& row) {
    double sum = 0;
    for (const float value : row) sum += std::exp(static_cast<double>(value));
    return std::log(sum);
  };
  const double total_a = log_total(a);
  const double total_b = log_total(b);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double log_b = static_cast<double>(b[i]) - total_b;
    sum += std::exp(log_b) * (log_b - static_cast<double>(a[i]) + total_a);
  }
  return sum;
}

std::vector<int32_t> prose(int64_t count) {
  std::string text;
  Random random(3);
  const std::vector<std::string> words = {"the river",   "a lamp",    "the miller",  "burned",   "left",
                                          "before dawn", "and",       "the gate",    "of stone", "he said",
                                          "nobody",      "came down", "to the water"};
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < count) {
    text.clear();
    for (int i = 0; i < 2000; ++i) text += words[static_cast<size_t>(random.below(13))] + (i % 9 == 8 ? ".\n" : " ");
    const auto more = on("cpu").tokenizer().tokenize(text, {.add_bos_eos = false, .parse_special = false}).value();
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

// Pages are not bounded there (Backend::bounds_pages).
bool refused(std::string_view method) { return method == "quest"; }

TEST(CudaSparse, RefusesInOneLineWhatItCannotDoAndNothingElse) {
  EI_NEEDS_GPU();
  for (const policy::Method& method : policy::methods()) {
    SCOPED_TRACE(std::string(method.name));
    SessionOptions options;
    options.method = method.name;
    const auto session = on("cuda").new_session(options);
    EXPECT_EQ(session.ok(), !refused(method.name)) << (session.ok() ? "" : session.error().message);
    if (session.ok()) continue;
    EXPECT_EQ(session.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(session.error().message.find('\n'), std::string::npos);
  }
}

// Plans are made of other roundings: counts are nearly the CPU's, and so is what comes out.
TEST(CudaSparse, EveryMethodReadsAboutWhatTheCpuReads) {
  EI_NEEDS_GPU();
  const std::vector<int32_t> tokens = prose(9000);
  const Read full = read("cuda", {}, tokens);
  for (const policy::Method& method : policy::methods()) {
    if (method.prefill.rule == policy::PrefillRule::kDense) continue;
    SCOPED_TRACE(std::string(method.name));
    SessionOptions options;
    options.method = method.name;
    if (refused(method.name)) continue;
    const Read ours = read("cuda", options, tokens);
    const Read cpu = read("cpu", options, tokens);
    ASSERT_EQ(ours.counts.size(), cpu.counts.size());
    double off = 0;
    double all = 0;
    for (size_t i = 0; i < cpu.counts.size(); ++i) {
      off += std::abs(ours.counts[i] - cpu.counts[i]);
      all += cpu.counts[i];
    }
    const double gap = divergence(ours.logits, cpu.logits);
    std::printf("%s: density %.4f (cpu %.4f), counts %.2f %% apart, KL to the cpu %.2g, to full %.2g\n",
                std::string(method.name).c_str(), ours.density, cpu.density, 100 * off / all, gap,
                divergence(ours.logits, full.logits));
    EXPECT_NEAR(ours.density, cpu.density, 0.02 * cpu.density);
    EXPECT_LE(off, 0.03 * all);
    EXPECT_LE(gap, 2e-3);
    options.batch = 1024;
    EXPECT_NEAR(read("cuda", options, tokens).density, ours.density, 0.01 * ours.density) << "in chunks of 1024";
  }
}

TEST(CudaSparse, WhatItCannotRateIsRefusedInOneLine) {
  EI_NEEDS_GPU();
  SessionOptions options;
  options.method = "entropyinfer";
  options.prefill = policy::find_method("entropyinfer")->prefill;
  options.prefill->select = policy::BlockRank::kOracleMax;
  const auto refused = on("cuda").new_session(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace ei::testing
