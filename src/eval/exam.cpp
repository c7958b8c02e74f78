#include "eval/exam.h"

#include <algorithm>
#include <utility>

#include "eval/facts_draw.h"
#include "eval/layout.h"
#include "eval/quote.h"
#include "eval/task_kind.h"

namespace ei::eval {
namespace {

using Tokens = std::vector<text::Token>;

constexpr int kMaxLines = 24;
constexpr int64_t kLeastProse = 64;  // tokens

// One question, and the lines it needs in the text.
struct Part {
  const TaskKind* kind = nullptr;
  Facts facts;
  double depth = 0;
  std::vector<Tokens> lines;
};

struct Placed {  // a line and its place
  double depth = 0;
  size_t part = 0;
  size_t line = 0;
};

void append(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

int64_t size(const Tokens& tokens) { return static_cast<int64_t>(tokens.size()); }

class Writer {
 public:
  Writer(const ExamSpec& spec, const text::Tokenizer& tokenizer, const ChatFrame& frame)
      : spec_(spec), tokenizer_(tokenizer), frame_(frame), random_(spec.seed) {}

  Result<Exam> write() {
    for (const std::string& name : spec_.kinds) EI_RETURN_IF_ERROR(draw(name));
    SentenceTape tape(spec_.haystack ? spec_.haystack : prose_haystack(random_.next()),
                      [&](std::string_view text) { return count_tokens(text); });
    // Quotes are sentences of the text, so first those that surely fit are known, then the questions, then the rest.
    EI_RETURN_IF_ERROR(quote(tape));
    shuffle(random_, parts_);
    EI_ASSIGN_OR_RETURN(const Tokens tail, questions());
    const int64_t room = spec_.length - size(frame_.head) - size(tail) - planted();
    if (room < kLeastProse) return no_room();
    EI_RETURN_IF_ERROR(fill(tape, room));
    for (ExamItem& item : exam_.items) {
      item.begin += size(exam_.tokens);
      item.end += size(exam_.tokens);
    }
    append(exam_.tokens, tail);
    return std::move(exam_);
  }

 private:
  int64_t count_tokens(std::string_view text) const {
    const auto tokens = tokenizer_.tokenize(text, {});
    return tokens.ok() ? size(*tokens) : 0;
  }

  Error no_room() const {
    return make_error(ErrorKind::kUsage, "%zu questions with their facts do not fit in %lld tokens; raise the length",
                      spec_.kinds.size(), static_cast<long long>(spec_.length));
  }

  Status draw(const std::string& name) {
    EI_ASSIGN_OR_RETURN(const TaskKind* kind, find_task_kind(name));
    Part part{.kind = kind, .facts = {}, .depth = random_.uniform(), .lines = {}};
    if (kind->make != nullptr) {
      const FactsRequest request{.depth = part.depth, .max_lines = kMaxLines, .few = true, .new_wording = true};
      part.facts = kind->make(random_, request);
      for (const std::string& line : part.facts.lines) {
        EI_ASSIGN_OR_RETURN(Tokens tokens, tokenizer_.tokenize(" " + line, {}));
        part.lines.push_back(std::move(tokens));
      }
    }
    parts_.push_back(std::move(part));
    return {};
  }

  int64_t planted() const {
    int64_t tokens = 0;
    for (const Part& part : parts_)
      for (const Tokens& line : part.lines) tokens += size(line);
    return tokens;
  }

  Status quote(SentenceTape& tape) {
    int64_t other = size(frame_.head) + planted();
    for (const Part& part : parts_) {
      other += count_tokens(part.facts.question) + count_tokens(part.facts.answer) + size(frame_.answer) +
               size(frame_.next) + (part.kind->make == nullptr ? kQuoteTokens : 0);
    }
    const size_t count = tape.fitting(spec_.length - other);
    if (count == 0) return no_room();
    std::string text;
    for (size_t i = 0; i < count; ++i) text += tape.sentence(i);
    for (Part& part : parts_) {
      if (part.kind->make != nullptr) continue;
      EI_ASSIGN_OR_RETURN(Quote found, find_quote(tape, count, text, part.depth,
                                                  [&](std::string_view part_text) { return count_tokens(part_text); }));
      part.facts = std::move(found.facts);
    }
    return {};
  }

  // The questions with their answers; items get positions from the start of these.
  Result<Tokens> questions() {
    Tokens tail;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Facts& facts = parts_[i].facts;
      EI_ASSIGN_OR_RETURN(const Tokens question, tokenizer_.tokenize((i == 0 ? "\n\n" : "") + facts.question, {}));
      EI_ASSIGN_OR_RETURN(const Tokens answer, tokenizer_.tokenize(facts.answer, {}));
      append(tail, question);
      append(tail, frame_.answer);
      const int64_t begin = size(tail);
      append(tail, answer);
      exam_.items.push_back({.kind = std::string(parts_[i].kind->name),
                             .question = facts.question,
                             .answer = facts.answer,
                             .begin = begin,
                             .end = size(tail) + 1,
                             .depth = parts_[i].kind->make == nullptr ? parts_[i].depth : 0});
      append(tail, i + 1 < parts_.size() ? frame_.next : frame_.end);
    }
    return tail;
  }

  std::vector<Placed> places() {
    std::vector<Placed> all;
    for (size_t part = 0; part < parts_.size(); ++part) {
      const Facts& facts = parts_[part].facts;
      if (parts_[part].lines.empty()) continue;
      const std::vector<double> depths = draw_depths(random_, facts, parts_[part].kind->one_fact, parts_[part].depth);
      for (size_t line = 0; line < depths.size(); ++line) all.push_back({depths[line], part, line});
    }
    // Stable: the lines of one part keep their order.
    std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) { return a.depth < b.depth; });
    return all;
  }

  // Exactly `room` tokens of prose, the last sentence cut where they end, with the lines between the sentences.
  Status fill(SentenceTape& tape, int64_t room) {
    const size_t whole = tape.fitting(room);
    if (tape.ended() && tape.tokens_before(whole) < room) {
      return make_error(ErrorKind::kUsage, "the text is too short: %lld of %lld tokens; supply a longer one",
                        static_cast<long long>(tape.tokens_before(whole)), static_cast<long long>(room));
    }
    append(exam_.tokens, frame_.head);
    const std::vector<Placed> lines = places();
    size_t next = 0;
    for (size_t sentence = 0; sentence <= whole; ++sentence) {
      const int64_t before = tape.tokens_before(sentence);
      for (; next < lines.size() && lines[next].depth * static_cast<double>(room) <= static_cast<double>(before);
           ++next)
        place(lines[next]);
      if (before == room) break;
      EI_ASSIGN_OR_RETURN(Tokens tokens, tokenizer_.tokenize(tape.sentence(sentence), {}));
      tokens.resize(static_cast<size_t>(std::min(size(tokens), room - before)));
      for (const text::Token token : tokens) {
        exam_.prose.push_back(size(exam_.tokens));
        exam_.tokens.push_back(token);
      }
    }
    for (; next < lines.size(); ++next) place(lines[next]);
    return {};
  }

  void place(const Placed& at) {
    const Part& part = parts_[at.part];
    if (!part.facts.gold.empty() && part.facts.gold[0] == at.line)
      exam_.items[at.part].depth = static_cast<double>(exam_.tokens.size()) / static_cast<double>(spec_.length);
    append(exam_.tokens, part.lines[at.line]);
  }

  const ExamSpec& spec_;
  const text::Tokenizer& tokenizer_;
  const ChatFrame& frame_;
  Random random_;
  std::vector<Part> parts_;
  Exam exam_;
};

Result<Tokens> control_tokens(const text::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.tokenize(text, {.add_bos_eos = false, .parse_special = true});
}

}  // namespace

Result<ChatFrame> make_chat_frame(const text::Tokenizer& tokenizer, const std::optional<text::ChatTemplate>& chat) {
  // What a template writes around messages is what stands around these words.
  const std::string words[] = {"Ibiquestio", "Ibiresponsum", "Tumquestio", "Tumresponsum"};
  std::string text = words[0] + "\n" + words[1] + "\n\n" + words[2] + "\n" + words[3] + "\n\n";
  if (chat) {
    const std::vector<text::Message> messages = {
        {"user", words[0]}, {"assistant", words[1]}, {"user", words[2]}, {"assistant", words[3]}};
    EI_ASSIGN_OR_RETURN(text, chat->render(messages, /*add_generation_prompt=*/false));
  }
  std::vector<std::string> between;
  size_t from = 0;
  for (const std::string& word : words) {
    const size_t at = text.find(word, from);
    if (at == std::string::npos)
      return Error{ErrorKind::kUsage, "the chat template does not repeat what was said; use another one"};
    between.push_back(text.substr(from, at - from));
    from = at + word.size();
  }
  ChatFrame frame;
  EI_ASSIGN_OR_RETURN(frame.head, control_tokens(tokenizer, between[0]));
  EI_ASSIGN_OR_RETURN(frame.answer, control_tokens(tokenizer, between[1]));
  EI_ASSIGN_OR_RETURN(frame.next, control_tokens(tokenizer, between[2]));
  EI_ASSIGN_OR_RETURN(frame.end, control_tokens(tokenizer, text.substr(from)));
  const bool begins = !frame.head.empty() && frame.head[0] == tokenizer.bos();
  if (tokenizer.adds_bos() && tokenizer.bos() != text::kNoToken && !begins)
    frame.head.insert(frame.head.begin(), tokenizer.bos());
  if (frame.end.empty() || frame.next.empty())
    return Error{ErrorKind::kUsage, "the chat template does not end an answer; use another one"};
  return frame;
}

Result<Exam> make_exam(const ExamSpec& spec, const text::Tokenizer& tokenizer, const ChatFrame& frame) {
  if (spec.kinds.empty()) return Error{ErrorKind::kUsage, "an exam needs at least one kind of question"};
  return Writer(spec, tokenizer, frame).write();
}

}  // namespace ei::eval
