// What other maths, another cache type, another method or another device does to answers: a text is read with both
// settings, and the logits of some positions are compared (KL divergence, same best token). Both in one process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "gpu/text.h"

namespace ei::bench {
namespace {

struct Side {
  std::string device = "cuda";
  std::string products;  // EI_DENSE
  std::string method = "full";
  std::string cache;  // of keys and values
};

struct Settings {
  std::string model;
  std::string text;
  std::vector<int64_t> lengths = {8192};
  int64_t every = 16;  // positions between two that are compared
  int threads = 0;
  Side base;
  Side other;
};

struct Answers {
  std::vector<std::vector<float>> log_p;  // [positions][vocab]
  double seconds = 0;
  double density = 1;
};

std::vector<float> log_softmax(std::span<const float> logits) {
  const float high = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value - high));
  const float less = high + static_cast<float>(std::log(sum));
  std::vector<float> result;
  result.reserve(logits.size());
  for (const float value : logits) result.push_back(value - less);
  return result;
}

Result<std::unique_ptr<Engine>> load(const Settings& settings, const Side& side) {
  EngineOptions options;
  options.model_path = settings.model;
  options.backend = side.device;
  options.backend_options.dense = side.products;
  options.backend_options.threads = settings.threads;
  return Engine::load(options);
}

Result<Answers> read(const Engine& engine, const Settings& settings, const Side& side,
                     const std::vector<int32_t>& tokens) {
  SessionOptions options;
  options.method = side.method;
  options.context = static_cast<int64_t>(tokens.size());
  if (!side.cache.empty()) {
    options.key_type = options.value_type = dtype_from_name(side.cache);
    if (!options.key_type) return make_error(ErrorKind::kUsage, "unknown type '%s'", side.cache.c_str());
  }
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, engine.new_session(options));
  Answers answers;
  const double begun = now_s();
  EI_RETURN_IF_ERROR(session->evaluate(
      tokens, [&](int64_t, std::span<const float> logits) { answers.log_p.push_back(log_softmax(logits)); }, nullptr,
      [&](int64_t position) { return position % settings.every == settings.every - 1; }));
  answers.seconds = now_s() - begun;
  answers.density = session->stats().density();
  return answers;
}

void compare(int64_t length, const Answers& base, const Answers& other) {
  double sum = 0;
  double squares = 0;
  double worst = 0;
  int64_t same = 0;
  const auto count = static_cast<double>(base.log_p.size());
  for (size_t i = 0; i < base.log_p.size(); ++i) {
    const std::vector<float>& p = base.log_p[i];
    const std::vector<float>& q = other.log_p[i];
    double kld = 0;
    for (size_t t = 0; t < p.size(); ++t)
      kld += std::exp(static_cast<double>(p[t])) * (static_cast<double>(p[t]) - static_cast<double>(q[t]));
    sum += kld;
    squares += kld * kld;
    worst = std::max(worst, kld);
    const auto best = [](const std::vector<float>& row) {
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    if (best(p) == best(q)) ++same;
  }
  const double mean = sum / count;
  const double error = std::sqrt(std::max(0.0, squares / count - mean * mean) / count);
  std::printf("| %lld | %.0f | %.6f | %.6f | %.4f | %.2f | %.4f | %.4f | %.2f | %.2f |\n",
              static_cast<long long>(length), count, mean, error, worst, 100 * static_cast<double>(same) / count,
              base.density, other.density, base.seconds, other.seconds);
  std::fflush(stdout);
}

Status run(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> base, load(settings, settings.base));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> other, load(settings, settings.other));
  std::printf(
      "| tokens | positions | mean KLD | error of it | worst | same best token %% | density | density | s | s |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int64_t length : settings.lengths) {
    EI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, first_tokens(*base, settings.text, length));
    EI_ASSIGN_OR_RETURN(const Answers first, read(*base, settings, settings.base, tokens));
    EI_ASSIGN_OR_RETURN(const Answers second, read(*other, settings, settings.other, tokens));
    compare(length, first, second);
  }
  return {};
}

void add_side(CLI::App& app, const std::string& prefix, Side& side) {
  app.add_option("--" + prefix + "device", side.device)->capture_default_str();
  app.add_option("--" + prefix + "products", side.products, "as EI_DENSE: fp8");
  app.add_option("--" + prefix + "method", side.method)->capture_default_str();
  app.add_option("--" + prefix + "cache", side.cache, "type of keys and values");
}

}  // namespace
}  // namespace ei::bench

int main(int argc, char** argv) {
  CLI::App app("KL divergence of one setting from another, on a device.");
  ei::bench::Settings settings;
  app.add_option("-m,--model", settings.model, "GGUF model")->required();
  app.add_option("--text", settings.text, "a file")->required();
  app.add_option("--lengths", settings.lengths, "tokens of the text that are read")->delimiter(',');
  app.add_option("--every", settings.every, "tokens between two positions that are compared")->capture_default_str();
  app.add_option("-t,--threads", settings.threads)->capture_default_str();
  ei::bench::add_side(app, "base-", settings.base);
  ei::bench::add_side(app, "", settings.other);
  CLI11_PARSE(app, argc, argv);
  const ei::Status status = ei::bench::run(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_kld: %s\n", status.error().message.c_str());
  return ei::exit_code(status.error().kind);
}
