#include "eval/words.h"

#include "base/result.h"

namespace ei::eval {
namespace {

// Common words, each one token of the embedded model's vocabulary.
constexpr std::string_view kWords[] = {
    "ancient", "animal",  "army",    "band",    "bank",    "battle",   "beast",  "bell",    "bird",     "bitter",
    "black",   "blind",   "blue",    "boat",    "bold",    "book",     "bread",  "breath",  "bright",   "broad",
    "brother", "brown",   "calm",    "captain", "card",    "castle",   "chair",  "chamber", "child",    "church",
    "city",    "clear",   "cloud",   "coat",    "cold",    "corn",     "corner", "country", "cousin",   "cross",
    "crowd",   "crown",   "curious", "danger",  "dark",    "daughter", "dawn",   "deep",    "desert",   "distant",
    "doctor",  "door",    "double",  "dream",   "dress",   "dust",     "eager",  "early",   "earth",    "edge",
    "empty",   "enemy",   "evening", "fair",    "faith",   "family",   "father", "field",   "fine",     "fire",
    "flight",  "floor",   "flowers", "forest",  "fortune", "free",     "fresh",  "friend",  "game",     "garden",
    "gate",    "gentle",  "gift",    "glass",   "gold",    "golden",   "grand",  "grass",   "grave",    "great",
    "green",   "grey",    "guard",   "hall",    "happy",   "heart",    "heavy",  "hidden",  "high",     "hill",
    "history", "honest",  "honour",  "hope",    "horse",   "hotel",    "hour",   "house",   "human",    "iron",
    "island",  "journey", "judge",   "justice", "kind",    "king",     "knight", "land",    "language", "large",
    "learned", "letter",  "liberty", "light",   "line",    "little",   "lord",   "lost",    "loud",     "luck",
    "maid",    "mark",    "master",  "memory",  "merry",   "middle",   "mill",   "mind",    "mine",     "mist",
    "modern",  "money",   "moon",    "morning", "mother",  "mountain", "mouth",  "music",   "name",     "narrow",
    "native",  "nature",  "night",   "noble",   "noise",   "note",     "office", "open",    "order",    "palace",
    "pale",    "paper",   "path",    "peace",   "picture", "plain",    "pocket", "poet",    "poor",     "port",
    "power",   "pride",   "priest",  "prince",  "prison",  "proud",    "public", "pure",    "queen",    "quick",
    "quiet",   "rain",    "rapid",   "rare",    "ready",   "rich",     "ring",   "river",   "road",     "rock",
    "roof",    "room",    "rose",    "rough",   "round",   "royal",    "safe",   "sail",    "scene",    "school",
    "secret",  "servant", "shadow",  "shape",   "sharp",   "ship",     "shop",   "shore",   "short",    "silence",
    "silent",  "silver",  "simple",  "single",  "sister",  "sleep",    "slow",   "small",   "smile",    "smoke",
    "snow",    "soft",    "soldier", "song",    "soul",    "sound",    "space",  "spirit",  "splendid", "spring",
    "star",    "stone",   "storm",   "story",   "strange", "stream",   "street", "strong",  "study",    "summer",
    "sweet",   "swift",   "sword",   "table",   "tale",    "tall",     "tender", "thick",   "thin",     "tongue",
    "town",    "train",   "travel",  "tree",    "true",    "trust",    "uncle",  "unknown", "view",     "vast",
    "vessel",  "village", "virtue",  "voice",   "wall",    "warm",     "watch",  "water",   "wealth",   "white",
    "wide",    "wild",    "wind",    "window",  "wine",    "winter",   "wise",   "wonder",  "wood",     "world",
    "yellow",  "young",
};
constexpr std::string_view kPlaceHeads[] = {"Bra", "Ol",   "Tar", "Mel", "Dor", "Fen", "Kil",   "Lun", "Nor",
                                            "Pel", "Quin", "Ros", "Sal", "Tor", "Ul",  "Ver",   "Wes", "Yar",
                                            "Zan", "Har",  "Cas", "Bel", "Gar", "Hol", "Ister", "Jar"};
constexpr std::string_view kPlaceMiddles[] = {"a", "e", "i", "o", "u", "an", "en", "or", "il", "um", ""};
constexpr std::string_view kPlaceTails[] = {"ton",  "by",   "wick", "ford",  "mere", "dale", "ia",
                                            "os",   "burg", "ham",  "stead", "nach", "vale", "mouth",
                                            "gate", "ley",  "port", "heim",  "ano",  "etto"};
constexpr std::string_view kFirstNames[] = {"Ada",  "Bruno", "Clara", "Dimitri", "Edith", "Felix", "Greta", "Hugo",
                                            "Ines", "Jonas", "Karin", "Leo",     "Maud",  "Nils",  "Olga",  "Paul",
                                            "Rosa", "Simon", "Tessa", "Viktor",  "Anna",  "Oscar", "Helen", "Martin"};

std::string draw(Random& random, std::span<const std::string_view> options) {
  return std::string(pick(random, options));
}

}  // namespace

std::string random_digits(Random& random, int digits) {
  std::string text(1, static_cast<char>('1' + random.below(9)));
  for (int i = 1; i < digits; ++i) text += static_cast<char>('0' + random.below(10));
  return text;
}

std::string random_number(Random& random) { return random_digits(random, static_cast<int>(random.between(5, 7))); }

std::string random_hex(Random& random) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += "0123456789abcdef"[random.below(16)];
  return text;
}

std::string random_clock(Random& random) {
  const auto hour = static_cast<int>(random.below(24));
  return str_format("%d:%02d", hour, static_cast<int>(random.below(60)));
}

std::string random_word(Random& random) { return draw(random, kWords); }

std::string random_key(Random& random) {
  const std::string first = random_word(random);
  std::string second = random_word(random);
  while (second == first) second = random_word(random);
  return first + "-" + second;
}

std::string random_place(Random& random) {
  const std::string head = draw(random, kPlaceHeads);
  const std::string middle = draw(random, kPlaceMiddles);
  return head + middle + draw(random, kPlaceTails);
}

std::string random_person(Random& random) {
  const std::string first = draw(random, kFirstNames);
  return first + " " + random_place(random);
}

std::string random_variable(Random& random) {
  std::string text;
  for (int i = 0; i < 5; ++i) text += static_cast<char>('A' + random.below(26));
  return text;
}

}  // namespace ei::eval
