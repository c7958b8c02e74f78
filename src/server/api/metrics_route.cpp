// /metrics: figures for Prometheus, by the names that dashboards of llama.cpp and vLLM read, and our own.
#include <ctime>

#include "server/api/api.h"

namespace ei::server {

namespace {
class Exposition {
 public:
  void counter(const char* name, const char* help, double value) { add(name, help, "counter", value); }
  void gauge(const char* name, const char* help, double value) { add(name, help, "gauge", value); }
  std::string text{};

 private:
  void add(const char* name, const char* help, const char* type, double value) {
    text += str_format("# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
  }
};

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0.0; }
}  // namespace

void route_metrics(const Call& call) {
  const Api& api = call.api;
  if (!api.options.metrics) return call.refuse(not_supported("start the server with --metrics to have figures"));
  static const auto started = static_cast<long long>(std::time(nullptr));
  const Totals totals = api.scheduler.totals();
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  Exposition out;
  out.counter("llamacpp:prompt_tokens_total", "Prompt tokens read.", real(totals.prompt_tokens));
  out.counter("llamacpp:prompt_tokens_cached_total", "Prompt tokens taken from the cache.", real(totals.cached_tokens));
  out.counter("llamacpp:prompt_seconds_total", "Time of reading prompts.", totals.prompt_s);
  out.counter("llamacpp:tokens_predicted_total", "Tokens generated.", real(totals.generated_tokens));
  out.counter("llamacpp:tokens_predicted_seconds_total", "Time of generating.", totals.generate_s);
  out.counter("llamacpp:n_decode_total", "Passes over the weights.", real(totals.rounds));
  out.counter("llamacpp:n_tokens_max", "Most tokens that a request held.", real(totals.longest));
  for (const char* name : {"llamacpp:spec_decode_num_draft_tokens_total",
                           "llamacpp:spec_decode_num_accepted_tokens_total", "llamacpp:spec_decode_num_drafts_total"})
    out.counter(name, "Speculative decoding, which there is none of.", 0);
  out.gauge("llamacpp:prompt_tokens_seconds", "Prompt tokens a second.",
            ratio(real(totals.prompt_tokens), totals.prompt_s));
  out.gauge("llamacpp:predicted_tokens_seconds", "Generated tokens a second.",
            ratio(real(totals.generated_tokens), totals.generate_s));
  out.gauge("llamacpp:requests_processing", "Requests that run.", real(totals.running));
  out.gauge("llamacpp:requests_deferred", "Requests that wait.", real(totals.waiting));
  out.gauge("llamacpp:n_busy_slots_per_decode", "Requests in a pass, on average.",
            ratio(real(totals.round_tasks), real(totals.rounds)));
  out.gauge("vllm:num_requests_running", "Requests that run.", real(totals.running));
  out.gauge("vllm:num_requests_waiting", "Requests that wait.", real(totals.waiting));
  out.gauge("vllm:kv_cache_usage_perc", "Share of the prefix cache in use.",
            ratio(real(totals.cache_bytes), real(api.scheduler.options().cache_bytes)));
  out.counter("vllm:prefix_cache_queries", "Prompt tokens looked up.", real(totals.asked_tokens));
  out.counter("vllm:prefix_cache_hits", "Prompt tokens found.", real(totals.cached_tokens));
  out.counter("entropyinfer:requests_total", "Requests that ended.", real(totals.requests));
  out.counter("entropyinfer:requests_failed_total", "Requests that failed.", real(totals.failed));
  out.counter("entropyinfer:requests_cancelled_total", "Requests whose client went away.", real(totals.cancelled));
  out.counter("entropyinfer:compressions_total", "KV caches compressed.", real(totals.compressions));
  out.counter("entropyinfer:first_token_seconds_sum", "From arrival to the first token, added up.",
              totals.first_token_sum_s);
  out.counter("entropyinfer:first_token_seconds_count", "Requests in that sum.", real(totals.first_tokens));
  out.counter("entropyinfer:queue_seconds_total", "Time that requests waited for a slot.", totals.queue_sum_s);
  out.gauge("entropyinfer:density_mean", "Share of the attention computed while prompts were read.",
            totals.requests > 0 ? totals.density_sum / real(totals.requests) : 1.0);
  out.gauge("entropyinfer:prefix_cache_bytes", "Bytes of texts held for reuse.", real(totals.cache_bytes));
  out.gauge("entropyinfer:prefix_cache_texts", "Texts held for reuse.", real(totals.cache_texts));
  HttpResponse response{.content_type = "text/plain; version=0.0.4", .body = std::move(out.text)};
  response.headers.emplace_back("Process-Start-Time-Unix", str_format("%lld", started));
  call.reply->send(std::move(response));
}

}  // namespace ei::server
