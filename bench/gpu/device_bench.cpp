// Whole requests on a device, method against method, in one process: a prompt of random tokens is read, then tokens are
// generated. Prints time by stage, and how many times faster each method is than the first.
//
// A model with random weights will do (make_gguf --preset llama-3.1-8b). Its heads attend to everything alike, so a
// sparse method may be given what the attention of a trained model was like (--trace, --text):
//   entropyinfer@samples   its samples in place of the measured ones, which are measured all the same; what follows
//   from
//                          them (types of heads, budgets, ratings, choices) is done as ever
//   entropyinfer@lists     its lists of blocks: nothing is measured and nothing chosen
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "gpu/recorded.h"
#include "gpu/text.h"
#include "policy/method_choice.h"

namespace ei::bench {
namespace {

struct Settings {
  std::string model;
  std::string device = "cuda";
  std::vector<int64_t> lengths = {32668, 65436, 130972};
  std::vector<std::string> methods = {"full", "entropyinfer"};
  std::string products;  // EI_DENSE
  std::string cache;     // type of keys and values; empty: the device's
  std::string trace;
  std::string text;
  int64_t generate = 100;
  int64_t warm = 8192;
  int64_t batch = 0;  // tokens of a chunk; 0: the engine's choice
  int rounds = 5;
  int first_rounds = 0;  // of the first method; 0: as many
};

struct Request {
  double prompt_s = 0;
  double answer_s = 0;
  double memory = 0;  // bytes taken on the device, the prompt read
  double held = 0;    // the same at the end, behind a compression
  SessionStats stats;
  double total_s() const { return prompt_s + answer_s; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// "entropyinfer:density=0.1@samples": a preset, changes to its options, and behind the @ what it is given.
Status choose(const std::string& name, SessionOptions& options) {
  std::istringstream parts(name.substr(0, name.find('@')));
  policy::MethodChoice choice;
  std::getline(parts, choice.method, ':');
  for (std::string part; std::getline(parts, part, ':');) {
    const size_t is = part.find('=');
    if (is == std::string::npos)
      return make_error(ErrorKind::kUsage, "--methods: '%s' is not option=value", part.c_str());
    choice.options[part.substr(0, is)] = part.substr(is + 1);
  }
  options.method = choice.method;
  EI_ASSIGN_OR_RETURN(options.prefill, policy::prefill_options(choice));
  EI_ASSIGN_OR_RETURN(options.kv, policy::kv_options(choice));
  return {};
}
std::string given_of(const std::string& name) {
  const size_t at = name.find('@');
  return at == std::string::npos ? "" : name.substr(at + 1);
}

Result<Request> ask(const Engine& engine, const Settings& settings, int64_t length, const std::string& name,
                    const Recorded* recorded) {
  Random random(7);
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < length)
    tokens.push_back(static_cast<int32_t>(random.below(engine.config().vocab)));
  SessionOptions options;
  EI_RETURN_IF_ERROR(choose(name, options));
  options.context = length + settings.generate;
  options.batch = settings.batch;
  if (!settings.cache.empty()) options.key_type = options.value_type = dtype_from_name(settings.cache);
  const auto before = static_cast<double>(engine.backend().free_memory());
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, engine.new_session(options));
  if (!given_of(name).empty() && session->planner() != nullptr) session->planner()->give(recorded);
  Request request;
  double begun = now_s();
  EI_RETURN_IF_ERROR(session->prefill(tokens));
  request.prompt_s = now_s() - begun;
  request.memory = before - static_cast<double>(engine.backend().free_memory());
  begun = now_s();
  for (int64_t i = 0; i < settings.generate; ++i) EI_RETURN_IF_ERROR(session->decode(tokens[static_cast<size_t>(i)]));
  request.answer_s = now_s() - begun;
  request.held = before - static_cast<double>(engine.backend().free_memory());
  request.stats = session->stats();
  return request;
}

// The trace's model reads a text of this length, or of its own context where that is shorter.
Result<std::unique_ptr<Recorded>> record(const Engine& small, const Settings& settings, const std::string& name,
                                         int64_t length, const model::Config& larger) {
  const int64_t read = std::min<int64_t>(length, small.config().context);
  EI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, first_tokens(small, settings.text, read));
  SessionOptions options;
  EI_RETURN_IF_ERROR(choose(name, options));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, small.new_session(options));
  if (session->planner() == nullptr)
    return make_error(ErrorKind::kUsage, "%s reads everything: nothing can be given to it", options.method.c_str());
  session->planner()->keep_blocks(true);
  EI_RETURN_IF_ERROR(session->prefill(tokens));
  const int32_t segment = session->planner()->options().segment;
  auto recorded = std::make_unique<Recorded>(*session, larger.layers, larger.kv_heads,
                                             static_cast<int32_t>((length + segment - 1) / segment));
  recorded->names_blocks(given_of(name) == "lists");
  std::fprintf(stderr,
               "trace of %lld tokens: density %.4f; kv_heads unknown %.3f, local %.3f, sink %.3f, diffuse %.3f\n",
               static_cast<long long>(read), session->stats().density(), recorded->share_of(policy::HeadType::kUnknown),
               recorded->share_of(policy::HeadType::kLocal), recorded->share_of(policy::HeadType::kSink),
               recorded->share_of(policy::HeadType::kDiffuse));
  return recorded;
}

void print(int64_t length, const std::string& name, const std::vector<Request>& requests,
           const std::vector<Request>& first) {
  const auto pick = [](const std::vector<Request>& of, auto value) {
    std::vector<double> values;
    for (const Request& request : of) values.push_back(value(request));
    return median(values);
  };
  const auto total_of = [](const Request& r) { return r.total_s(); };
  const auto prompt_of = [](const Request& r) { return r.prompt_s; };
  const double total = pick(requests, total_of);
  const double prompt = pick(requests, prompt_of);
  const double products = pick(requests, [](const Request& r) { return r.stats.matmul_s; });
  const double attention = pick(requests, [](const Request& r) { return r.stats.attention_s; });
  const double measuring = pick(requests, [](const Request& r) { return r.stats.profile_s; });
  const double choosing = pick(requests, [](const Request& r) { return r.stats.plan_s; });
  const double compressing = pick(requests, [](const Request& r) { return r.stats.compress_s; });
  const auto per_second = [](double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; };
  const SessionStats& stats = requests.back().stats;
  const auto compressed = static_cast<double>(stats.compressed_tokens);
  std::printf(
      "| %lld | %s | %.3f | %.2f | %.3f | %.2f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.0f | %.0f | %.1f "
      "| %.1f |\n",
      static_cast<long long>(length), name.c_str(), total, pick(first, total_of) / total, prompt,
      pick(first, prompt_of) / prompt, products, attention, measuring, choosing,
      prompt - products - attention - measuring - choosing, compressing, stats.density(),
      per_second(static_cast<double>(stats.generated_tokens) - compressed, stats.full_s),
      per_second(compressed, stats.compressed_s), requests.back().memory / (1 << 30), requests.back().held / (1 << 30));
  std::fflush(stdout);
}

Result<std::unique_ptr<Engine>> load(const Settings& settings, const std::string& model, const std::string& products) {
  EngineOptions options;
  options.model_path = model;
  options.backend = settings.device;
  options.backend_options.dense = products;
  return Engine::load(options);
}

Status run(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load(settings, settings.model, settings.products));
  std::unique_ptr<Engine> small;
  if (!settings.trace.empty()) {
    EI_ASSIGN_OR_RETURN(small, load(settings, settings.trace, ""));
  }
  std::printf(
      "| tokens | method | all s | ratio | prompt s | ratio | products | attention | measuring | choosing | rest | "
      "compressing | density | tok/s whole cache | tok/s compressed | GiB | GiB at the end "
      "|\n|---|---|---|---|---|---|---|---|---|---|"
      "---|---|---|---|---|---|---|\n");
  bool cold = true;
  for (const int64_t length : settings.lengths) {
    std::map<std::string, std::unique_ptr<Recorded>> traces;
    for (const std::string& name : settings.methods) {
      if (given_of(name).empty()) continue;
      if (small == nullptr || settings.text.empty())
        return make_error(ErrorKind::kUsage, "%s needs --trace MODEL and --text FILE", name.c_str());
      EI_ASSIGN_OR_RETURN(traces[name], record(*small, settings, name, length, engine->config()));
    }
    std::map<std::string, std::vector<Request>> requests;
    for (int round = cold ? -1 : 0; round < settings.rounds; ++round) {
      for (const std::string& name : settings.methods) {
        const bool enough = settings.first_rounds > 0 && round >= settings.first_rounds;
        if (enough && name == settings.methods.front()) continue;
        EI_ASSIGN_OR_RETURN(Request request,
                            ask(*engine, settings, round < 0 ? settings.warm : length, name, traces[name].get()));
        if (round >= 0) requests[name].push_back(std::move(request));
      }
    }
    cold = false;
    for (const std::string& name : settings.methods)
      print(length, name, requests[name], requests[settings.methods.front()]);
  }
  return {};
}

}  // namespace
}  // namespace ei::bench

int main(int argc, char** argv) {
  CLI::App app("Whole requests on a device, method against method.");
  ei::bench::Settings settings;
  app.add_option("-m,--model", settings.model, "GGUF model")->required();
  app.add_option("--device", settings.device)->capture_default_str();
  app.add_option("--lengths", settings.lengths, "tokens of the prompts")->delimiter(',');
  app.add_option("--methods", settings.methods,
                 "presets, as NAME or NAME:option=value:..., @samples or @lists behind one where it is given a trace; "
                 "the first is what others are "
                 "compared with")
      ->delimiter(',');
  app.add_option("--trace", settings.trace, "GGUF model whose attention is given");
  app.add_option("--text", settings.text, "that it reads");
  app.add_option("--products", settings.products, "as EI_DENSE: fp8");
  app.add_option("--cache", settings.cache, "type of the cache")->check(CLI::IsMember({"f32", "f16", "bf16", "fp8"}));
  app.add_option("-n,--generate", settings.generate, "tokens")->capture_default_str();
  app.add_option("-r,--rounds", settings.rounds, "the median counts")->capture_default_str();
  app.add_option("--first-rounds", settings.first_rounds, "of the first method, where it is slow (0: as many)");
  app.add_option("-b,--batch", settings.batch, "tokens of a chunk (0: the engine's choice)");
  app.add_option("--warm", settings.warm, "tokens of one request before them")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const ei::Status status = ei::bench::run(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_bench: %s\n", status.error().message.c_str());
  return ei::exit_code(status.error().kind);
}
