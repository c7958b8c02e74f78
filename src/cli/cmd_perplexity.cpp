// perplexity: how well a model predicts a text, in chunks of -c tokens of which the second half is scored, as
// llama.cpp counts it; and how far it strays from another setting of the engine (--vs), full attention by default: that
// one is the reference p of KL(p || q), as in eval.
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/method_options.h"
#include "cli/options.h"
#include "cli/parse.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "cli/sides.h"
#include "engine/fits.h"
#include "eval/logits_spool.h"
#include "eval/metrics.h"

namespace ei::cli {

namespace {
// What a KL divergence is taken to.
std::string other_side(const Settings& settings) {
  return settings.vs.empty() ? "method=full,kv-policy=full" : settings.vs;
}

struct Scores {
  eval::Perplexity base;
  eval::Perplexity other;
  eval::Divergence divergence;
  Acted acted;  // the tested side
  int64_t chunks = 0;
  int64_t chunks_wanted = 0;

  bool interrupted() const { return chunks < chunks_wanted; }
};

class Scorer {
 public:
  Scorer(const CommandContext& context, Side base, std::optional<Side> other, std::vector<int32_t> tokens)
      : context_(context),
        base_(std::move(base)),
        other_(std::move(other)),
        tokens_(std::move(tokens)),
        context_tokens_(context.settings.ppl_ctx_size) {}

  int64_t num_chunks() const {
    const int64_t all = static_cast<int64_t>(tokens_.size()) / context_tokens_;
    return context_.settings.chunks < 0 ? all : std::min(all, context_.settings.chunks);
  }

  // Interrupted behind the first chunk, it ends with the chunks that are wholly scored.
  Result<Scores> run() {
    EI_ASSIGN_OR_RETURN(eval::LogitsSpool spool, eval::LogitsSpool::open());
    Progress progress(context_.console, "scoring");
    start_s_ = now_s();
    progress_ = &progress;
    scores_.chunks_wanted = num_chunks();
    context_.interrupts.enter(Interrupts::Phase::kPrompt);
    for (int64_t index = 0; index < num_chunks(); ++index) {
      const Scores finished = scores_;
      if (const Status scored = score_chunk(chunk_at(index), spool); !scored.ok()) {
        if (scored.error().kind != ErrorKind::kInterrupted || index == 0) return scored.error();
        scores_ = finished;
        break;
      }
      ++scores_.chunks;
    }
    return scores_;
  }

 private:
  using RowFn = std::function<void(std::span<const float> logits, int32_t next)>;

  Status score_chunk(const std::vector<int32_t>& chunk, eval::LogitsSpool& spool) {
    spool.rewind();
    if (other_) {
      EI_RETURN_IF_ERROR(score(*other_, chunk, [&](std::span<const float> logits, int32_t next) {
        scores_.other.add(eval::negative_log_likelihood(logits, next));
        spool.write(logits);
      }));
      spool.rewind();
    }
    const auto on_row = [&](std::span<const float> logits, int32_t next) {
      scores_.base.add(eval::negative_log_likelihood(logits, next));
      if (other_) scores_.divergence.add(spool.read(logits.size()), logits);
    };
    EI_RETURN_IF_ERROR(score(base_, chunk, on_row, &scores_.acted));
    return spool.status();
  }

  std::vector<int32_t> chunk_at(int64_t index) const {
    const auto first = tokens_.begin() + index * context_tokens_;
    std::vector<int32_t> chunk(first, first + context_tokens_);
    // Every chunk begins like a text of its own.
    const text::Tokenizer& tokenizer = base_.engine->tokenizer();
    if (tokenizer.adds_bos() && tokenizer.bos() != text::kNoToken) chunk[0] = tokenizer.bos();
    return chunk;
  }

  Status score(const Side& side, const std::vector<int32_t>& chunk, const RowFn& on_row, Acted* acted = nullptr) {
    Settings settings = side.settings;
    settings.ctx_size = context_tokens_;
    EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        new_session(*side.engine, settings, context_.interrupts.stop_now()));
    EI_RETURN_IF_ERROR(check_cache_fits(*session, context_tokens_));
    EI_RETURN_IF_ERROR(settings.decode ? decode_half(*session, chunk, on_row) : read_whole(*session, chunk, on_row));
    if (acted != nullptr) acted->add(session->acted());
    read_tokens_ += context_tokens_;
    return {};
  }

  Status read_whole(Session& session, std::span<const int32_t> chunk, const RowFn& on_row) const {
    return session.evaluate(
        chunk,
        [&](int64_t position, std::span<const float> logits) {
          if (position < context_tokens_ / 2 || position + 1 >= context_tokens_) return;
          on_row(logits, chunk[static_cast<size_t>(position) + 1]);
        },
        [&](const PrefillProgress& state) { show(state.done); });
  }

  Status decode_half(Session& session, std::span<const int32_t> chunk, const RowFn& on_row) const {
    const auto prompt = static_cast<size_t>(context_tokens_ / 2) + 1;
    EI_RETURN_IF_ERROR(session.prefill(chunk.first(prompt), [&](const PrefillProgress& state) { show(state.done); }));
    for (const int32_t token : chunk.subspan(prompt)) {
      on_row(session.logits(), token);
      EI_RETURN_IF_ERROR(session.decode(token));
      show(session.position());
    }
    return {};
  }

  // `done` tokens of the chunk that is being read; both sides count.
  void show(int64_t done) const {
    const int64_t round = context_tokens_ * (other_ ? 2 : 1);
    progress_->update_rounds(read_tokens_ + done, round * num_chunks(), round, now_s() - start_s_);
  }

  const CommandContext& context_;
  const Side base_;
  const std::optional<Side> other_;
  const std::vector<int32_t> tokens_;
  const int64_t context_tokens_;
  Scores scores_;
  Progress* progress_ = nullptr;  // while run() does
  double start_s_ = 0;
  int64_t read_tokens_ = 0;  // of finished chunks, on either side
};

std::string to_json(const Settings& settings, const Engine& engine, const Scores& scores) {
  nlohmann::ordered_json object;
  object["model"] = engine.file().path();
  object["backend"] = engine.backend().name();
  object["method"] = settings.method;
  object["method_options"] = method_options_text(settings);
  object["acted"] = scores.acted.any();
  object["idle"] = scores.acted.idle;
  object["ctx_size"] = settings.ppl_ctx_size;
  object["decode"] = settings.decode;
  object["chunks"] = scores.chunks;
  object["chunks_wanted"] = scores.chunks_wanted;
  object["interrupted"] = scores.interrupted();
  object["tokens"] = scores.base.count();
  object["ppl"] = scores.base.value();
  object["ppl_error"] = scores.base.error();
  if (settings.kl_divergence) {
    object["vs"] = other_side(settings);
    object["ppl_vs"] = scores.other.value();
    object["ppl_vs_error"] = scores.other.error();
    object["mean_kld"] = scores.divergence.kl().mean();
    object["mean_kld_error"] = scores.divergence.kl().standard_error();
    object["same_top"] = scores.divergence.same_top().mean();
    object["same_top_error"] = scores.divergence.same_top().standard_error();
  }
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string to_text(const Settings& settings, const Scores& scores) {
  const std::string interrupted = scores.interrupted() ? str_format("; interrupted, %lld chunks were wanted",
                                                                    static_cast<long long>(scores.chunks_wanted))
                                                       : "";
  std::string text = str_format("PPL = %.4f +/- %.4f (%lld tokens in %lld chunks of %lld%s)\n", scores.base.value(),
                                scores.base.error(), static_cast<long long>(scores.base.count()),
                                static_cast<long long>(scores.chunks), static_cast<long long>(settings.ppl_ctx_size),
                                interrupted.c_str());
  if (!settings.kl_divergence) return text;
  const eval::Divergence& divergence = scores.divergence;
  text +=
      str_format("PPL(%s) = %.4f +/- %.4f\n", other_side(settings).c_str(), scores.other.value(), scores.other.error());
  text += str_format("mean KLD = %.6f +/- %.6f\n", divergence.kl().mean(), divergence.kl().standard_error());
  text += str_format("same top token = %.3f +/- %.3f %%\n", 100 * divergence.same_top().mean(),
                     100 * divergence.same_top().standard_error());
  return text;
}

Status check_settings(const Settings& settings) {
  if (settings.file.empty()) return Error{ErrorKind::kUsage, "no text to score: give -f FILE"};
  if (!settings.kl_divergence && !settings.vs.empty()) return Error{ErrorKind::kUsage, "--vs wants --kl-divergence"};
  return {};
}
}  // namespace

Result<int> command_perplexity(const CommandContext& given) {
  Settings settings = given.settings;
  const CommandContext context{settings, given.console, given.interrupts};
  EI_RETURN_IF_ERROR(check_settings(settings));
  std::optional<Settings> other;
  if (settings.kl_divergence) {
    EI_ASSIGN_OR_RETURN(other, with_overrides(*find_command("perplexity"), settings, other_side(settings)));
    if (other->ppl_ctx_size != settings.ppl_ctx_size) {
      return Error{ErrorKind::kUsage, "--vs cannot change --ctx-size: the same tokens are compared"};
    }
  }
  if (settings.chunks == 0) return Error{ErrorKind::kUsage, "--chunks 0 leaves nothing to score; -1 scores all"};
  EI_ASSIGN_OR_RETURN(const std::string text, read_text_file(settings.file, "text file"));
  if (text.empty()) return Error{ErrorKind::kUsage, "the text is empty"};
  EI_ASSIGN_OR_RETURN(const Sides sides, load_sides(settings, other, context.console));
  const Engine& engine = *sides.engine;
  if (settings.ppl_ctx_size == 0) settings.ppl_ctx_size = engine.config().context;
  EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, engine.tokenizer().tokenize(text, {.add_bos_eos = true}));
  const size_t count = tokens.size();
  Scorer scorer(context, sides.base, sides.other, std::move(tokens));
  if (scorer.num_chunks() == 0) {
    return make_error(ErrorKind::kUsage, "the text has %zu tokens, less than one chunk of %lld; lower --ctx-size",
                      count, static_cast<long long>(settings.ppl_ctx_size));
  }
  name_default_model(settings, context.console);
  warn_beyond_training(engine, settings.ppl_ctx_size, context.console);
  EI_ASSIGN_OR_RETURN(const Scores scores, scorer.run());
  if (settings.kl_divergence)
    EI_RETURN_IF_ERROR(check_comparison(scores.acted, settings.method, scores.divergence.kl().mean()));
  if (!scores.acted.any())
    for (const std::string& why : scores.acted.idle) context.console.note("note: " + why);
  const std::string out = settings.json ? to_json(settings, engine, scores) : to_text(settings, scores);
  if (!context.console.print(out)) return exit_code(ErrorKind::kRuntime);
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
