#include "cli/run_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/units.h"
#include "engine/memory.h"
#include "report/options_json.h"

namespace ei::cli {

namespace {
SessionStats difference(const SessionStats& after, const SessionStats& before) {
  SessionStats stats = after;
  stats.prompt_tokens -= before.prompt_tokens;
  stats.generated_tokens -= before.generated_tokens;
  stats.prompt_s -= before.prompt_s;
  stats.decode_s -= before.decode_s;
  stats.pairs -= before.pairs;
  stats.pairs_dense -= before.pairs_dense;
  stats.profile_s -= before.profile_s;
  stats.plan_s -= before.plan_s;
  stats.attention_s -= before.attention_s;
  stats.matmul_s -= before.matmul_s;
  stats.compressions -= before.compressions;
  stats.evicted -= before.evicted;
  stats.compress_s -= before.compress_s;
  stats.compressed_tokens -= before.compressed_tokens;
  stats.compressed_s -= before.compressed_s;
  stats.full_s -= before.full_s;
  return stats;
}

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
double ms(double seconds) { return seconds * 1000; }

nlohmann::ordered_json heads_json(const std::vector<report::HeadSummary>& heads) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const report::HeadSummary& head : heads)
    list.push_back({{"layer", head.layer},
                    {"kv_head", head.kv_head},
                    {"class", head.rigid ? "rigid" : "dynamic"},
                    {"type", policy::head_type_name(head.type)},
                    {"entropy", report::rounded(head.entropy)},
                    {"row_entropy", report::rounded(head.row_entropy)},
                    {"far", report::rounded(head.far)},
                    {"share_read", report::rounded(head.share_read)}});
  return list;
}
}  // namespace

double RunReport::prompt_per_second() const { return rate(stats.prompt_tokens, stats.prompt_s); }
double RunReport::predicted_per_second() const { return rate(stats.generated_tokens, stats.decode_s); }
double RunReport::full_per_second() const {
  return rate(stats.generated_tokens - stats.compressed_tokens, stats.full_s);
}
double RunReport::compressed_per_second() const { return rate(stats.compressed_tokens, stats.compressed_s); }

RunReport make_report(const ReportInput& input) {
  const Engine& engine = input.session.engine();
  const kv::Store& store = input.session.store();
  const kv::Store& reading = input.session.reading();
  RunReport report;
  report.text = input.result.text;
  report.finish_reason = input.result.finish_reason;
  report.failure = input.result.failure;
  report.model = engine.file().path();
  report.backend = engine.backend().name();
  report.backend_detail =
      backend_detail(engine.file(), engine.backend(), store.config().key_type, store.config().value_type);
  report.method = input.method;
  report.method_options = input.method_options;
  report.seed = input.result.seed;
  report.prompt_tokens = input.prompt_tokens;
  report.generated_tokens = static_cast<int64_t>(input.result.tokens.size());
  report.cached_tokens = input.cached_tokens;
  report.load_s = engine.load_s();
  report.ttft_s = input.result.ttft_s;
  report.stats = difference(input.session.stats(), input.before);
  report.acted = input.session.acted();
  report.kv_whole = input.session.has_view();
  report.kv_bytes_whole = report.kv_whole ? store.bytes() : 0;
  report.kv_bytes = reading.bytes() + report.kv_bytes_whole;
  report.kv_bytes_full = reading.bytes_full();
  report.kv_tokens_kept = std::llround(reading.average_slots());
  report.kv_tokens_total = input.session.position();
  report.compressions = input.session.stats().compressions;
  report.evicted = reading.evicted();
  report.heads = report::head_summaries(input.session);
  report.context = input.session.context();
  report.peak_rss = peak_rss_bytes();
  return report;
}

std::string report_json(const RunReport& report) {
  const SessionStats& stats = report.stats;
  nlohmann::ordered_json object;
  object["text"] = report.text;
  object["finish_reason"] = report.finish_reason;
  object["model"] = report.model;
  object["backend"] = report.backend;
  object["backend_detail"] = report.backend_detail;
  object["method"] = report.method;
  object["method_options"] = report.method_options;
  object["acted"] = report.acted.any();
  object["idle"] = report.acted.idle();
  object["seed"] = report.seed;
  object["tokens"] = {
      {"prompt", report.prompt_tokens}, {"generated", report.generated_tokens}, {"cached", report.cached_tokens}};
  object["timings"] = {{"load_ms", ms(report.load_s)},
                       {"prompt_ms", ms(stats.prompt_s)},
                       {"ttft_ms", ms(report.ttft_s)},
                       {"predicted_ms", ms(stats.decode_s)},
                       {"prompt_per_second", report.prompt_per_second()},
                       {"predicted_per_second", report.predicted_per_second()}};
  object["prefill"] = {{"acted", report.acted.prefill},
                       {"density", stats.density()},
                       {"text_density", report.acted.text_density},
                       {"pairs", stats.pairs},
                       {"pairs_dense", stats.pairs_dense},
                       {"profile_ms", ms(stats.profile_s)},
                       {"plan_ms", ms(stats.plan_s)},
                       {"attention_ms", ms(stats.attention_s)},
                       {"matmul_ms", ms(stats.matmul_s)}};
  object["prefill"]["heads"] = heads_json(report.heads);
  object["kv"] = {{"acted", report.acted.kv},
                  {"whole_kept", report.kv_whole},
                  {"bytes", report.kv_bytes},
                  {"bytes_full", report.kv_bytes_full},
                  {"tokens_kept", report.kv_tokens_kept},
                  {"tokens_total", report.kv_tokens_total},
                  {"compressions", report.compressions},
                  {"evicted", report.evicted},
                  {"compress_ms", ms(stats.compress_s)},
                  {"full_per_second", report.full_per_second()},
                  {"compressed_per_second", report.compressed_per_second()}};
  object["memory"] = {{"peak_rss_bytes", report.peak_rss}, {"device_bytes", report.device_bytes}};
  // Generated text is valid UTF-8; a model path may be anything.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_timings(const Console& console, const RunReport& report) {
  const SessionStats& stats = report.stats;
  const auto line = [&](const std::string& text) { console.note(console.dim(text)); };
  const std::string changed = report.method_options.empty() ? "" : " with " + report.method_options;
  line(str_format("load       %s, method %s%s", format_seconds(report.load_s).c_str(), report.method.c_str(),
                  changed.c_str()));
  line(str_format("backend    %s", report.backend_detail.c_str()));
  line(str_format("prompt     %s (%lld cached) in %s, %.1f tokens/s", counted(report.prompt_tokens, "token").c_str(),
                  static_cast<long long>(report.cached_tokens), format_seconds(stats.prompt_s).c_str(),
                  report.prompt_per_second()));
  line(str_format("generated  %s in %s, %.1f tokens/s", counted(report.generated_tokens, "token").c_str(),
                  format_seconds(stats.decode_s).c_str(), report.predicted_per_second()));
  line(str_format("           first token after %s", format_seconds(report.ttft_s).c_str()));
  line(str_format("attention  density %.3f, %s of the prompt time", stats.density(),
                  format_seconds(stats.attention_s).c_str()));
  if (report.cached_tokens > 0 && report.acted.text_density < 1)
    line(str_format("           density %.3f of the whole text, as its cached part was read",
                    report.acted.text_density));
  if (const double choosing_s = stats.profile_s + stats.plan_s; choosing_s > 0) {
    line(str_format("           choosing blocks: profile %s, plan %s, %.1f %% of the prompt time",
                    format_seconds(stats.profile_s).c_str(), format_seconds(stats.plan_s).c_str(),
                    100 * choosing_s / stats.prompt_s));
  }
  const auto bytes = [](int64_t count) { return format_bytes(static_cast<double>(count)); };
  line(str_format("KV cache   %lld of %s %s, %s %s %s", static_cast<long long>(report.kv_tokens_kept),
                  counted(report.kv_tokens_total, "token").c_str(), report.kv_whole ? "read" : "kept",
                  bytes(report.kv_bytes - report.kv_bytes_whole).c_str(), report.kv_whole ? "beside" : "of",
                  bytes(report.kv_whole ? report.kv_bytes_whole : report.kv_bytes_full).c_str()));
  if (report.kv_whole)
    line("           of the whole text, which stays for later turns (--kv-free gives its memory back)");
  if (report.compressions > 0) {
    line(str_format("           compressed %s in %s, %s dropped; %.1f tokens/s before, %.1f behind",
                    counted(report.compressions, "time").c_str(), format_seconds(stats.compress_s).c_str(),
                    counted(report.evicted, "slot").c_str(), report.full_per_second(), report.compressed_per_second()));
  }
  line(str_format("memory     peak %s", format_bytes(static_cast<double>(report.peak_rss)).c_str()));
  note_full_context(console, report);
  for (const std::string& why : report.acted.idle()) console.note("note: " + why);
}

void note_full_context(const Console& console, const RunReport& report) {
  if (report.finish_reason != "length" || report.kv_tokens_total < report.context) return;
  console.note(str_format("note: the answer ends here because the context of %s is full (--ctx-size)",
                          counted(report.context, "token").c_str()));
}

}  // namespace ei::cli
