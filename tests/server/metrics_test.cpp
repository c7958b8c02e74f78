// What /metrics says agrees with what answers said.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

ServerOptions metered() {
  ServerOptions options = test_options();
  options.metrics = true;
  return options;
}

// The value behind a name with its labels; NaN where it is not there.
double figure(const std::string& text, const std::string& name) {
  const size_t at = ("\n" + text).find("\n" + name + " ");
  return at == std::string::npos ? std::nan("") : std::stod(text.substr(at + name.size() + 1));
}

TEST(ServerMetrics, AreThereWhenAskedFor) { EXPECT_EQ(TestServer(test_options()).get("/metrics").status, 501); }

// Those that others read, by the names that they know, and our own: docs/serving.md, "Metrics". None is missing, and
// none is there that this list has not.
TEST(ServerMetrics, AreAllThereByTheirNames) {
  const std::map<std::string, std::string> names = {{"llamacpp:prompt_tokens_total", "counter"},
                                                    {"llamacpp:prompt_tokens_cached_total", "counter"},
                                                    {"llamacpp:prompt_seconds_total", "counter"},
                                                    {"llamacpp:tokens_predicted_total", "counter"},
                                                    {"llamacpp:tokens_predicted_seconds_total", "counter"},
                                                    {"llamacpp:n_decode_total", "counter"},
                                                    {"llamacpp:n_tokens_max", "counter"},
                                                    {"llamacpp:spec_decode_num_draft_tokens_total", "counter"},
                                                    {"llamacpp:spec_decode_num_accepted_tokens_total", "counter"},
                                                    {"llamacpp:spec_decode_num_drafts_total", "counter"},
                                                    {"llamacpp:prompt_tokens_seconds", "gauge"},
                                                    {"llamacpp:predicted_tokens_seconds", "gauge"},
                                                    {"llamacpp:requests_processing", "gauge"},
                                                    {"llamacpp:requests_deferred", "gauge"},
                                                    {"llamacpp:n_busy_slots_per_decode", "gauge"},
                                                    {"vllm:num_requests_running", "gauge"},
                                                    {"vllm:num_requests_waiting", "gauge"},
                                                    {"vllm:kv_cache_usage_perc", "gauge"},
                                                    {"vllm:cache_config_info", "gauge"},
                                                    {"vllm:prefix_cache_queries", "counter"},
                                                    {"vllm:prefix_cache_queries_total", "counter"},
                                                    {"vllm:prefix_cache_hits", "counter"},
                                                    {"vllm:prefix_cache_hits_total", "counter"},
                                                    {"vllm:time_to_first_token_seconds", "histogram"},
                                                    {"vllm:inter_token_latency_seconds", "histogram"},
                                                    {"vllm:e2e_request_latency_seconds", "histogram"},
                                                    {"vllm:request_queue_time_seconds", "histogram"},
                                                    {"entropyinfer:requests_total", "counter"},
                                                    {"entropyinfer:requests_failed_total", "counter"},
                                                    {"entropyinfer:requests_cancelled_total", "counter"},
                                                    {"entropyinfer:compressions_total", "counter"},
                                                    {"entropyinfer:density", "histogram"},
                                                    {"entropyinfer:kv_kept", "histogram"},
                                                    {"entropyinfer:head_entropy", "histogram"},
                                                    {"entropyinfer:prefix_cache_bytes", "gauge"},
                                                    {"entropyinfer:prefix_cache_texts", "gauge"},
                                                    {"entropyinfer:prefix_cache_tokens", "gauge"},
                                                    {"entropyinfer:disk_cache_bytes", "gauge"},
                                                    {"entropyinfer:disk_cache_texts", "gauge"},
                                                    {"entropyinfer:disk_cache_written_total", "counter"},
                                                    {"entropyinfer:disk_cache_loaded_total", "counter"},
                                                    {"entropyinfer:disk_cache_failed_total", "counter"}};
  std::map<std::string, std::string> types;
  std::map<std::string, int> samples;  // of a name, whatever its labels
  std::istringstream text(TestServer(metered()).get("/metrics").body);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string mark, word, name, type;
    words >> mark >> word >> name >> type;
    if (mark != "#") ++samples[line.substr(0, line.find_first_of("{ "))];
    if (mark == "#" && word == "TYPE") types[name] = type;
  }
  EXPECT_EQ(types, names);
  for (const auto& [name, type] : names) {
    for (const char* ending : {"_bucket", "_sum", "_count"})
      EXPECT_EQ(samples[name + ending] > 0, type == "histogram") << name << ending;
    EXPECT_EQ(samples[name], type == "histogram" ? 0 : 1) << name;
  }
}

TEST(ServerMetrics, CountWhatWasDone) {
  const TestServer server(metered());
  const json timings = server.post("/completion", {{"prompt", "a b c"}, {"n_predict", 5}}).json()["timings"];
  const std::string text = server.get("/metrics").body;
  EXPECT_EQ(figure(text, "llamacpp:tokens_predicted_total"), timings["predicted_n"].get<double>());
  EXPECT_EQ(figure(text, "llamacpp:prompt_tokens_total"), timings["prompt_n"].get<double>());
  EXPECT_EQ(figure(text, R"(vllm:num_requests_running{model_name="needle"})"), 0);
}

TEST(ServerMetrics, HistogramsHoldEveryRequestAndItsTimes) {
  const TestServer server(metered());
  double generated = 0;
  for (int i = 0; i < 3; ++i) {
    const json body = {{"prompt", long_text(40, i)}, {"n_predict", 6}, {"ignore_eos", true}};
    generated += server.post("/completion", body).json()["timings"]["predicted_n"].get<double>();
  }
  const std::string text = server.get("/metrics").body;
  const auto of = [&](const std::string& name, const std::string& more = "") {
    return figure(text, "vllm:" + name + R"({model_name="needle")" + more + "}");
  };
  for (const std::string name :
       {"time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"}) {
    EXPECT_EQ(of(name + "_count"), 3) << name;
    EXPECT_EQ(of(name + "_bucket", R"(,le="+Inf")"), 3) << name;
    EXPECT_LE(of(name + "_bucket", R"(,le="0.001")"), of(name + "_bucket", R"(,le="1")")) << name;
  }
  EXPECT_EQ(of("inter_token_latency_seconds_count"), generated - 3);
  EXPECT_GT(of("time_to_first_token_seconds_sum"), of("request_queue_time_seconds_sum"));
  // What the tokens took is what the answers took less their first tokens.
  EXPECT_NEAR(of("e2e_request_latency_seconds_sum") - of("time_to_first_token_seconds_sum"),
              of("inter_token_latency_seconds_sum"), 0.02);
}

TEST(ServerMetrics, TellWhatAMethodLeftOut) {
  const TestServer server(metered());
  EXPECT_EQ(figure(server.get("/metrics").body, "entropyinfer:head_entropy_count"), 0);
  const json body = {{"prompt", long_text(3000)},
                     {"n_predict", 2},
                     {"method", "entropyinfer"},
                     {"threshold", 512},
                     {"base_budget", 256},
                     {"kv_budget", 256},
                     {"kv_gap", -1}};
  const json timings = server.post("/completion", body).json()["timings"];
  ASSERT_LT(timings["density"].get<double>(), 1);
  const std::string text = server.get("/metrics").body;
  EXPECT_NEAR(figure(text, "entropyinfer:density_sum"), timings["density"].get<double>(), 1e-6);
  EXPECT_NEAR(figure(text, "entropyinfer:kv_kept_sum"),
              timings["kv_tokens_kept"].get<double>() / timings["kv_tokens_total"].get<double>(), 1e-6);
  EXPECT_EQ(figure(text, "entropyinfer:compressions_total"), timings["compressions"].get<double>());
  EXPECT_GT(figure(text, "entropyinfer:head_entropy_count"), 0);
  EXPECT_GT(figure(text, "entropyinfer:head_entropy_sum"), 0);
}

TEST(ServerMetrics, TheCacheIsInUseByWhoRunsAndNotByWhatIsHeld) {
  ServerOptions options = metered();
  options.scheduler.slots = 2;
  options.scheduler.session.context = 2048;
  const TestServer server(options);
  const auto usage = [&] {
    return figure(server.get("/metrics").body, R"(vllm:kv_cache_usage_perc{model_name="needle"})");
  };
  json body = {{"prompt", long_text(200)}, {"n_predict", 4}, {"ignore_eos", true}};
  const double prompt = server.post("/completion", body).json()["tokens_evaluated"].get<double>();
  EXPECT_EQ(usage(), 0) << "nobody runs";
  body["n_predict"] = 1500;
  body["stream"] = true;
  Client client(server.port());
  client.send(request_text("POST", "/completion", body.dump()));
  client.read_until("data:");
  double used = usage();
  for (int i = 0; i < 100 && used < prompt / 4096; ++i) used = usage();
  EXPECT_GE(used, prompt / 4096);
  EXPECT_LE(used, 0.5) << "one of two";
}

// Not when somebody first asked.
TEST(ServerMetrics, TellWhenTheServerBegan) {
  const std::time_t before = std::time(nullptr);
  const TestServer server(metered());
  const std::time_t after = std::time(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  const int64_t created = server.get("/v1/models").json()["data"][0]["created"];
  EXPECT_GE(created, before);
  EXPECT_LE(created, after);
  EXPECT_EQ(server.get("/metrics").headers.at("process-start-time-unix"), std::to_string(created));
}

TEST(ServerMetrics, ANameCannotBreakTheText) {
  ServerOptions options = metered();
  options.names = {"a\"b\\c\nd"};
  const std::string text = TestServer(options).get("/metrics").body;
  EXPECT_EQ(figure(text, R"(vllm:num_requests_waiting{model_name="a\"b\\c\nd"})"), 0);
}

}  // namespace
}  // namespace ei::server
