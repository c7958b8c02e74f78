// /metrics: figures for Prometheus, by the names that dashboards of llama.cpp and vLLM read, and our own.
#include <string>

#include "server/api/api.h"
#include "server/api/exposition.h"

namespace ei::server {

namespace {
double ratio(double part, double whole) { return whole > 0 ? part / whole : 0.0; }
double real(int64_t value) { return static_cast<double>(value); }

void put_llama(const Totals& totals, Exposition& out) {
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
}

void put_vllm(const Totals& totals, const Api& api, Exposition& out) {
  const double room = real(api.scheduler.options().cache_bytes);
  out.set_label("model_name", api.model_name());
  out.gauge("vllm:num_requests_running", "Requests that run.", real(totals.running));
  out.gauge("vllm:num_requests_waiting", "Requests that wait.", real(totals.waiting));
  // What is held for others makes room for who comes: with it a warm server would look full.
  out.gauge("vllm:kv_cache_usage_perc", "Tokens that running requests hold, of the slots' contexts together.",
            ratio(real(totals.running_tokens), real(api.scheduler.options().slots * api.context())));
  // Under the name that routers ask for, and under that of vLLM's own exposition.
  for (const char* name : {"vllm:prefix_cache_queries", "vllm:prefix_cache_queries_total"})
    out.counter(name, "Prompt tokens looked up.", real(totals.asked_tokens));
  for (const char* name : {"vllm:prefix_cache_hits", "vllm:prefix_cache_hits_total"})
    out.counter(name, "Prompt tokens found.", real(totals.cached_tokens));
  out.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", totals.first_token_seconds);
  out.histogram("vllm:inter_token_latency_seconds", "Between the tokens of an answer.", totals.token_seconds);
  out.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", totals.whole_seconds);
  out.histogram("vllm:request_queue_time_seconds", "From arrival to a slot.", totals.queue_seconds);
  out.set_label("block_size", "1");  // prefixes are found token by token
  out.set_label("cache_bytes", str_format("%lld", static_cast<long long>(room)));
  out.set_label("enable_prefix_caching", room > 0 ? "True" : "False");
  out.gauge("vllm:cache_config_info", "How the prefix cache is set up.", 1);
  out.clear_labels();
}

void put_own(const Totals& totals, Exposition& out) {
  out.counter("entropyinfer:requests_total", "Requests that ended.", real(totals.requests));
  out.counter("entropyinfer:requests_failed_total", "Requests that failed.", real(totals.failed));
  out.counter("entropyinfer:requests_cancelled_total", "Requests whose client went away.", real(totals.cancelled));
  out.counter("entropyinfer:compressions_total", "KV caches compressed.", real(totals.compressions));
  out.histogram("entropyinfer:density", "Share of the attention computed while a prompt was read.", totals.density);
  out.histogram("entropyinfer:kv_kept", "Share of a request's tokens that its KV cache kept.", totals.kv_kept);
  out.histogram("entropyinfer:head_entropy", "Entropy of heads that chose what to read, at the end of a text, in nats.",
                totals.entropy);
  out.gauge("entropyinfer:prefix_cache_bytes", "Bytes of texts held for reuse.", real(totals.cache_bytes));
  out.gauge("entropyinfer:prefix_cache_texts", "Texts held for reuse.", real(totals.cache_texts));
  out.gauge("entropyinfer:prefix_cache_tokens", "Tokens of them, shared beginnings once.", real(totals.cache_tokens));
  out.gauge("entropyinfer:disk_cache_bytes", "Bytes of texts on disk.", real(totals.disk.bytes));
  out.gauge("entropyinfer:disk_cache_texts", "Texts on disk.", real(totals.disk.texts));
  out.counter("entropyinfer:disk_cache_written_total", "Texts written to disk.", real(totals.disk.written));
  out.counter("entropyinfer:disk_cache_loaded_total", "Texts loaded from disk.", real(totals.disk.loaded));
  out.counter("entropyinfer:disk_cache_failed_total", "Files that could not be written or read.",
              real(totals.disk.failed));
}
}  // namespace

void route_metrics(const Call& call) {
  const Api& api = call.api;
  if (!api.options.metrics) return call.refuse(not_supported("start the server with --metrics to have figures"));
  const Totals totals = api.scheduler.totals();
  Exposition out;
  put_llama(totals, out);
  put_vllm(totals, api, out);
  put_own(totals, out);
  HttpResponse response{.content_type = "text/plain; version=0.0.4", .body = out.text()};
  response.headers.emplace_back("Process-Start-Time-Unix", std::to_string(api.started));
  call.reply->send(std::move(response));
}

}  // namespace ei::server
