#include "cli/bench_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

namespace ei::cli {
namespace {

TEST(BenchCases, LeaveOutTestsOfNoTokens) {
  Settings settings;
  settings.bench_prompt = {0, 64};
  settings.bench_gen = {0};
  settings.bench_depth = {0, 128};
  const std::vector<BenchCase> cases = bench_cases(settings);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].name(), "pp64");
  EXPECT_EQ(cases[1].name(), "pp64 @ d128");
}

TEST(BenchRow, RatesAreTokensPerSecond) {
  BenchRow row;
  row.test.n_gen = 10;
  row.samples_ns = {1'000'000'000, 2'000'000'000};
  EXPECT_EQ(row.samples_ts(), (std::vector<double>{10, 5}));
  const MeanDeviation rate = mean_deviation(row.samples_ts());
  EXPECT_DOUBLE_EQ(rate.mean, 7.5);
  EXPECT_NEAR(rate.deviation, 3.5355339, 1e-6);
  EXPECT_EQ(mean_deviation({4}).deviation, 0);
}

TEST(BenchRow, ShareIsOfMatrixArithmeticForPromptsAndOfMemoryForGeneration) {
  BenchRow row;
  row.gflops = 50;
  row.read_gbs = 5;
  row.test.n_prompt = 1;
  EXPECT_EQ(row.share(), 0);
  row.roofline = MachineRoofline{.fma_gflops = 100, .matrix_gflops = 200, .read_gbs = 20};
  EXPECT_EQ(row.share(), 0.25);
  row.roofline->matrix_gflops = 0;
  EXPECT_EQ(row.share(), 0.5);
  row.test.n_prompt = 0;
  row.test.n_gen = 1;
  EXPECT_EQ(row.share(), 0.25);
}

// In characters, of which a byte that goes on with one is none.
size_t width(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

TEST(BenchOutput, TableIsAligned) {
  BenchRow row;
  row.model_type = "llama 14M Q8_0";
  row.backend = "cpu";
  row.test.n_prompt = 16384;
  row.samples_ns = {1'000'000'000, 2'000'000'000};
  BenchOutput output("md");
  row.test.method = "full";
  std::istringstream table(output.row(row));
  std::vector<size_t> widths;
  for (std::string line; std::getline(table, line);) widths.push_back(width(line));
  row.test.method = "entropyinfer";
  widths.push_back(width(output.row(row)) - 1);
  EXPECT_EQ(widths, std::vector<size_t>(4, widths.front()));
}

TEST(BenchOutput, CsvQuotesAndNamesItsColumnsOnce) {
  BenchRow row;
  row.model_path = "a \"b\".gguf";
  row.test.n_prompt = 1;
  BenchOutput output("csv");
  const std::string first = output.row(row);
  EXPECT_TRUE(first.starts_with("build_commit,cpu_info,"));
  EXPECT_NE(first.find("\"a \"\"b\"\".gguf\""), std::string::npos);
  EXPECT_FALSE(output.row(row).starts_with("build_commit"));
}

}  // namespace
}  // namespace ei::cli
