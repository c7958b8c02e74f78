// Whole requests on a device, method against method, in one process: a prompt of random tokens is read, then tokens are
// generated. Prints time by stage, and how many times faster each method is than the first. A model with random
// weights (make_gguf --preset llama-3.1-8b) will do: how much is read follows from the density, not from the weights.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace {

struct Settings {
  std::string model;
  std::string device = "cuda";
  std::vector<int64_t> lengths = {32668, 65436, 130972};
  std::vector<std::string> methods = {"full", "entropyinfer"};
  std::string products;  // EI_DENSE
  int64_t generate = 100;
  int rounds = 5;
};

struct Request {
  double prompt_s = 0;
  double answer_s = 0;
  double memory = 0;  // bytes taken on the device
  ei::SessionStats stats;
  double total_s() const { return prompt_s + answer_s; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

ei::Result<Request> ask(const ei::Engine& engine, const Settings& settings, int64_t length, const std::string& method) {
  ei::Random random(7);
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < length)
    tokens.push_back(static_cast<int32_t>(random.below(engine.config().vocab)));
  ei::SessionOptions options;
  options.method = method;
  options.context = length + settings.generate;
  const auto before = static_cast<double>(engine.backend().free_memory());
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<ei::Session> session, engine.new_session(options));
  Request request;
  double begun = ei::now_s();
  EI_RETURN_IF_ERROR(session->prefill(tokens));
  request.prompt_s = ei::now_s() - begun;
  request.memory = before - static_cast<double>(engine.backend().free_memory());
  begun = ei::now_s();
  for (int64_t i = 0; i < settings.generate; ++i) EI_RETURN_IF_ERROR(session->decode(tokens[static_cast<size_t>(i)]));
  request.answer_s = ei::now_s() - begun;
  request.stats = session->stats();
  return request;
}

void print(int64_t length, const std::string& method, const std::vector<Request>& requests, double full_s,
           double full_prompt_s) {
  const auto pick = [&](auto of) {
    std::vector<double> values;
    for (const Request& request : requests) values.push_back(of(request));
    return median(values);
  };
  const double total = pick([](const Request& r) { return r.total_s(); });
  const double prompt = pick([](const Request& r) { return r.prompt_s; });
  const double products = pick([](const Request& r) { return r.stats.matmul_s; });
  const double attention = pick([](const Request& r) { return r.stats.attention_s; });
  const double measuring = pick([](const Request& r) { return r.stats.profile_s; });
  const double choosing = pick([](const Request& r) { return r.stats.plan_s; });
  const double compressing = pick([](const Request& r) { return r.stats.compress_s; });
  const auto per_second = [](double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; };
  const ei::SessionStats& stats = requests.back().stats;
  const auto compressed = static_cast<double>(stats.compressed_tokens);
  std::printf(
      "| %lld | %s | %.3f | %.2f | %.3f | %.2f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.0f | %.0f | %.1f "
      "|\n",
      static_cast<long long>(length), method.c_str(), total, full_s / total, prompt, full_prompt_s / prompt, products,
      attention, measuring, choosing, prompt - products - attention - measuring - choosing, compressing,
      stats.density(), per_second(static_cast<double>(stats.generated_tokens) - compressed, stats.full_s),
      per_second(compressed, stats.compressed_s), requests.back().memory / (1 << 30));
  std::fflush(stdout);
}

ei::Status run(const Settings& settings) {
  ei::EngineOptions options;
  options.model_path = settings.model;
  options.backend = settings.device;
  options.backend_options.dense = settings.products;
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<ei::Engine> engine, ei::Engine::load(options));
  std::printf(
      "| tokens | method | all s | ratio | prompt s | ratio | products | attention | measuring | choosing | rest | "
      "compressing | density | tok/s whole cache | tok/s compressed | GiB |\n|---|---|---|---|---|---|---|---|---|---|"
      "---|---|---|---|---|---|\n");
  for (const int64_t length : settings.lengths) {
    std::map<std::string, std::vector<Request>> requests;
    for (int round = -1; round < settings.rounds; ++round) {
      for (const std::string& method : settings.methods) {
        EI_ASSIGN_OR_RETURN(Request request, ask(*engine, settings, round < 0 ? 8192 : length, method));
        if (round >= 0) requests[method].push_back(std::move(request));
      }
    }
    double full_s = 0;
    double full_prompt_s = 0;
    for (const std::string& method : settings.methods) {
      std::vector<double> totals;
      std::vector<double> prompts;
      for (const Request& request : requests[method]) {
        totals.push_back(request.total_s());
        prompts.push_back(request.prompt_s);
      }
      if (full_s == 0) {
        full_s = median(totals);
        full_prompt_s = median(prompts);
      }
      print(length, method, requests[method], full_s, full_prompt_s);
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Whole requests on a device, method against method.");
  Settings settings;
  app.add_option("-m,--model", settings.model, "GGUF model")->required();
  app.add_option("--device", settings.device)->capture_default_str();
  app.add_option("--lengths", settings.lengths, "tokens of the prompts")->delimiter(',');
  app.add_option("--methods", settings.methods, "presets; the first is what others are compared with")->delimiter(',');
  app.add_option("--products", settings.products, "as EI_DENSE: fp8");
  app.add_option("-n,--generate", settings.generate, "tokens")->capture_default_str();
  app.add_option("-r,--rounds", settings.rounds, "the median counts")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const ei::Status status = run(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_bench: %s\n", status.error().message.c_str());
  return ei::exit_code(status.error().kind);
}
