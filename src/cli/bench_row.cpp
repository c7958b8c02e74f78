#include "cli/bench_row.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "cli/console.h"
#include "cli/version.h"

namespace ei::cli {

namespace {
using Json = nlohmann::ordered_json;

Json roofline_object(const MachineRoofline& roofline) {
  return {
      {"fma_gflops", roofline.fma_gflops}, {"matrix_gflops", roofline.matrix_gflops}, {"read_gbs", roofline.read_gbs}};
}

Json to_object(const BenchRow& row) {
  std::vector<double> nanoseconds(row.samples_ns.begin(), row.samples_ns.end());
  const MeanDeviation ns = mean_deviation(nanoseconds);
  const MeanDeviation ts = mean_deviation(row.samples_ts());
  Json object = {{"build_commit", build_commit()},
                 {"cpu_info", cpu_name()},
                 {"gpu_info", ""},
                 {"backend", row.backend},
                 {"model_filename", row.model_path},
                 {"model_type", row.model_type},
                 {"model_size", row.model_bytes},
                 {"model_n_params", row.parameters},
                 {"method", row.test.method},
                 {"method_options", row.method_options},
                 {"n_batch", row.test.batch},
                 {"n_threads", row.test.threads},
                 {"type_k", row.type_k},
                 {"type_v", row.type_v},
                 {"n_prompt", row.test.n_prompt},
                 {"n_gen", row.test.n_gen},
                 {"n_depth", row.test.depth},
                 {"test_time", row.test_time},
                 {"avg_ns", std::llround(ns.mean)},
                 {"stddev_ns", std::llround(ns.deviation)},
                 {"avg_ts", ts.mean},
                 {"stddev_ts", ts.deviation},
                 {"samples_ns", row.samples_ns},
                 {"samples_ts", row.samples_ts()},
                 {"density", row.density},
                 {"profile_ms", row.profile_ms},
                 {"plan_ms", row.plan_ms},
                 {"attention_ms", row.attention_ms},
                 {"matmul_ms", row.matmul_ms},
                 {"kv_bytes", row.kv_bytes},
                 {"compressions", row.compressions},
                 {"evicted", row.evicted},
                 {"compress_ms", row.compress_ms},
                 {"compression_ms", row.compression_ms},
                 {"peak_rss_bytes", row.peak_rss}};
  if (row.roofline) {
    object["gflops"] = row.gflops;
    object["read_gbs"] = row.read_gbs;
    object["roofline"] = roofline_object(*row.roofline);
    object["share"] = row.share();
  }
  return object;
}

std::string dump(const Json& object, int indent) {
  return object.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Every value quoted, as llama-bench writes them; lists and objects as JSON.
std::string csv_cell(const Json& value) {
  std::string quoted = "\"";
  for (const char c : value.is_string() ? value.get<std::string>() : dump(value, -1)) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + "\"";
}

std::string csv_lines(const Json& object, bool with_names) {
  std::string names;
  std::string cells;
  for (const auto& [name, value] : object.items()) {
    if (!names.empty()) {
      names.push_back(',');
      cells.push_back(',');
    }
    names += name;
    cells += csv_cell(value);
  }
  return (with_names ? names + "\n" : "") + cells + "\n";
}

// To the right of a column of 20 characters; the sign is one of them and has two bytes.
std::string padded(const std::string& text) { return std::string(text.size() < 21 ? 21 - text.size() : 0, ' ') + text; }

std::string table_line(const BenchRow& row) {
  const MeanDeviation ts = mean_deviation(row.samples_ts());
  const std::string share = row.roofline ? str_format(" (%.1f %% of roofline)", 100 * row.share()) : "";
  return str_format("| %-24s | %9s | %8.2f M | %-9s | %7lld | %-12s | %16s | %s |\n", row.model_type.c_str(),
                    format_bytes(static_cast<double>(row.model_bytes)).c_str(),
                    static_cast<double>(row.parameters) / 1e6, row.backend.c_str(),
                    static_cast<long long>(row.test.threads), row.test.method.c_str(), row.test.name().c_str(),
                    padded(str_format("%.2f ± %.2f%s", ts.mean, ts.deviation, share.c_str())).c_str());
}
}  // namespace

std::string BenchCase::name() const {
  const std::string base = n_prompt > 0 ? str_format("pp%lld", static_cast<long long>(n_prompt))
                                        : str_format("tg%lld", static_cast<long long>(n_gen));
  return depth > 0 ? base + str_format(" @ d%lld", static_cast<long long>(depth)) : base;
}

std::vector<BenchCase> bench_cases(const Settings& settings) {
  std::vector<BenchCase> cases;
  for (const int64_t threads : settings.bench_threads) {
    for (const std::string& method : settings.bench_methods) {
      for (const int64_t batch : settings.bench_batch) {
        for (const int64_t depth : settings.bench_depth) {
          const BenchCase base{.method = method, .threads = threads, .batch = batch, .depth = depth};
          const auto add = [&](int64_t n_prompt, int64_t n_gen) {
            BenchCase test = base;
            test.n_prompt = n_prompt;
            test.n_gen = n_gen;
            if (test.tokens() > 0) cases.push_back(test);
          };
          for (const int64_t n_prompt : settings.bench_prompt) add(n_prompt, 0);
          for (const int64_t n_gen : settings.bench_gen) add(0, n_gen);
        }
      }
    }
  }
  return cases;
}

std::string roofline_json(const MachineRoofline& roofline) { return dump(roofline_object(roofline), -1); }

std::vector<double> BenchRow::samples_ts() const {
  std::vector<double> rates;
  for (const int64_t ns : samples_ns) {
    rates.push_back(static_cast<double>(test.tokens()) * 1e9 / static_cast<double>(std::max<int64_t>(ns, 1)));
  }
  return rates;
}

double BenchRow::share() const {
  if (!roofline) return 0;
  if (test.n_gen > 0) return roofline->read_gbs > 0 ? read_gbs / roofline->read_gbs : 0;
  const double best = std::max(roofline->fma_gflops, roofline->matrix_gflops);
  return best > 0 ? gflops / best : 0;
}

MeanDeviation mean_deviation(const std::vector<double>& values) {
  MeanDeviation result;
  if (values.empty()) return result;
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

std::string BenchOutput::begin() const {
  if (form_ == "json") return "[\n";
  if (form_ != "md") return "";
  return "| model                    |      size |     params | backend   | threads | method       |             test |"
         "             tokens/s |\n"
         "| ------------------------ | --------: | ---------: | --------- | ------: | ------------ | ---------------: |"
         " -------------------: |\n";
}

std::string BenchOutput::row(const BenchRow& row) {
  const bool first = std::exchange(first_, false);
  if (form_ == "md") return (first ? begin() : "") + table_line(row);
  const Json object = to_object(row);
  if (form_ == "csv") return csv_lines(object, first);
  if (form_ == "json") return (first ? begin() : ",\n") + dump(object, 2);
  return dump(object, -1) + "\n";
}

std::string BenchOutput::end() const {
  if (form_ == "json") return first_ ? "[]\n" : "\n]\n";
  if (first_) return "";
  if (form_ == "md") return "\nbuild: " + build_commit() + ", machine: " + cpu_name() + "\n";
  return "";
}

}  // namespace ei::cli
