#include "cli/serve_flags.h"

#include "cli/option_values.h"

namespace ei::cli {

namespace {
constexpr int64_t kMostCache = int64_t{1} << 30;  // MiB
constexpr int64_t kMostBody = 1024;
constexpr int64_t kMostSeconds = 1000000;

Binding list(std::string Settings::*field) {
  Binding binding = filled(field);
  binding.repeats = true;
  return binding;
}
}  // namespace

std::vector<Option> serve_flags() {
  return {
      {"--host", "LIST", "addresses to listen on", kServe, filled(&Settings::host)},
      {"--port", "N", "port to listen on; 0: any that is free", kServe, whole(&Settings::port, 0, 65535)},
      {"-np --parallel", "N", "requests that are answered at the same time", kServe,
       whole(&Settings::parallel, 1, 1024)},
      {"--queue", "N", "requests that may wait; more are answered with 429", kServe,
       whole(&Settings::queue, 1, 1 << 20)},
      {"--cache-ram", "N", "MiB for texts that were read, so that prompts which begin alike are not read again", kServe,
       whole(&Settings::cache_ram, 0, kMostCache)},
      {"--cache-path", "DIR", "keep such texts as files, too: they are found again after a restart", kServe,
       filled(&Settings::cache_path)},
      {"--cache-disk", "N", "MiB for these files", kServe, whole(&Settings::cache_disk, 1, kMostCache)},
      {"-a --alias", "LIST", "names of the model in answers; the first in the alphabet is its id", kServe,
       filled(&Settings::alias)},
      {"--tags", "LIST", "words about the model, for /v1/models", kServe, filled(&Settings::tags)},
      {"--api-key", "LIST", "keys; a request must carry one (all but /health and the page)", kServe,
       filled(&Settings::api_key)},
      {"--api-key-file", "FILE", "file with keys, one a line", kServe, filled(&Settings::api_key_file)},
      {"--ssl-cert-file", "FILE", "answer by TLS: the certificate, in PEM", kServe, filled(&Settings::ssl_cert_file)},
      {"--ssl-key-file", "FILE", "and its key", kServe, filled(&Settings::ssl_key_file)},
      {"--slot-save-path", "DIR", "folder for saved slots", kServe, filled(&Settings::slot_save_path)},
      {"--slots", "", "show slots at /slots (as it is without)", kServe, toggle(&Settings::slots)},
      {"--no-slots", "", "show no slots", kServe, toggle(&Settings::no_slots)},
      {"--metrics", "", "figures for Prometheus at /metrics", kServe, toggle(&Settings::metrics)},
      {"--kv-events", "ADDRESS", "tell routers which prefixes are held, by ZeroMQ: tcp://127.0.0.1:5557", kServe,
       filled(&Settings::kv_events)},
      {"--cors-origin --cors-origins", "LIST",
       "origins whose web pages may use this server (https://example.org), or * for all; none without it", kServe,
       list(&Settings::cors_origin)},
      {"--max-body", "N", "MiB of a request's body; four times as much, 256 at least, for all that are here", kServe,
       whole(&Settings::max_body, 1, kMostBody)},
      {"--max-seconds", "N", "time for a request, waiting included; 0: as long as it takes", kServe,
       whole(&Settings::max_seconds, 0, kMostSeconds)},
      {"-to --timeout", "N",
       "seconds a client may take to send headers, as many for the body, twice as many to take what it is sent", kServe,
       whole(&Settings::timeout, 1, kMostSeconds)},
      {"--access-log", "FILE", "append a JSON line for every request (no word of prompts)", kServe,
       filled(&Settings::access_log)},
      {"--reasoning", "WORD", "should templates have the model think: on, off, or auto (as they are)", kServe,
       choice(&Settings::reasoning, {"auto", "on", "off"})},
      {"--reasoning-format", "WORD", "thoughts: auto (as reasoning_content) or none (in the text)", kServe,
       choice(&Settings::reasoning_format, {"auto", "deepseek", "none"})},
      {"--no-ui", "", "no page at /", kServe, toggle(&Settings::no_ui)},
      {"--fixed-method", "", "requests may not choose a method or its options", kServe,
       toggle(&Settings::fixed_method)},
      {"--drain-seconds", "N", "time for running answers after SIGTERM", kServe,
       whole(&Settings::drain_seconds, 0, 86400)},
  };
}

}  // namespace ei::cli
