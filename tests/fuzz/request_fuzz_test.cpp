// The bodies of corpus/fuzz_request, and what comes of putting parts of one into another: every route answers them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/random.h"
#include "request_walk.h"

namespace ei::fuzz {
namespace {

using server::Json;

#ifdef EI_SANITIZED
constexpr int kMixed = 150;
#else
constexpr int kMixed = 1000;
#endif

std::vector<std::string> corpus() {
  std::vector<std::string> bodies;
  for (const auto& file : std::filesystem::directory_iterator(EI_SOURCE_DIR "/tests/fuzz/corpus/fuzz_request")) {
    std::ifstream in(file.path(), std::ios::binary);
    bodies.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::sort(bodies.begin(), bodies.end());  // the same runs on every file system
  return bodies;
}

// All values of a body, so that each can take another's place.
void gather(Json& json, std::vector<Json*>& into) {
  into.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& inner : json) gather(inner, into);
}

class Mixer {
 public:
  Mixer(const std::vector<std::string>& bodies, uint64_t seed) : random_(seed) {
    for (const std::string& body : bodies) {
      Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
      if (!json.is_discarded()) whole_.push_back(std::move(json));
    }
  }

  std::string next() {
    Json body = pick(whole_);
    for (int64_t change = random_.between(1, 3); change > 0; --change) {
      std::vector<Json*> places;
      gather(body, places);
      Json& place = *places[static_cast<size_t>(random_.below(std::ssize(places)))];
      switch (random_.below(4)) {
        case 0: place = odd_value(); break;
        case 1:
          if (place.is_object()) place.update(pick(whole_));
          break;
        default: {
          Json other = pick(whole_);
          std::vector<Json*> values;
          gather(other, values);
          place = Json(*values[static_cast<size_t>(random_.below(std::ssize(values)))]);
        }
      }
    }
    std::string text = server::dump(body);
    if (random_.below(8) == 0)
      text[static_cast<size_t>(random_.below(std::ssize(text)))] = static_cast<char>(random_.below(256));
    return text;
  }

 private:
  const Json& pick(const std::vector<Json>& from) { return from[static_cast<size_t>(random_.below(std::ssize(from)))]; }
  Json odd_value() {
    const Json odd[] = {nullptr,
                        true,
                        -1,
                        0,
                        1e300,
                        int64_t{1} << 62,
                        "",
                        "\xC3\xA9\n",
                        Json::array(),
                        Json::object(),
                        Json::array({Json::array({nullptr})}),
                        "<tool_call>"};
    return odd[random_.below(std::ssize(odd))];
  }

  Random random_;
  std::vector<Json> whole_{};
};

class Requests : public testing::Test {
 protected:
  static RequestWalk& walk() {
    static RequestWalk shared(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf");
    return shared;
  }
};

TEST_F(Requests, OfTheCorpusAreAllAnswered) {
  ASSERT_EQ(walk().failure(), "");
  const std::vector<std::string> bodies = corpus();
  ASSERT_GT(bodies.size(), 20u);
  for (const std::string& body : bodies) EXPECT_EQ(walk().complaint(body), "") << body.substr(0, 500);
}

// The walk goes through tokens, grammars and samplers, although nobody waits for an answer.
TEST_F(Requests, ForTextsGetAsFarAsTheScheduler) {
  ASSERT_EQ(walk().failure(), "");
  const Json messages = {{{"role", "user"}, {"content", "a b c"}}};
  const Json body = {{"prompt", "a b c"}, {"input", "a b c"}, {"messages", messages}, {"max_tokens", 1}};
  const int64_t before = walk().submitted();
  EXPECT_EQ(walk().complaint(server::dump(body)), "");
  EXPECT_EQ(walk().submitted() - before, 3 + 4 * 5) << "three routes for prompts, five for chats in four styles";
}

TEST_F(Requests, MixedOutOfTheCorpusAreAllAnswered) {
  ASSERT_EQ(walk().failure(), "");
  Mixer mixer(corpus(), 24);
  const int64_t before = walk().taken();
  for (int i = 0; i < kMixed; ++i) {
    const std::string body = mixer.next();
    ASSERT_EQ(walk().complaint(body), "") << "number " << i << ": " << body.substr(0, 2000);
  }
  EXPECT_GT(walk().taken() - before, kMixed / 2) << "too much damage: little goes behind the fields";
}

}  // namespace
}  // namespace ei::fuzz
