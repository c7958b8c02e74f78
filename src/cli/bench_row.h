// One row of a benchmark, in the names llama-bench uses, and its four output forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"

namespace ei::cli {

struct BenchCase {
  std::string method;
  int64_t threads = 0;
  int64_t batch = 0;
  int64_t depth = 0;     // tokens in the context beforehand
  int64_t n_prompt = 0;  // exactly one of these two is not 0
  int64_t n_gen = 0;

  int64_t tokens() const { return n_prompt + n_gen; }
  std::string name() const;  // "pp512", "tg128 @ d4096"
};

// Outermost: threads, then methods, batches, depths; prompts come before generation.
std::vector<BenchCase> bench_cases(const Settings& settings);

struct MachineRoofline {
  double fma_gflops = 0;     // fp32 multiply-add
  double matrix_gflops = 0;  // bf16 matrix instructions; 0 where there are none
  double read_gbs = 0;       // memory
};
std::string roofline_json(const MachineRoofline& roofline);

struct BenchRow {
  BenchCase test;
  std::string model_path;
  std::string model_type;
  int64_t model_bytes = 0;
  int64_t parameters = 0;
  std::string backend;
  std::string type_k;
  std::string type_v;
  std::string test_time;
  std::vector<int64_t> samples_ns;
  std::string method_options;  // what was changed in the method's preset
  double density = 1;
  // Of one run, on average; prompts only.
  double profile_ms = 0;
  double plan_ms = 0;
  double attention_ms = 0;
  double matmul_ms = 0;
  int64_t kv_bytes = 0;
  int64_t compressions = 0;   // before and while it was timed
  int64_t evicted = 0;        // slots, over all layers and kv_heads
  double compress_ms = 0;     // per repetition
  double compression_ms = 0;  // of one compression, on the average over all
  int64_t peak_rss = 0;       // the most memory that was resident, bytes
  double gflops = 0;          // prompts: arithmetic per second
  double read_gbs = 0;        // generation: bytes of weights and cache per second
  std::optional<MachineRoofline> roofline;

  std::vector<double> samples_ts() const;  // tokens per second
  double share() const;                    // of the roofline; 0 when it was not measured
};

struct MeanDeviation {
  double mean = 0;
  double deviation = 0;  // of a sample; 0 for fewer than two
};
MeanDeviation mean_deviation(const std::vector<double>& values);

// What goes in front of the rows, between them and behind them is part of the form.
class BenchOutput {
 public:
  explicit BenchOutput(std::string form) : form_(std::move(form)) {}
  // The first row brings what stands in front of all.
  std::string row(const BenchRow& row);
  // Empty when there was no row.
  std::string end() const;

 private:
  const std::string form_;  // md, csv, json, jsonl
  std::string begin() const;
  bool first_ = true;
};

}  // namespace ei::cli
