#include "eval/items/texts.h"

#include <algorithm>

#include "eval/layout.h"
#include "eval/words.h"

namespace ei::eval {
namespace {

constexpr std::string_view kNoise =
    "The road is long. The river is wide. The clouds go by above the hills. We walk on and rest a while.";

int64_t counted(const ItemRequest& request, const ItemFrame& frame, const std::string& context) {
  return request.count_tokens(context) + request.count_tokens("\n\n" + frame.tail);
}

void sort_by_depth(std::vector<PlacedLine>& lines) {
  std::stable_sort(lines.begin(), lines.end(),
                   [](const PlacedLine& a, const PlacedLine& b) { return a.depth < b.depth; });
}

}  // namespace

Result<std::string> fill_with_noise(const ItemRequest& request, const ItemFrame& frame, std::vector<PlacedLine> lines) {
  sort_by_depth(lines);
  const auto text_of = [&](size_t repeats) {
    std::string text = frame.head;
    size_t next = 0;
    for (size_t i = 0; i <= repeats; ++i) {
      for (; next < lines.size() && lines[next].depth * static_cast<double>(repeats) <= static_cast<double>(i); ++next)
        text += lines[next].line + "\n";
      if (i < repeats) text.append(kNoise).append("\n");
    }
    return text;
  };
  EI_ASSIGN_OR_RETURN(const size_t repeats, most_units(request, text_room(request, frame.max_new, frame.turns),
                                                       [&](size_t n) { return counted(request, frame, text_of(n)); }));
  return text_of(repeats);
}

Result<std::string> fill_with_prose(const ItemRequest& request, const ItemFrame& frame, uint64_t seed,
                                    std::vector<PlacedLine> lines) {
  sort_by_depth(lines);
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const PlacedLine& line : lines) texts.push_back(line.line);
  SentenceTape tape(request.haystack ? request.haystack(seed) : prose_haystack(seed), request.count_tokens);
  const int64_t room = text_room(request, frame.max_new, frame.turns);
  tape.fitting(room);  // draws what can be needed
  const auto text_of = [&](size_t sentences) {
    std::vector<size_t> places;
    places.reserve(lines.size());
    for (const PlacedLine& line : lines) places.push_back(sentence_at(tape, sentences, line.depth));
    return frame.head + lay_out(tape, sentences, texts, places);
  };
  const size_t all = tape.fitting(room);
  EI_ASSIGN_OR_RETURN(const size_t sentences, most_units(request, room, [&](size_t n) {
                        if (n > all) return room + 1 + static_cast<int64_t>(n - all);
                        return counted(request, frame, text_of(n));
                      }));
  if (tape.ended() && tape.tokens_before(sentences) < room / 2)
    return make_error(ErrorKind::kUsage, "the text is too short: %lld of %lld tokens; supply a longer one",
                      static_cast<long long>(tape.tokens_before(sentences)), static_cast<long long>(room));
  return text_of(sentences);
}

Result<std::string> fill_with_lines(const ItemRequest& request, const ItemFrame& frame, const std::string& gold,
                                    const std::function<std::string(size_t index)>& line) {
  std::vector<std::string> others;
  const auto text_of = [&](size_t count) {
    while (others.size() < count) others.push_back(line(others.size()));
    const auto at = static_cast<size_t>(request.depth * static_cast<double>(count));
    std::string text = frame.head;
    for (size_t i = 0; i <= count; ++i) {
      if (i == at) text += gold + "\n";
      if (i < count) text += others[i] + "\n";
    }
    return text;
  };
  EI_ASSIGN_OR_RETURN(const size_t count, most_units(request, text_room(request, frame.max_new, frame.turns),
                                                     [&](size_t n) { return counted(request, frame, text_of(n)); }));
  return text_of(count);
}

std::string random_uuid(Random& random) {
  std::string text;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) text += '-';
    int64_t digit = random.below(16);
    if (i == 12) digit = 4;
    if (i == 16) digit = 8 + digit % 4;
    text += "0123456789abcdef"[digit];
  }
  return text;
}

std::string random_compound(Random& random) {
  const std::string first = random_word(random);
  return first + random_word(random);
}

}  // namespace ei::eval
