// perplexity: how well a model predicts a text, in chunks of -c tokens of which the second half is scored, as
// llama.cpp counts it; and how far it strays from another setting of the engine (--vs), full attention by default: that
// one is the reference p of KL(p || q), as in eval.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/kv_options.h"
#include "cli/options.h"
#include "cli/parse.h"
#include "cli/perplexity_report.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "cli/sides.h"
#include "engine/fits.h"
#include "eval/logits_spool.h"
#include "eval/metrics.h"
#include "eval/position_buckets.h"

namespace ei::cli {

namespace {
constexpr int64_t kBuckets = 8;          // of a text that is read
constexpr int64_t kFirstGenerated = 32;  // tokens of the first bucket behind a prompt: two of them are the standard gap

class Scorer {
 public:
  Scorer(const CommandContext& context, Side base, std::optional<Side> other, std::vector<int32_t> tokens)
      : context_(context),
        base_(std::move(base)),
        other_(std::move(other)),
        tokens_(std::move(tokens)),
        context_tokens_(context.settings.ppl_ctx_size),
        prompt_(unscored_tokens(context.settings)) {
    scores_.by_position = context.settings.decode
                              ? eval::PositionBuckets::doubling(prompt_, context_tokens_, kFirstGenerated)
                              : eval::PositionBuckets::even(prompt_, context_tokens_, kBuckets);
  }

  int64_t num_chunks() const {
    const int64_t all = static_cast<int64_t>(tokens_.size()) / context_tokens_;
    return context_.settings.chunks < 0 ? all : std::min(all, context_.settings.chunks);
  }

  // Interrupted behind the first chunk, it ends with the chunks that are wholly scored.
  Result<PerplexityScores> run() {
    EI_ASSIGN_OR_RETURN(eval::LogitsSpool spool, eval::LogitsSpool::open());
    Progress progress(context_.console, "scoring");
    start_s_ = now_s();
    progress_ = &progress;
    scores_.chunks_wanted = num_chunks();
    context_.interrupts.enter(Interrupts::Phase::kPrompt);
    for (int64_t index = 0; index < num_chunks(); ++index) {
      const PerplexityScores finished = scores_;
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
  // Logits that predict `next`, the token at `position` of the chunk.
  struct Row {
    int64_t position;
    std::span<const float> logits;
    int32_t next;
    bool compressed;  // the cache they were computed over
  };
  using RowFn = std::function<void(const Row& row)>;

  Status score_chunk(const std::vector<int32_t>& chunk, eval::LogitsSpool& spool) {
    spool.rewind();
    if (other_) {
      EI_RETURN_IF_ERROR(score(*other_, chunk, [&](const Row& row) {
        scores_.other.add(eval::negative_log_likelihood(row.logits, row.next));
        spool.write(row.logits);
      }));
      spool.rewind();
    }
    const auto on_row = [&](const Row& row) {
      scores_.base.add(eval::negative_log_likelihood(row.logits, row.next));
      if (!other_) return;
      const std::span<const float> reference = spool.read(row.logits.size());
      scores_.divergence.add(reference, row.logits);
      scores_.by_position.add(row.position, reference, row.logits, row.compressed);
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
    Acted did = session->acted();
    if (!settings.decode) did.forget_what_came_behind();
    if (acted != nullptr) acted->add(did);
    read_tokens_ += context_tokens_;
    return {};
  }

  Status read_whole(Session& session, std::span<const int32_t> chunk, const RowFn& on_row) const {
    return session.evaluate(
        chunk,
        [&](int64_t position, std::span<const float> logits) {
          on_row({position + 1, logits, chunk[static_cast<size_t>(position) + 1], false});
        },
        [&](const PrefillProgress& state) { show(state.done); },
        [&](int64_t position) {
          const int64_t next = position + 1;
          return next >= prompt_ && next < context_tokens_ && (next - prompt_) % context_.settings.ppl_stride == 0;
        });
  }

  Status decode_half(Session& session, std::span<const int32_t> chunk, const RowFn& on_row) const {
    const auto prompt = static_cast<size_t>(prompt_);
    EI_RETURN_IF_ERROR(session.prefill(chunk.first(prompt), [&](const PrefillProgress& state) { show(state.done); }));
    for (const int32_t token : chunk.subspan(prompt)) {
      on_row({session.position(), session.logits(), token, session.stats().compressions > 0});
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
  const int64_t prompt_;  // the first token that is scored; with --decode, what is read before
  PerplexityScores scores_;
  Progress* progress_ = nullptr;  // while run() does
  double start_s_ = 0;
  int64_t read_tokens_ = 0;  // of finished chunks, on either side
};

Status check_prompt_left(const Settings& settings) {
  if (settings.ppl_ctx_size == 0 || settings.decode_tokens < settings.ppl_ctx_size) return {};
  return make_error(ErrorKind::kUsage, "--decode-tokens %lld leaves no prompt of the %lld tokens of a chunk",
                    static_cast<long long>(settings.decode_tokens), static_cast<long long>(settings.ppl_ctx_size));
}

Status check_settings(const Settings& settings) {
  if (settings.file.empty()) return Error{ErrorKind::kUsage, "no text to score: give -f FILE"};
  if (!settings.kl_divergence && !settings.vs.empty()) return Error{ErrorKind::kUsage, "--vs wants --kl-divergence"};
  if (settings.decode_tokens > 0 && !settings.decode) return Error{ErrorKind::kUsage, "--decode-tokens wants --decode"};
  if (settings.decode && settings.ppl_stride > 1)
    return Error{ErrorKind::kUsage, "--stride has no meaning with --decode, which computes every token"};
  return check_prompt_left(settings);
}
}  // namespace

Result<int> command_perplexity(const CommandContext& given) {
  Settings settings = given.settings;
  const CommandContext context{settings, given.console, given.interrupts};
  EI_RETURN_IF_ERROR(check_settings(settings));
  std::optional<Settings> other;
  if (settings.kl_divergence) {
    EI_ASSIGN_OR_RETURN(other, with_overrides(*find_command("perplexity"), settings, reference_settings(settings)));
    if (other->ppl_ctx_size != settings.ppl_ctx_size)
      return Error{ErrorKind::kUsage, "--vs cannot change --ctx-size: the same tokens are compared"};
    if (other->ppl_stride != settings.ppl_stride || other->decode_tokens != settings.decode_tokens)
      return Error{ErrorKind::kUsage, "--vs cannot change --stride or --decode-tokens: the same tokens are compared"};
  }
  if (settings.kl_divergence && settings.vs.empty()) {
    EI_ASSIGN_OR_RETURN(const bool same, leaves_nothing_out(settings));
    if (same)
      return Error{ErrorKind::kUsage,
                   "--kl-divergence compares with full attention, and nothing here is another: give --method, or "
                   "--vs with what differs (--vs ctk=f16,ctv=f16)"};
  }
  if (settings.kl_divergence && settings.vs.empty() && !settings.decode) {
    EI_ASSIGN_OR_RETURN(const bool idle, acts_on_answers_alone(settings));
    if (idle)
      return make_error(ErrorKind::kUsage,
                        "--method %s makes the cache smaller behind a prompt, and a text that is scored as one prompt "
                        "never sees that: add --decode",
                        settings.method.c_str());
  }
  if (settings.chunks == 0) return Error{ErrorKind::kUsage, "--chunks 0 leaves nothing to score; -1 scores all"};
  EI_ASSIGN_OR_RETURN(const std::string text, read_text_file(settings.file, "text file"));
  if (text.empty()) return Error{ErrorKind::kUsage, "the text is empty"};
  EI_ASSIGN_OR_RETURN(const Sides sides, load_sides(settings, other, context.console));
  const Engine& engine = *sides.engine;
  if (settings.ppl_ctx_size == 0) settings.ppl_ctx_size = engine.config().context;
  EI_RETURN_IF_ERROR(check_prompt_left(settings));
  if (settings.kl_divergence && settings.vs.empty()) {
    const int64_t prompt = settings.decode ? unscored_tokens(settings) : settings.ppl_ctx_size;
    EI_RETURN_IF_ERROR(check_acts_on(settings, prompt, "--ctx-size", settings.decode));
  }
  EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, engine.tokenizer().tokenize(text, {.add_bos_eos = true}));
  const size_t count = tokens.size();
  Scorer scorer(context, sides.base, sides.other, std::move(tokens));
  if (scorer.num_chunks() == 0) {
    return make_error(ErrorKind::kUsage, "the text has %zu tokens, less than one chunk of %lld; lower --ctx-size",
                      count, static_cast<long long>(settings.ppl_ctx_size));
  }
  name_default_model(settings, context.console);
  warn_beyond_training(engine, settings.ppl_ctx_size, context.console);
  EI_ASSIGN_OR_RETURN(const PerplexityScores scores, scorer.run());
  if (settings.kl_divergence)
    EI_RETURN_IF_ERROR(check_comparison(scores.acted, settings.method, scores.divergence.kl().mean()));
  if (!scores.acted.any())
    for (const std::string& why : scores.acted.idle()) context.console.note("note: " + why);
  const std::string out = settings.json ? perplexity_json(settings, engine, scores) : perplexity_text(settings, scores);
  if (!context.console.print(out)) return exit_code(ErrorKind::kRuntime);
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
