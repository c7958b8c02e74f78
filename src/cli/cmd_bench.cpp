// bench: tokens per second of prompts (pp) and of generation (tg), at any depth of context.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/cores.h"
#include "base/random.h"
#include "cli/bench_row.h"
#include "cli/command.h"
#include "cli/kv_options.h"
#include "cli/method_options.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "engine/fits.h"
#include "kernels/meter/roofline.h"

namespace ei::cli {

namespace {
constexpr uint64_t kTokenSeed = 1;
constexpr int64_t kWarmupTokens = 4096;  // enough to wake the cores and touch the weights; longer warm-ups only cost

Result<MachineRoofline> measure(int64_t threads) {
  const int count = threads > 0 ? static_cast<int>(threads) : usable_cores();
  EI_ASSIGN_OR_RETURN(const kernels::Roofline roofline, kernels::measure_roofline(count));
  return MachineRoofline{.fma_gflops = roofline.fp32_flops / 1e9,
                         .matrix_gflops = roofline.bf16_flops / 1e9,
                         .read_gbs = roofline.read_bytes_per_s / 1e9};
}

std::vector<int32_t> random_tokens(int64_t count, int32_t vocab) {
  Random random(kTokenSeed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(vocab));
  return tokens;
}

std::string utc_now() {
  char text[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// One test on one session: brings the context to its depth once, then runs and rewinds. With KV compression a
// generation test first generates, untimed, the tokens that a compression waits for, and then goes on from repetition
// to repetition: what is timed is the compressed cache, with the compressions that fall into it.
class Bench {
 public:
  Bench(const CommandContext& context, const Engine& engine, const BenchCase& test)
      : context_(context),
        engine_(engine),
        test_(test),
        tokens_(random_tokens(test.depth + test.tokens(), engine.config().vocab)) {}

  Result<BenchRow> run() {
    Settings settings = settings_for_method(context_.settings, test_.method);
    settings.batch_size = test_.batch;
    EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
    goes_on_ = test_.n_gen > 0 && kv.rule != policy::KvRule::kKeepAll;
    const int64_t waits = goes_on_ && test_.depth > 0 ? std::max(kv.gap, 0) : 0;
    const int64_t tokens = goes_on_ ? waits + (settings.repetitions + 1) * test_.n_gen : test_.tokens();
    settings.ctx_size = std::max<int64_t>(test_.depth + tokens, 1);
    EI_ASSIGN_OR_RETURN(session_, new_session(engine_, settings, context_.interrupts.stop_now()));
    EI_RETURN_IF_ERROR(check_cache_fits(*session_, session_->most_slots(test_.depth, tokens)));
    warn_beyond_training(engine_, test_.depth + tokens, context_.console);
    EI_RETURN_IF_ERROR(fill());
    for (int64_t i = 0; i < waits; ++i)
      EI_RETURN_IF_ERROR(session_->decode(tokens_[static_cast<size_t>(i) % tokens_.size()]));
    if (!settings.no_warmup) {
      EI_RETURN_IF_ERROR(once(std::min(test_.tokens(), test_.n_prompt > 0 ? kWarmupTokens : 1)));
      EI_RETURN_IF_ERROR(rewind());
    }
    BenchRow row = describe();
    row.method_options = method_options_text(settings);
    const SessionStats before = session_->stats();
    for (int64_t repetition = 0; repetition < settings.repetitions; ++repetition) {
      const double start = now_s();
      EI_RETURN_IF_ERROR(once(test_.tokens()));
      row.samples_ns.push_back(std::llround((now_s() - start) * 1e9));
      row.kv_bytes = session_->store().bytes();
      EI_RETURN_IF_ERROR(rewind());
    }
    account(before, row);
    return row;
  }

 private:
  Status fill() {
    if (test_.depth == 0) return {};
    Progress progress(context_.console, "filling the context");
    return session_->prefill(part(0, test_.depth), [&](const PrefillProgress& state) { progress.update(state); });
  }

  Status rewind() {
    if (goes_on_) return {};
    if (session_->rewind_point(test_.depth) == test_.depth) return session_->truncate(test_.depth);
    EI_RETURN_IF_ERROR(session_->truncate(0));
    return fill();
  }

  Status once(int64_t count) {
    if (test_.n_prompt > 0) {
      Progress progress(context_.console, test_.name());
      return session_->prefill(part(test_.depth, count), [&](const PrefillProgress& state) { progress.update(state); });
    }
    for (const int32_t token : part(test_.depth, count)) EI_RETURN_IF_ERROR(session_->decode(token));
    return {};
  }

  std::span<const int32_t> part(int64_t first, int64_t count) const {
    return std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }

  BenchRow describe() const {
    const kv::StoreConfig& cache = session_->store().config();
    BenchRow row;
    row.test = test_;
    row.test.batch = session_->batch();
    row.model_path = engine_.file().path();
    int64_t largest = 0;
    std::string type;
    std::map<std::string_view, int64_t> bytes_by_type;
    for (const gguf::Tensor& tensor : engine_.file().tensors()) {
      row.model_bytes += tensor.bytes;
      row.parameters += tensor.rows() * tensor.cols();
      int64_t& bytes = bytes_by_type[tensor.type->name];
      bytes += tensor.bytes;
      if (bytes > largest) {
        largest = bytes;
        type = tensor.type->name;
      }
    }
    row.model_type = engine_.config().arch + str_format(" %.0fM ", static_cast<double>(row.parameters) / 1e6) + type;
    row.backend = engine_.backend().name();
    row.type_k = dtype_name(cache.key_type);
    row.type_v = dtype_name(cache.value_type);
    row.test_time = utc_now();
    return row;
  }

  // What the repetitions did: density, and the arithmetic or the bytes behind it.
  void account(const SessionStats& before, BenchRow& row) const {
    const SessionStats& after = session_->stats();
    const double dense = after.pairs_dense - before.pairs_dense;
    const double pairs = after.pairs - before.pairs;
    row.density = dense > 0 ? pairs / dense : 1.0;
    row.peak_rss = peak_rss_bytes();
    double seconds = 0;
    for (const int64_t ns : row.samples_ns) seconds += static_cast<double>(ns) * 1e-9;
    const auto runs = static_cast<double>(row.samples_ns.size());
    const auto ms_per_run = [runs](double later, double earlier) { return 1000 * (later - earlier) / runs; };
    row.profile_ms = ms_per_run(after.profile_s, before.profile_s);
    row.plan_ms = ms_per_run(after.plan_s, before.plan_s);
    row.attention_ms = ms_per_run(after.attention_s, before.attention_s);
    row.compress_ms = ms_per_run(after.compress_s, before.compress_s);
    row.compressions = after.compressions;
    if (after.compressions > 0) row.compression_ms = 1000 * after.compress_s / static_cast<double>(after.compressions);
    row.evicted = session_->store().evicted();
    row.matmul_ms = ms_per_run(after.matmul_s, before.matmul_s);
    const model::Config& config = engine_.config();
    if (test_.n_prompt > 0) {
      // Two operations per weight and token (the embedding is a look-up), and 4 * head_dim per pair and query head.
      const double weights = static_cast<double>(row.parameters) - static_cast<double>(config.vocab) * config.width;
      const double flops =
          2 * weights * static_cast<double>(test_.n_prompt) * runs + 4.0 * config.head_dim * config.group() * pairs;
      row.gflops = flops / seconds / 1e9;
    } else {
      const double bytes = static_cast<double>(row.model_bytes) + static_cast<double>(row.kv_bytes);
      row.read_gbs = bytes * static_cast<double>(test_.n_gen) * runs / seconds / 1e9;
    }
  }

  const CommandContext& context_;
  const Engine& engine_;
  const BenchCase& test_;
  const std::vector<int32_t> tokens_;
  bool goes_on_ = false;
  std::unique_ptr<Session> session_;
};

Result<int> run_cases(const CommandContext& context, std::vector<BenchCase>& cases) {
  BenchOutput output(context.settings.output);
  std::unique_ptr<Engine> engine;
  std::optional<MachineRoofline> roofline;
  int64_t loaded_threads = -1;
  for (BenchCase& test : cases) {
    if (test.threads == 0) test.threads = usable_cores();
    test.threads = capped_threads(test.threads, context.console);
    if (test.threads != loaded_threads) {
      Settings settings = context.settings;
      settings.threads = test.threads;
      engine.reset();
      EI_ASSIGN_OR_RETURN(engine, load_engine(settings, context.console));
      if (loaded_threads < 0) name_default_model(settings, context.console);
      loaded_threads = test.threads;
      if (settings.roofline) {
        EI_ASSIGN_OR_RETURN(roofline, measure(test.threads));
      }
    }
    // To the last row: an interrupt between two of them must not cut the output off.
    context.interrupts.enter(Interrupts::Phase::kPrompt);
    context.console.detail("running " + test.name());
    Result<BenchRow> row = Bench(context, *engine, test).run();
    if (!row.ok()) {
      context.console.print(output.end());  // rows that are finished stay readable
      return row.error();
    }
    row->roofline = roofline;
    if (!context.console.print(output.row(*row))) return exit_code(ErrorKind::kRuntime);
  }
  context.interrupts.enter(Interrupts::Phase::kOutside);
  if (roofline && context.settings.output == "md") context.console.print("\nroofline: " + roofline_json(*roofline));
  return context.console.print(output.end()) ? 0 : exit_code(ErrorKind::kRuntime);
}
}  // namespace

Result<int> command_bench(const CommandContext& context) {
  std::vector<BenchCase> cases = bench_cases(context.settings);
  if (!cases.empty()) return run_cases(context, cases);
  if (!context.settings.roofline)
    return Error{ErrorKind::kUsage, "nothing to measure: --n-prompt and --n-gen are both 0"};
  if (context.settings.bench_threads.size() > 1)
    return Error{ErrorKind::kUsage, "--roofline alone measures one number of threads at a time"};
  EI_ASSIGN_OR_RETURN(const MachineRoofline roofline, measure(context.settings.bench_threads.front()));
  return context.console.print_line(roofline_json(roofline)) ? 0 : exit_code(ErrorKind::kRuntime);
}

}  // namespace ei::cli
