// eval --teacher-forced: texts with facts of several kinds hidden in them, one question of each kind at the end, the
// right answers in place; and how far the method's predictions stray from those of --vs on the prose.
#include "cli/eval_forced.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "cli/eval_report.h"
#include "cli/input.h"
#include "cli/kv_options.h"
#include "cli/method_options.h"
#include "cli/options.h"
#include "cli/parse.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "cli/sides.h"
#include "engine/fits.h"
#include "engine/prompt.h"
#include "eval/exam_reader.h"
#include "eval/logits_spool.h"
#include "eval/task_kind.h"

namespace ei::cli {

namespace {
using Haystacks = std::function<eval::Haystack(uint64_t seed)>;

void add(SessionStats& sum, const SessionStats& more) {
  sum.prompt_tokens += more.prompt_tokens;
  sum.prompt_s += more.prompt_s;
  sum.pairs += more.pairs;
  sum.pairs_dense += more.pairs_dense;
  sum.profile_s += more.profile_s;
  sum.plan_s += more.plan_s;
  sum.attention_s += more.attention_s;
  sum.matmul_s += more.matmul_s;
}

EvalSide new_side(const Settings& settings) {
  EvalSide side;
  side.method = settings.method;
  side.method_options = method_options_text(settings);
  return side;
}

class Evaluation {
 public:
  Evaluation(const CommandContext& context, const Sides& sides, std::vector<Settings> also, eval::ChatFrame frame,
             Haystacks haystacks)
      : context_(context),
        sides_(sides),
        tested_{sides.base},
        frame_(std::move(frame)),
        haystacks_(std::move(haystacks)),
        progress_(context.console, "evaluating"),
        start_s_(now_s()) {
    for (Settings& settings : also) tested_.push_back({std::move(settings), sides.base.engine});
    for (const Side& side : tested_) scores_.tested.push_back({new_side(side.settings), {}});
    if (sides.other) scores_.reference = new_side(sides.other->settings);
  }

  // Interrupted behind the first text, it ends with the texts that all sides have read.
  Result<EvalScores> run() {
    EI_ASSIGN_OR_RETURN(eval::LogitsSpool spool, eval::LogitsSpool::open());
    context_.interrupts.enter(Interrupts::Phase::kPrompt);
    for (int64_t index = 0; index < context_.settings.eval_contexts; ++index) {
      const EvalScores finished = scores_;
      if (const Status read = read_text(index, spool); !read.ok()) {
        if (read.error().kind != ErrorKind::kInterrupted || index == 0) return read.error();
        scores_ = finished;
        progress_.finish();
        context_.console.note(str_format("interrupted: %lld of %lld texts", static_cast<long long>(index),
                                         static_cast<long long>(context_.settings.eval_contexts)));
        break;
      }
      if (!context_.console.print(std::exchange(answers_, {}))) return Error{ErrorKind::kRuntime, "stdout was closed"};
    }
    context_.interrupts.enter(Interrupts::Phase::kOutside);
    progress_.finish();
    return scores_;
  }

 private:
  Status read_text(int64_t index, eval::LogitsSpool& spool) {
    EI_ASSIGN_OR_RETURN(const eval::Exam exam, new_exam(index));
    const std::vector<int64_t> prose = eval::sample_prose(exam, first_scored(), context_.settings.eval_stride);
    spool.rewind();
    if (sides_.other) {
      EI_RETURN_IF_ERROR(read(exam, prose, *sides_.other, *scores_.reference,
                              [&](int64_t, std::span<const float> logits) { spool.write(logits); }));
    }
    for (size_t i = 0; i < tested_.size(); ++i) {
      TestedSide& scores = scores_.tested[i];
      spool.rewind();
      EI_RETURN_IF_ERROR(read(exam, prose, tested_[i], scores, [&](int64_t, std::span<const float> logits) {
        if (sides_.other) scores.divergence.add(spool.read(logits.size()), logits);
      }));
    }
    return spool.status();
  }

  Result<eval::Exam> new_exam(int64_t index) const {
    const Settings& settings = context_.settings;
    eval::ExamSpec spec{.kinds = settings.eval_tasks, .length = settings.eval_length, .seed = 0, .haystack = {}};
    // Neighbouring seeds must not share texts.
    spec.seed = static_cast<uint64_t>(settings.eval_seed) * 1000003u + static_cast<uint64_t>(index);
    if (haystacks_) spec.haystack = haystacks_(spec.seed);
    return eval::make_exam(spec, sides_.engine->tokenizer(), frame_);
  }

  // Behind the part that every sparse prefill reads densely, and the segment that follows it.
  int64_t first_scored() const {
    int64_t first = 0;
    for (const Side& side : tested_) {
      const policy::PrefillOptions options = *prefill_options(side.settings);
      first = std::max(first, int64_t{options.threshold} + options.segment);
    }
    return std::min(first, context_.settings.eval_length / 2);
  }

  Status read(const eval::Exam& exam, std::span<const int64_t> prose, const Side& side, EvalSide& out,
              const eval::ProseFn& on_prose) {
    Settings settings = side.settings;
    settings.ctx_size = static_cast<int64_t>(exam.tokens.size());
    EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        new_session(*side.engine, settings, context_.interrupts.stop_now()));
    EI_RETURN_IF_ERROR(check_cache_fits(*session, settings.ctx_size));
    const Result<std::vector<eval::ExamAnswer>> answers = eval::take_exam(
        *session, exam, prose,
        [&](int64_t position, std::span<const float> logits) {
          out.prose.add(eval::negative_log_likelihood(logits, exam.tokens[static_cast<size_t>(position)]));
          on_prose(position, logits);
        },
        [&](const PrefillProgress& state) { show_progress(state.done); });
    if (!answers.ok()) return answers.error();
    done_ += static_cast<int64_t>(exam.tokens.size());
    ++out.contexts;
    add(out.stats, session->stats());
    Acted did = session->acted();
    did.forget_what_came_behind();
    out.acted.add(did);
    out.kv_bytes = session->store().bytes();
    out.compressions = session->store().compactions();
    account(exam, *answers, session->stats().density(), out);
    return {};
  }

  void show_progress(int64_t more) {
    const int64_t readings = static_cast<int64_t>(tested_.size()) + (sides_.other ? 1 : 0);
    const int64_t round = readings * context_.settings.eval_length;
    progress_.update_rounds(done_ + more, round * context_.settings.eval_contexts, round, now_s() - start_s_);
  }

  void account(const eval::Exam& exam, std::span<const eval::ExamAnswer> answers, double density, EvalSide& out) {
    for (size_t i = 0; i < answers.size(); ++i) {
      const eval::ExamItem& item = exam.items[i];
      TaskCount& count = out.tasks[item.kind];
      ++count.total;
      count.right += answers[i].right ? 1 : 0;
      if (!context_.settings.json) continue;
      std::span<const int32_t> words = answers[i].predicted;
      const EvalItem line{.task = item.kind,
                          .prediction = sides_.engine->tokenizer().detokenize(words.first(words.size() - 1), false),
                          .answer = item.answer,
                          .right = answers[i].right,
                          .depth = item.depth,
                          .density = density};
      answers_ += item_json(context_.settings, out, line);
    }
  }

  const CommandContext& context_;
  const Sides& sides_;
  std::vector<Side> tested_;
  const eval::ChatFrame frame_;
  const Haystacks haystacks_;
  Progress progress_;
  const double start_s_;
  int64_t done_ = 0;     // tokens read, all sides
  std::string answers_;  // JSON lines of the text that is being read
  EvalScores scores_;
};

// Names of the options in which two settings differ.
std::vector<std::string> differences(const Settings& a, const Settings& b) {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if ((option.commands & kEval) != 0 && option.binding.show(a) != option.binding.show(b))
      names.emplace_back(option.name());
  }
  return names;
}

Status refuse(const char* flag, std::span<const std::string> changed, std::initializer_list<const char*> fixed,
              const char* reason) {
  for (const char* name : fixed) {
    if (std::find(changed.begin(), changed.end(), name) != changed.end())
      return make_error(ErrorKind::kUsage, "%s cannot change --%s: %s", flag, name, reason);
  }
  return {};
}

Result<Settings> overridden(const char* flag, const Settings& settings, const std::string& changes) {
  EI_ASSIGN_OR_RETURN(Settings other, with_overrides(*find_command("eval"), settings, changes, flag));
  EI_RETURN_IF_ERROR(refuse(flag, differences(other, settings),
                            {"tasks", "length", "contexts", "seed", "haystack", "stride", "vs", "also"},
                            "the same tokens are compared"));
  return other;
}

// The settings of --vs; none when they are those of the tested side.
Result<std::optional<Settings>> other_settings(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(Settings other, overridden("--vs", settings, settings.eval_vs));
  return differences(other, settings).empty() ? std::nullopt : std::optional(std::move(other));
}

Result<std::vector<Settings>> further_settings(const Settings& settings) {
  std::vector<Settings> all;
  if (settings.eval_also.empty()) return all;
  for (const std::string& changes : split(settings.eval_also, ';')) {
    EI_ASSIGN_OR_RETURN(Settings further, overridden("--also", settings, changes));
    EI_RETURN_IF_ERROR(refuse("--also", differences(further, settings), {"model", "device", "threads"},
                              "all settings are tested on one engine"));
    all.push_back(std::move(further));
  }
  return all;
}

// All of a text is prompt here, so a method that only compresses what answers are generated with does nothing.
Status check_acts(const char* flag, const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const bool idle, acts_on_answers_alone(settings));
  if (!idle) return {};
  return make_error(
      ErrorKind::kUsage,
      "%s %s makes the cache smaller, which does nothing while answers are read: leave --teacher-forced out", flag,
      settings.method.c_str());
}

Status check_kinds(const Settings& settings) {
  for (const std::string& kind : settings.eval_tasks) {
    if (const Result<const eval::TaskKind*> found = eval::find_task_kind(kind); !found.ok()) return found.error();
  }
  return {};
}
}  // namespace

Result<int> evaluate_forced(const CommandContext& context) {
  const Settings& settings = context.settings;
  EI_RETURN_IF_ERROR(check_kinds(settings));
  EI_RETURN_IF_ERROR(check_acts("--method", settings));
  EI_ASSIGN_OR_RETURN(const std::optional<Settings> other, other_settings(settings));
  EI_ASSIGN_OR_RETURN(std::vector<Settings> also, further_settings(settings));
  for (const Settings& further : also) EI_RETURN_IF_ERROR(check_acts("--also: method", further));
  if (other) {
    EI_RETURN_IF_ERROR(check_acts_on(settings, settings.eval_length, "--length", false));
    for (const Settings& further : also)
      EI_RETURN_IF_ERROR(check_acts_on(further, settings.eval_length, "--length", false));
  }
  Haystacks haystacks;
  if (!settings.haystack.empty()) {
    EI_ASSIGN_OR_RETURN(const std::string text, read_text_file(settings.haystack, "text file"));
    haystacks = eval::text_haystacks(text);
  }
  EI_ASSIGN_OR_RETURN(const Sides sides, load_sides(settings, other, context.console));
  std::optional<text::ChatTemplate> chat;
  if (!sides.engine->tokenizer().chat_template().empty()) {
    EI_ASSIGN_OR_RETURN(chat, choose_template({}, sides.engine->tokenizer()));
  }
  EI_ASSIGN_OR_RETURN(eval::ChatFrame frame, eval::make_chat_frame(sides.engine->tokenizer(), chat));
  Evaluation evaluation(context, sides, std::move(also), std::move(frame), std::move(haystacks));
  EI_ASSIGN_OR_RETURN(const EvalScores scores, evaluation.run());
  name_default_model(settings, context.console);
  for (const TestedSide& side : scores.tested) {
    if (scores.reference) EI_RETURN_IF_ERROR(check_comparison(side.acted, side.name(), side.divergence.kl().mean()));
    if (side.acted.any()) continue;
    for (const std::string& why : side.acted.idle()) context.console.note("note: " + side.name() + ": " + why);
  }
  const std::string out =
      settings.json ? summary_json(settings, sides.engine->file().path(), scores) : eval_table(settings, scores);
  if (!context.console.print(out)) return exit_code(ErrorKind::kRuntime);
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
