// What one answer cost: the object of --json and the timings at the end of stderr, from the same numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/session.h"
#include "report/head_summary.h"

namespace ei::cli {

struct RunReport {
  std::string text;
  std::string finish_reason;
  std::optional<Error> failure;  // why an answer ends early; said after it was printed
  std::string model;
  std::string backend;
  std::string backend_detail;  // kernels and dense maths that ran
  std::string method;
  std::string method_options;  // what was changed in its preset
  uint32_t seed = 0;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, already in the session
  double load_s = 0;
  double ttft_s = 0;
  SessionStats stats;          // of this answer alone
  Acted acted;                 // of the session so far
  bool kv_whole = false;       // generation reads a compressed view, and the whole cache stays beside it
  int64_t kv_bytes = 0;        // held: the cache and, beside it, a view
  int64_t kv_bytes_whole = 0;  // of these the whole cache, where generation reads a view
  int64_t kv_bytes_full = 0;
  int64_t kv_tokens_kept = 0;  // that generation reads, per layer and kv_head, on average
  int64_t kv_tokens_total = 0;
  int64_t context = 0;       // most tokens of the session
  int64_t compressions = 0;  // of the session so far, like `evicted`
  int64_t evicted = 0;       // slots, over all layers and kv_heads
  int64_t peak_rss = 0;
  std::vector<report::HeadSummary> heads;
  int64_t device_bytes = 0;  // memory on a device other than the host

  double prompt_per_second() const;
  double predicted_per_second() const;
  double full_per_second() const;        // generated before the first compression of the session; 0: nothing was
  double compressed_per_second() const;  // and behind it, the time of compressions left out
};

struct ReportInput {
  const Session& session;
  const GenerateResult& result;
  const std::string& method;
  std::string method_options;
  SessionStats before;  // the session's statistics before this answer
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
};
RunReport make_report(const ReportInput& input);

std::string report_json(const RunReport& report);
void print_timings(const Console& console, const RunReport& report);
// Nothing where the answer had room.
void note_full_context(const Console& console, const RunReport& report);

}  // namespace ei::cli
