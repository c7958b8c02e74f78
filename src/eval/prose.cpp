#include "eval/prose.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "eval/prose_grammar.h"

namespace ei::eval {
namespace {

constexpr size_t kRecentSentences = 4096;  // more than 64k tokens
constexpr std::string_view kScenePrefix = "scene.";
constexpr std::string_view kTitle = "title";
constexpr std::string_view kTalk = "scene.talk";
constexpr std::string_view kBreak = "\n\n";

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t bar = text.find('|');
    parts.push_back(text.substr(0, bar));
    if (bar == std::string_view::npos) return parts;
    text.remove_prefix(bar + 1);
  }
}

// "the rain fell" -> "The rain fell"; skips an opening quotation mark.
void capitalise(std::string& sentence) {
  const size_t at = sentence.find_first_not_of('"');
  if (at != std::string::npos) sentence[at] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[at])));
}

std::string with_article(const std::string& noun) {
  const bool vowel = !noun.empty() && std::string_view("aeiou").find(noun[0]) != std::string_view::npos;
  const bool silent_h = noun.rfind("honest", 0) == 0;
  return (vowel || silent_h ? "an " : "a ") + noun;
}

}  // namespace

Prose::Prose(uint64_t seed) : random_(seed) {
  for (auto table : {prose_lexicon(), prose_clauses(), prose_scenes()}) {
    for (const ProseRule& rule : table) {
      rules_[rule.name] = {.options = split(rule.options)};
      if (rule.name.starts_with(kScenePrefix) && rule.name != kTalk) scenes_.options.push_back(rule.name);
    }
  }
  scenes_.next = scenes_.options.size();
  for (auto& [name, deck] : rules_) deck.next = deck.options.size();
  for (int i = 0; i < 5; ++i) cast_.push_back(new_person());
  start_chapter();
}

std::string Prose::piece() {
  std::string lead = begun_ ? " " : "";
  if (sentences_left_ == 0) {
    if (paragraphs_left_ == 0) start_chapter();
    start_paragraph();
    if (begun_) lead = kBreak;
  }
  begun_ = true;
  --sentences_left_;
  return lead + fresh_sentence();
}

std::string Prose::sentence() {
  std::string text = piece();
  return text.substr(text.find_first_not_of(" \n"));
}

std::string Prose::paragraph() {
  std::string text = sentence();
  while (sentences_left_ > 0) text += piece();
  return text;
}

std::string_view Prose::deal(std::string_view rule) {
  const auto found = rules_.find(rule);
  EI_CHECK(found != rules_.end());
  return deal(found->second);
}

std::string_view Prose::deal(Deck& deck) {
  if (deck.next == deck.options.size()) {
    for (size_t i = deck.options.size() - 1; i > 0; --i)
      std::swap(deck.options[i], deck.options[static_cast<size_t>(random_.below(static_cast<int64_t>(i) + 1))]);
    deck.next = 0;
  }
  return deck.options[deck.next++];
}

std::string Prose::expand(std::string_view text) {
  std::string out;
  while (true) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const size_t close = text.find('}', open);
    EI_CHECK(close != std::string_view::npos);
    out += fill(text.substr(open + 1, close - open - 1));
    text.remove_prefix(close + 1);
  }
}

std::string Prose::fill(std::string_view slot) {
  const Person& a = cast_[on_stage_[0]];
  const Person& b = cast_[on_stage_[1]];
  if (slot == "A") return mention(a);
  if (slot == "B") return mention(b);
  if (slot == "P") return place_;
  if (slot == "Q") slot = "town";
  if (slot == "he") return a.woman ? "she" : "he";
  if (slot == "his") return a.woman ? "her" : "his";
  if (slot.starts_with("a:")) return with_article(fill(slot.substr(2)));
  if (slot == "town") {
    const std::string_view town = deal(slot);
    return std::string(town == place_ ? deal(slot) : town);
  }
  return expand(deal(slot));
}

std::string Prose::mention(const Person& person) {
  const int64_t roll = random_.below(10);
  if (roll < 6) return person.first;
  return roll < 8 ? "the " + person.trade : person.full;
}

Prose::Person Prose::new_person() {
  Person person;
  person.woman = random_.below(2) == 0;
  person.first = deal(person.woman ? "woman_name" : "man_name");
  person.full = person.first + " " + std::string(deal("surname"));
  person.trade = deal(person.woman ? "woman_trade" : "man_trade");
  return person;
}

// Some of the people leave with every chapter and new ones come, so a character lives for a few chapters.
void Prose::start_chapter() {
  place_ = deal("town");
  title_next_ = true;
  paragraphs_left_ = random_.between(10, 18);
  for (int i = 0; i < 2; ++i)
    cast_[static_cast<size_t>(random_.below(static_cast<int64_t>(cast_.size())))] = new_person();
}

void Prose::start_paragraph() {
  --paragraphs_left_;
  const auto people = static_cast<int64_t>(cast_.size());
  on_stage_[0] = static_cast<size_t>(random_.below(people));
  on_stage_[1] = (on_stage_[0] + static_cast<size_t>(random_.between(1, people - 1))) % cast_.size();
  if (title_next_) {
    title_next_ = false;
    scene_ = kTitle;
    sentences_left_ = 1;
    return;
  }
  if (random_.below(4) == 0) {
    scene_ = kTalk;
    sentences_left_ = random_.between(2, 5);
    return;
  }
  scene_ = deal(scenes_);
  sentences_left_ = random_.between(4, 8);
}

std::string Prose::fresh_sentence() {
  std::string text;
  for (int attempt = 0; attempt < 8; ++attempt) {
    text = expand(deal(scene_));
    capitalise(text);
    if (std::find(recent_.begin(), recent_.end(), text) == recent_.end()) break;
  }
  recent_.push_back(text);
  if (recent_.size() > kRecentSentences) recent_.pop_front();
  return text;
}

}  // namespace ei::eval
