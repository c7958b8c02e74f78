#include "eval/tasks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "eval/facts.h"
#include "eval/layout.h"
#include "eval/metric/matches.h"
#include "eval/quote.h"
#include "eval/strip.h"
#include "eval/task_kind.h"

namespace ei::eval {
namespace {

constexpr int64_t kAnswerSlack = 16;     // new tokens beyond the answer's own
constexpr int64_t kTokensPerLine = 128;  // at most one planted line in so many tokens
constexpr int kMaxLines = 24;

Result<const TaskKind*> find_kind(const TaskSpec& spec) {
  EI_ASSIGN_OR_RETURN(const TaskKind* kind, find_task_kind(spec.kind));
  if (spec.depth && !kind->one_fact)
    return make_error(ErrorKind::kUsage, "task kind '%s' spreads its facts over the text; leave the depth out",
                      spec.kind.c_str());
  if (spec.depth && !(*spec.depth >= 0 && *spec.depth <= 1))
    return make_error(ErrorKind::kUsage, "depth %g is outside 0 to 1", *spec.depth);
  return kind;
}

struct Draft {
  const TaskKind* kind = nullptr;
  Facts facts;
  std::vector<double> depths;  // [lines]
  double depth = 0;
};

// The task with the first `count` sentences of the tape as its haystack.
Result<Task> assemble(const Draft& draft, const SentenceTape& tape, size_t count, const CountTokens& count_tokens) {
  Facts facts = draft.facts;
  Task task;
  task.kind = draft.kind->name;
  const bool quote = draft.kind->make == nullptr;
  std::vector<size_t> places;
  for (double depth : draft.depths) places.push_back(sentence_at(tape, count, depth));
  task.context = lay_out(tape, count, facts.lines, places);
  size_t first_gold = 0;  // sentence before which, or at which, the first gold fact stands
  if (quote) {
    EI_ASSIGN_OR_RETURN(const Quote found, find_quote(tape, count, task.context, draft.depth, count_tokens));
    facts = found.facts;
    first_gold = found.sentence;
  } else if (!facts.gold.empty()) {
    first_gold = places[facts.gold[0]];
  }
  int64_t before = tape.tokens_before(first_gold);
  int64_t planted = 0;
  for (size_t i = 0; i < draft.facts.lines.size(); ++i) {
    const int64_t tokens = count_tokens(" " + draft.facts.lines[i]);
    planted += tokens;
    if (!facts.gold.empty() && i < facts.gold[0]) before += tokens;
  }
  const int64_t total = tape.tokens_before(count) + planted;
  if (!facts.gold.empty() && total > 0) task.depth = static_cast<double>(before) / static_cast<double>(total);
  for (size_t i : facts.gold) task.gold_facts.push_back(facts.lines[i]);
  task.question = facts.question;
  task.answer = facts.answer;
  task.gold_strings = facts.gold_strings;
  task.max_new_tokens = count_tokens(task.answer) + kAnswerSlack;
  task.prompt_tokens = count_tokens(task.user_message());
  return task;
}

}  // namespace

std::span<const std::string_view> task_kinds() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const TaskKind& kind : task_kind_table()) all.push_back(kind.name);
    return all;
  }();
  return names;
}

Result<Task> make_task(const TaskSpec& spec, const CountTokens& count_tokens) {
  EI_ASSIGN_OR_RETURN(const TaskKind* kind, find_kind(spec));
  // The kind takes part in the seed, so that the kinds of one seed do not share keys or places.
  Random random(spec.seed * 64 + static_cast<uint64_t>(kind - task_kind_table().data()));
  Draft draft{.kind = kind, .facts = {}, .depths = {}, .depth = spec.depth ? *spec.depth : random.uniform()};
  const auto room = static_cast<int>(std::clamp<int64_t>(spec.target_tokens / kTokensPerLine, 2, kMaxLines));
  if (kind->make != nullptr) {
    draft.facts = kind->make(
        random, {.depth = draft.depth, .max_lines = room, .single = spec.single, .new_wording = spec.new_wording});
    draft.depths = draw_depths(random, draft.facts, kind->one_fact, draft.depth);
  }
  SentenceTape tape(spec.haystack ? spec.haystack : prose_haystack(random.next()), count_tokens);

  const int64_t budget = spec.target_tokens - spec.template_tokens;
  int64_t other_tokens = kind->make == nullptr ? kQuoteTokens : kAnswerSlack;  // refined by the exact counts below
  for (const std::string& line : draft.facts.lines) other_tokens += count_tokens(" " + line);
  other_tokens += count_tokens(draft.facts.question) + count_tokens(draft.facts.answer);
  std::optional<Task> best;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const size_t count = tape.fitting(budget - other_tokens);
    if (count == 0) break;
    EI_ASSIGN_OR_RETURN(Task task, assemble(draft, tape, count, count_tokens));
    const int64_t used = task.prompt_tokens + task.max_new_tokens;
    const bool fits = used <= budget;
    if (fits && (!best || best->prompt_tokens < task.prompt_tokens)) best = std::move(task);
    // What sentences counted one by one missed or counted twice: next time the sum is right.
    const int64_t correction = used - (tape.tokens_before(count) + other_tokens);
    if (fits && (correction >= 0 || tape.ended())) break;
    other_tokens += correction;
  }
  if (!best)
    return make_error(
        ErrorKind::kUsage,
        "a task of kind '%s' does not fit in %lld tokens (its facts, question and answer need about %lld); "
        "raise the target",
        spec.kind.c_str(), static_cast<long long>(spec.target_tokens), static_cast<long long>(other_tokens));
  if (tape.ended() && best->prompt_tokens < budget * 3 / 4)
    return make_error(ErrorKind::kUsage, "the text is too short: %lld of %lld tokens; supply a longer one",
                      static_cast<long long>(best->prompt_tokens), static_cast<long long>(spec.target_tokens));
  return *std::move(best);
}

double score(const Task& task, std::string_view prediction) {
  return strip(prediction) == strip(task.answer) ? 1.0 : 0.0;
}

double contains_score(const Task& task, std::string_view prediction) {
  return found_share(task.gold_strings, prediction);
}

}  // namespace ei::eval
