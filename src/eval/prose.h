// Endless seeded English prose: a chronicle of villages, told in chapters, to hide facts in. Our own words; the same
// text on every machine for the same seed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace ei::eval {

class Prose {
 public:
  explicit Prose(uint64_t seed);

  // The next sentence with the white space that stands before it (" " or a paragraph break; nothing at the start).
  std::string piece();
  // The next sentence alone.
  std::string sentence();
  // From the next sentence to the end of its paragraph.
  std::string paragraph();

 private:
  struct Person {
    std::string first;
    std::string full;
    std::string trade;
    bool woman = false;
  };
  // Options of one rule, dealt like cards: none comes twice before all have come once.
  struct Deck {
    std::vector<std::string_view> options;
    size_t next = 0;
  };

  std::string_view deal(Deck& deck);
  std::string_view deal(std::string_view rule);
  std::string expand(std::string_view text);
  std::string fill(std::string_view slot);
  std::string mention(const Person& person);
  Person new_person();
  void start_chapter();
  void start_paragraph();
  std::string fresh_sentence();

  Random random_;
  std::map<std::string_view, Deck> rules_;
  Deck scenes_;                       // names of the scene rules other than talk
  std::vector<Person> cast_;          // the people of this chapter
  std::array<size_t, 2> on_stage_{};  // {A} and {B}, indices into cast_
  std::string place_;
  std::string_view scene_;
  int64_t sentences_left_ = 0;   // of this paragraph
  int64_t paragraphs_left_ = 0;  // of this chapter
  bool title_next_ = false;      // the next paragraph is a chapter's title
  bool begun_ = false;
  std::deque<std::string> recent_;  // sentences that may not come again yet
};

}  // namespace ei::eval
