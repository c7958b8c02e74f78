#include "server/api/responder.h"

#include <gtest/gtest.h>

#include "support/waiting_reply.h"

namespace ei::server {
namespace {

// Tells how many tokens' probabilities there were at the end.
class CountingFormat : public Format {
 public:
  explicit CountingFormat(size_t& kept) : kept_(kept) {}
  Json whole(const std::vector<Choice>& choices) override {
    kept_ = choices.front().probabilities.size();
    return Json::object();
  }
  std::string piece(const Choice&, const TaskToken& token) override { return token.own ? "scored" : ""; }
  std::string ending(const Choice& choice) override {
    kept_ = choice.probabilities.size();
    return {};
  }

 private:
  size_t& kept_;
};

TEST(Responder, KeepsTheProbabilitiesOfAnAnswerOnlyWhereItIsNotStreamed) {
  for (const bool stream : {false, true}) {
    size_t kept = 1000;
    Params params;
    params.stream = stream;
    const auto reply = std::make_shared<WaitingReply>();
    const auto responder = std::make_shared<Responder>(reply, std::make_unique<CountingFormat>(kept), params, Headers{},
                                                       std::make_shared<CancelToken>());
    responder->add_choice();
    const std::shared_ptr<TaskSink> sink = responder->sink_of(0);
    for (int32_t i = 0; i < 5; ++i)
      sink->token({.token = i, .text = "a", .own = TokenProbability{.token = i}, .top = {{.token = i}}}, {});
    sink->finished("", {});
    EXPECT_EQ(kept, stream ? 0u : 5u);
  }
}

TEST(Responder, TellsOfATimeThatIsOverByAStatusOfItsOwn) {
  const auto reply = std::make_shared<WaitingReply>();
  size_t kept = 0;
  const auto responder = std::make_shared<Responder>(reply, std::make_unique<CountingFormat>(kept), Params{}, Headers{},
                                                     std::make_shared<CancelToken>());
  responder->add_choice();
  responder->sink_of(0)->late();
  EXPECT_EQ(reply->wait().status, 504);
}

TEST(Responder, LeavesLongAnswersToAnotherThreadAndShortOnesNot) {
  for (const size_t likely : {size_t{1}, size_t{100000}}) {
    std::function<void()> left;
    bool takes = true;
    const auto elsewhere = [&](std::function<void()> job) {
      if (takes) left = std::move(job);
      return takes;
    };
    for (const bool taken : {true, false}) {
      takes = taken;
      left = nullptr;
      size_t kept = 0;
      const auto reply = std::make_shared<WaitingReply>();
      const auto responder = std::make_shared<Responder>(reply, std::make_unique<CountingFormat>(kept), Params{},
                                                         Headers{}, std::make_shared<CancelToken>(), elsewhere);
      responder->add_choice();
      const std::shared_ptr<TaskSink> sink = responder->sink_of(0);
      sink->token({.token = 1, .text = "a", .own = TokenProbability{}, .top = std::vector<TokenProbability>(likely)},
                  {});
      sink->finished("", {});
      const bool waits = taken && likely > 1;
      EXPECT_EQ(kept, waits ? 0u : 1u);
      EXPECT_EQ(left != nullptr, waits);
      if (left) left();
      EXPECT_EQ(reply->wait().status, 200);
      EXPECT_EQ(kept, 1u);
    }
  }
}

}  // namespace
}  // namespace ei::server
