#include "eval/run/generation.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "eval/items/choices.h"
#include "eval/items/item_hash.h"
#include "eval/metrics.h"

namespace ei::eval {
namespace {

using Tokens = std::vector<text::Token>;

// What a method compresses with.
policy::KvOptions kv_of(const MethodSpec& method, bool question_aware) {
  policy::KvOptions kv = method.session.kv.value_or(policy::KvOptions{});
  // The question must not be seen: whoever waits for generated tokens would see it.
  if (!question_aware && kv.rule != policy::KvRule::kKeepAll) kv.gap = -1;
  return kv;
}

struct Generated {
  Tokens tokens;
  int64_t fed = 0;  // of the tokens, those that the cache holds
};

Result<Generated> generate_greedily(Session& session, int64_t most) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  Generated made;
  while (static_cast<int64_t>(made.tokens.size()) < most) {
    const text::Token token = top_token(session.logits());
    if (tokenizer.is_end_of_generation(token)) break;
    made.tokens.push_back(token);
    if (static_cast<int64_t>(made.tokens.size()) == most || session.position() >= session.context()) break;
    EI_RETURN_IF_ERROR(session.decode(token));
    ++made.fed;
  }
  return made;
}

// Which of the letters is the likeliest to come next.
Result<std::string> likeliest_letter(const Item& item, Session& session) {
  EI_ASSIGN_OR_RETURN(const Tokens tokens, choice_tokens(item, session.engine().tokenizer()));
  const auto logit = [&](text::Token token) { return session.logits()[static_cast<size_t>(token)]; };
  const auto best =
      std::max_element(tokens.begin(), tokens.end(), [&](text::Token a, text::Token b) { return logit(a) < logit(b); });
  return item.choices[static_cast<size_t>(best - tokens.begin())];
}

class ItemRun {
 public:
  ItemRun(const Engine& engine, const Item& item, const ItemPrompt& prompt, const AnswerOptions& options)
      : engine_(engine), item_(item), prompt_(prompt), options_(options), hash_(item_hash(item, prompt)) {}

  // Reads the prompt once, and answers with each of the methods, as many at the same time as the options say.
  Status answer(const std::vector<const MethodSpec*>& group, std::map<const MethodSpec*, ItemResult>& results) {
    EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> reader, read(group));
    std::vector<Result<ItemResult>> answers(group.size(), ItemResult{});
    std::mutex forking;  // the reader is one session
    std::atomic<size_t> next = 0;
    std::atomic<bool> failed = false;
    const auto work = [&] {
      for (size_t i = next++; i < group.size() && !failed; i = next++) {
        answers[i] = answer_forked(*reader, *group[i], forking);
        if (!answers[i].ok()) failed = true;
      }
    };
    {
      std::vector<std::jthread> others;
      const auto most = std::min<int64_t>(options_.parallel, static_cast<int64_t>(group.size()));
      for (int64_t thread = 1; thread < most; ++thread) others.emplace_back(work);
      work();
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (!answers[i].ok()) return answers[i].error();
      results[group[i]] = std::move(*answers[i]);
    }
    return {};
  }

 private:
  SessionOptions options_of(const MethodSpec& method) const {
    SessionOptions session = method.session;
    session.context = options_.context;
    session.cancel = options_.cancel;
    return session;
  }

  Result<ItemResult> answer_forked(const Session& reader, const MethodSpec& method, std::mutex& forking) const {
    SessionOptions session = options_of(method);
    session.kv = kv_of(method, options_.question_aware);
    std::unique_ptr<Session> fork;
    {
      const std::scoped_lock lock(forking);
      EI_ASSIGN_OR_RETURN(fork, reader.fork(session));
    }
    return answer_turns(method, *fork);
  }

  // Compresses nothing, but records the queries that any of the group will ask for.
  Result<std::unique_ptr<Session>> read(const std::vector<const MethodSpec*>& group) const {
    SessionOptions session = options_of(*group[0]);
    session.kv = policy::KvOptions{};
    for (const MethodSpec* method : group) {
      const policy::KvOptions kv = kv_of(*method, options_.question_aware);
      if (kv.rule == policy::KvRule::kKeepAll) continue;
      const bool first = session.kv->rule == policy::KvRule::kKeepAll;
      const int32_t window = first ? kv.window : std::max(kv.window, session.kv->window);
      session.kv = method->samples ? kv : policy::KvOptions{.rule = policy::KvRule::kLatent};
      session.kv->window = window;
      session.kv->keep_slots(int32_t{1} << 30);
    }
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Session> reader, engine_.new_session(session));
    Tokens text = prompt_.context;
    if (options_.question_aware) text.insert(text.end(), prompt_.turns[0].begin(), prompt_.turns[0].end());
    if (options_.on_progress) options_.on_progress(0);
    EI_RETURN_IF_ERROR(reader->prefill(text, [&](const PrefillProgress& state) {
      if (options_.on_progress) options_.on_progress(state.done);
    }));
    return reader;
  }

  Result<ItemResult> answer_turns(const MethodSpec& method, Session& session) const {
    ItemResult result{.item = item_.id(),
                      .task = item_.task,
                      .length = item_.length,
                      .index = item_.index,
                      .depth = item_.depth,
                      .method = method.label,
                      .item_hash = hash_,
                      .options = method.options,
                      .turn_scores = {},
                      .predictions = {},
                      .answers = item_.turns[0].gold.answers,
                      .likelihood = {},
                      .prompt_tokens = prompt_.tokens(),
                      .truncated = prompt_.truncated,
                      .acted = {}};
    Tokens unread;  // generated, but not in the cache yet
    for (size_t turn = 0; turn < item_.turns.size(); ++turn) {
      if (turn > 0 || !options_.question_aware) {
        unread.insert(unread.end(), prompt_.turns[turn].begin(), prompt_.turns[turn].end());
        EI_RETURN_IF_ERROR(session.prefill(unread));
      }
      const Gold& gold = item_.turns[turn].gold;
      if (!item_.choices.empty()) {
        EI_ASSIGN_OR_RETURN(const std::string letter, likeliest_letter(item_, session));
        result.likelihood = !gold.answers.empty() && letter == gold.answers[0] ? 1 : 0;
      }
      EI_ASSIGN_OR_RETURN(const Generated made, generate_greedily(session, item_.max_new));
      result.generated_tokens += static_cast<int64_t>(made.tokens.size());
      unread.assign(made.tokens.begin() + made.fed, made.tokens.end());
      result.predictions.push_back(item_.scored(engine_.tokenizer().detokenize(made.tokens, false)));
      result.turn_scores.push_back(score_of(*item_.metric, gold, result.predictions.back()));
      result.score += result.turn_scores.back() / static_cast<double>(item_.turns.size());
    }
    result.acted = session.acted();
    const SessionStats& stats = session.stats();
    result.density = stats.density();
    result.kv_bytes = session.store().bytes();
    result.kv_bytes_full = session.store().bytes_full();
    result.kv_bytes_peak = session.store().bytes_peak();
    result.kv_kept = static_cast<double>(session.store().tokens_kept()) /
                     static_cast<double>(std::max<int64_t>(session.store().tokens_total(), 1));
    result.compressions = stats.compressions;
    result.compressed_tokens = stats.compressed_tokens;
    result.prompt_s = stats.prompt_s;
    result.decode_s = stats.decode_s;
    result.compress_s = stats.compress_s;
    return result;
  }

  const Engine& engine_;
  const Item& item_;
  const ItemPrompt& prompt_;
  const AnswerOptions& options_;
  const std::string hash_;
};

using Groups = std::map<std::string, std::vector<const MethodSpec*>>;

Groups by_reading(std::span<const MethodSpec> methods) {
  Groups groups;
  for (const MethodSpec& method : methods) {
    std::string reading = method.reading;
    if (method.samples && method.session.kv)
      reading += method.session.kv->queries == policy::QuerySource::kAll
                     ? " adding up"
                     : str_format(" sampled %d", method.session.kv->samples);
    groups[reading].push_back(&method);
  }
  return groups;
}

}  // namespace

int64_t count_readings(std::span<const MethodSpec> methods) { return static_cast<int64_t>(by_reading(methods).size()); }

Result<std::vector<ItemResult>> answer_item(const Engine& engine, const Item& item, const ItemPrompt& prompt,
                                            std::span<const MethodSpec> methods, const AnswerOptions& options) {
  if (!options.question_aware && !item.has_question) {
    return make_error(ErrorKind::kUsage, "%s has its question inside the text: it cannot be asked behind a compression",
                      item.id().c_str());
  }
  std::map<const MethodSpec*, ItemResult> results;
  ItemRun run(engine, item, prompt, options);
  for (const auto& [reading, group] : by_reading(methods)) EI_RETURN_IF_ERROR(run.answer(group, results));
  std::vector<ItemResult> ordered;
  for (const MethodSpec& method : methods) ordered.push_back(std::move(results[&method]));
  return ordered;
}

}  // namespace ei::eval
