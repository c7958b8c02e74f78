#include "text/grammar_check.h"

#include <algorithm>
#include <optional>

#include "text/grammar_rules.h"

namespace ei::text {
namespace {

constexpr size_t kMaxGrammarBytes = size_t{1} << 20;
constexpr int kMaxGrammarDepth = 128;
constexpr size_t kMaxRules = 20000;
constexpr uint64_t kMaxRepeat = 2000;  // libllama's own limit
constexpr uint64_t kNoLimit = UINT64_MAX;
constexpr uint64_t kMaxElements = 1000000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || is_digit(c); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Recursive descent over the text; the first problem stops it and is kept in error_.
class Reader {
 public:
  Reader(std::string_view text, const Tokenizer& tokenizer) : text_(text), tokenizer_(tokenizer) {}

  Status read() {
    skip_space(/*newlines=*/true);
    while (!error_ && at_ < text_.size()) read_rule();
    if (error_) return *error_;
    if (grammar_.rules.empty() || !grammar_.names.contains("root")) {
      return make_error(ErrorKind::kUsage, "grammar: there is no rule named 'root'");
    }
    return judge_rules(grammar_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool is_end() const { return at_ >= text_.size(); }

  void fail(const char* what) {
    if (error_) return;
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    error_ = make_error(ErrorKind::kUsage, "grammar: %s at line %td, byte %zu", what, line, at_);
    at_ = text_.size();
  }

  void skip_space(bool newlines) {
    for (;; ++at_) {
      if (peek() == '#') {
        while (!is_end() && peek() != '\r' && peek() != '\n') ++at_;
      }
      const char c = peek();
      if (c != ' ' && c != '\t' && !(newlines && (c == '\r' || c == '\n'))) return;
    }
  }

  std::string_view read_name() {
    const size_t begin = at_;
    while (is_word(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  int add_rule() {
    grammar_.rules.emplace_back();
    ++symbols_;
    if (grammar_.rules.size() > kMaxRules) fail("more than 20000 rules and groups");
    return static_cast<int>(grammar_.rules.size() - 1);
  }

  int rule_named(std::string_view name) {
    const auto found = grammar_.names.find(name);
    if (found != grammar_.names.end()) return found->second;
    const int rule = add_rule();
    grammar_.names.emplace(name, rule);
    return rule;
  }

  void read_rule() {
    const std::string_view name = read_name();
    if (name.empty()) return fail("expected a rule name");
    const int rule = rule_named(name);
    skip_space(/*newlines=*/false);
    if (text_.substr(std::min(at_, text_.size()), 3) != "::=") return fail("expected '::='");
    at_ += 3;
    skip_space(/*newlines=*/true);
    read_alternatives(rule, /*depth=*/0);
    if (!is_end() && peek() != '\r' && peek() != '\n') return fail("expected the end of the rule");
    skip_space(/*newlines=*/true);
  }

  void read_alternatives(int rule, int depth) {
    std::vector<GrammarSequence> alternatives{read_sequence(depth)};
    while (peek() == '|') {
      ++at_;
      skip_space(/*newlines=*/true);
      alternatives.push_back(read_sequence(depth));
    }
    auto& target = grammar_.rules[static_cast<size_t>(rule)];
    target.alternatives = std::move(alternatives);
    target.defined = true;
  }

  GrammarSequence read_sequence(int depth) {
    GrammarSequence sequence;
    bool repeatable = false;     // an item stands right before
    uint64_t rules_in_item = 1;  // libllama bounds repetitions by the rules they copy
    while (!is_end()) {
      const char c = peek();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!repeatable)
          fail("nothing to repeat");
        else
          repeatable = read_repetition(sequence, rules_in_item);
      } else if (c == '(') {
        const uint64_t before = symbols_;
        sequence.push_back(read_group(depth));
        rules_in_item = std::max<uint64_t>(1, symbols_ - before);
        repeatable = true;
      } else if (c == '"' || c == '[' || c == '.' || c == '<' || c == '!' || is_word(c)) {
        const std::optional<GrammarItem> item = read_item();
        if (item) sequence.push_back(*item);
        repeatable = item.has_value();
        rules_in_item = 1;
      } else {
        break;
      }
      skip_space(/*newlines=*/depth > 0);
    }
    return sequence;
  }

  GrammarItem read_group(int depth) {
    if (depth + 1 > kMaxGrammarDepth) {
      fail("groups are nested deeper than 128");
      return {};
    }
    ++at_;
    skip_space(/*newlines=*/true);
    const int group = add_rule();
    read_alternatives(group, depth + 1);
    if (peek() != ')') fail("expected ')'");
    ++at_;
    add_elements(1);
    return {.rule = group};
  }

  std::optional<GrammarItem> read_item() {
    const char c = peek();
    if (is_word(c)) {
      add_elements(1);
      return GrammarItem{.rule = rule_named(read_name())};
    }
    if (c == '<' || c == '!') {
      read_token();
      return GrammarItem{};
    }
    ++at_;
    if (c == '.') return GrammarItem{};
    const char close = c == '"' ? '"' : ']';
    if (c == '[' && peek() == '^') ++at_;
    uint64_t characters = 0;
    while (!is_end() && peek() != close) {
      read_character();
      ++characters;
      if (c == '[' && peek() == '-' && peek(1) != ']') {
        ++at_;
        read_character();
        ++characters;
      }
    }
    if (is_end()) fail(c == '"' ? "a literal without its closing quote" : "a character class without its ']'");
    ++at_;
    add_elements(characters);
    if (characters == 0) return std::nullopt;
    return GrammarItem{.weight = characters};
  }

  void read_character() {
    if (peek() != '\\') {
      size_t length = 1;
      if (!is_end()) utf8_step(text_.substr(at_), &length);
      at_ += length;
      return;
    }
    const char escape = peek(1);
    const size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
    if (digits == 0 && (escape == '\0' || std::string_view("trn\\\"[]-").find(escape) == std::string_view::npos)) {
      return fail("unknown escape");
    }
    for (size_t i = 0; i < digits; ++i) {
      if (!is_hex(peek(2 + i))) return fail("too few hexadecimal digits");
    }
    at_ += 2 + digits;
  }

  // <[id]> or <text>, ! in front to exclude it.
  void read_token() {
    if (peek() == '!') ++at_;
    const size_t close = text_.find('>', std::min(at_, text_.size()));
    if (peek() != '<' || close == std::string_view::npos) return fail("expected a token: <[id]> or <text>");
    const std::string_view body = text_.substr(at_ + 1, close - at_ - 1);
    if (body.starts_with('[')) {
      const std::string_view id = body.substr(1, body.empty() ? 0 : body.size() - 2);
      const bool number = !id.empty() && id.size() <= 9 && std::all_of(id.begin(), id.end(), is_digit);
      if (!body.ends_with(']') || !number) return fail("a token id is not a number");
    } else {
      const auto tokens = tokenizer_.tokenize(text_.substr(at_, close + 1 - at_), {.parse_special = true});
      if (!tokens.ok() || tokens->size() != 1) return fail("the text in <> is not one token");
    }
    at_ = close + 1;
    add_elements(1);
  }

  // Reads * + ? {m} {m,} {m,n} onto the last item; false when the item is gone ({0}).
  bool read_repetition(GrammarSequence& sequence, uint64_t& rules_in_item) {
    const char c = peek();
    ++at_;
    uint64_t low = c == '+' ? 1 : 0;
    uint64_t high = c == '?' ? 1 : kNoLimit;
    if (c == '{') {
      skip_space(true);
      low = read_number();
      high = low;
      skip_space(true);
      if (peek() == ',') {
        ++at_;
        skip_space(true);
        high = is_digit(peek()) ? read_number() : kNoLimit;
        skip_space(true);
      }
      if (peek() != '}') fail("expected '}'");
      ++at_;
    }
    if (low > kMaxRepeat) fail("more than 2000 repetitions");
    if (high < low) fail("the upper bound of a repetition is below the lower");
    if (high > kMaxRepeat) high = kNoLimit;  // as libllama does
    if (error_) return false;

    const bool bounded = high != kNoLimit;
    const uint64_t copies = bounded && high > 0 ? high : std::max<uint64_t>(low, 1);
    rules_in_item *= copies;
    if (rules_in_item > kMaxRepeat) fail("a repetition copies more than 2000 rules");
    const uint64_t tails = bounded ? high - low : 1;
    symbols_ += tails;
    GrammarItem inner = sequence.back();
    add_elements(inner.weight * low + tails * (inner.weight + 3));
    sequence.pop_back();
    if (high == 0) return false;
    if (inner.unbounded || inner.optional || inner.count > 1) {
      const int wrapper = add_rule();  // a repetition of a repetition
      grammar_.rules[static_cast<size_t>(wrapper)] = {.alternatives = {{inner}}, .defined = true};
      inner.rule = wrapper;
    }
    sequence.push_back({.rule = inner.rule,
                        .count = copies,
                        .optional = low == 0,
                        .unbounded = !bounded,
                        .weight = inner.weight * low + (tails > 0 ? 1 : 0)});
    return true;
  }

  uint64_t read_number() {
    uint64_t value = 0;
    if (!is_digit(peek())) fail("expected a number");
    for (size_t digits = 0; is_digit(peek()); ++at_, ++digits) {
      if (digits == 18) fail("a repetition count is too large");
      value = value * 10 + static_cast<uint64_t>(peek() - '0');
    }
    return value;
  }

  void add_elements(uint64_t count) {
    elements_ += count;
    if (elements_ > kMaxElements) fail("repetitions expand to more than a million elements");
  }

  std::string_view text_;
  const Tokenizer& tokenizer_;
  size_t at_ = 0;
  std::optional<Error> error_;
  GrammarRules grammar_;
  uint64_t symbols_ = 0;
  uint64_t elements_ = 0;
};

}  // namespace

Status check_grammar(std::string_view grammar, const Tokenizer& tokenizer) {
  if (grammar.size() > kMaxGrammarBytes) {
    return make_error(ErrorKind::kUsage, "grammar: too long: %zu > %zu bytes", grammar.size(), kMaxGrammarBytes);
  }
  size_t bad_offset = 0;
  if (!valid_utf8(grammar, &bad_offset)) {
    return make_error(ErrorKind::kUsage, "grammar: not valid UTF-8 at byte %zu", bad_offset);
  }
  if (grammar.find('\0') != std::string_view::npos) {
    return make_error(ErrorKind::kUsage, "grammar: contains a zero byte");
  }
  return Reader(grammar, tokenizer).read();
}

}  // namespace ei::text
