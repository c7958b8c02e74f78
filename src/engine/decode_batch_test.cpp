// Tokens of several sessions in one pass: each gets the logits that it gets alone, whoever else is there.
#include "engine/decode_batch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/embedded_engine.h"

namespace ei {
namespace {

struct BatchMember {
  int64_t prompt = 0;
  std::string method = "full";
};

std::vector<int32_t> batch_prompt(int64_t tokens) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<int32_t>(90 + (i * i * 17 + tokens * 7) % 3000));
  return prompt;
}

std::unique_ptr<Session> read_session(const BatchMember& wanted, const SessionOptions& base = {}) {
  SessionOptions options = base;
  options.method = wanted.method;
  if (const policy::Method* preset = policy::find_method(wanted.method); preset && wanted.method != "full") {
    options.kv = preset->kv;
    options.kv->keep_slots(128);
    options.kv->gap = 3;
  }
  auto made = embedded_engine().new_session(options);
  EXPECT_TRUE(made.ok()) << wanted.method << ": " << (made.ok() ? "" : made.error().message);
  EXPECT_TRUE((*made)->prefill(batch_prompt(wanted.prompt)).ok());
  return std::move(*made);
}

int32_t best_next(const Session& session) {
  const std::span<const float> logits = session.logits();
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<float> copied_logits(const Session& session) { return {session.logits().begin(), session.logits().end()}; }

// The logits behind each of `steps` greedy tokens.
std::vector<std::vector<float>> logits_alone(const BatchMember& wanted, size_t steps) {
  const auto session = read_session(wanted);
  std::vector<std::vector<float>> all;
  for (size_t i = 0; i < steps; ++i) {
    EXPECT_TRUE(session->decode(best_next(*session)).ok());
    all.push_back(copied_logits(*session));
  }
  return all;
}

const std::vector<BatchMember>& company() {
  static const std::vector<BatchMember> all = {{5},   {130}, {300, "snapkv"}, {1},          {260, "quest"},
                                               {129}, {17},  {700},           {400, "h2o"}, {200, "streaming"}};
  return all;
}

TEST(DecodeBatch, NeighboursChangeNoLogit) {
  constexpr size_t kSteps = 12;
  DecodeBatch batch(embedded_engine());
  std::vector<std::vector<std::vector<float>>> alone;
  for (const BatchMember& wanted : company()) alone.push_back(logits_alone(wanted, kSteps));
  for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, company().size()}) {
    std::vector<std::unique_ptr<Session>> sessions;
    for (size_t i = 0; i < count; ++i) sessions.push_back(read_session(company()[i]));
    std::vector<size_t> fed(count, 0);
    for (size_t step = 0; *std::min_element(fed.begin(), fed.end()) < kSteps; ++step) {
      std::vector<DecodeBatch::Feed> feeds;
      std::vector<size_t> who;
      for (size_t i = 0; i < count; ++i) {  // one or more stay out: who is there changes from pass to pass
        if (fed[i] == kSteps || (count > 2 && (step + i) % count == 0)) continue;
        who.push_back(i);
        feeds.push_back({.session = sessions[i].get(), .token = best_next(*sessions[i])});
      }
      batch.decode(feeds);
      for (size_t f = 0; f < who.size(); ++f) {
        const size_t i = who[f];
        ASSERT_TRUE(feeds[f].status.ok()) << feeds[f].status.error().message;
        EXPECT_TRUE(copied_logits(*sessions[i]) == alone[i][fed[i]])
            << "session " << i << " of " << count << ", token " << fed[i];
        ++fed[i];
      }
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t held = company()[i].prompt + static_cast<int64_t>(kSteps);
      EXPECT_EQ(sessions[i]->stats().generated_tokens, static_cast<int64_t>(kSteps));
      EXPECT_EQ(sessions[i]->position(), held);
      EXPECT_EQ(static_cast<int64_t>(sessions[i]->tokens().size()), held);
    }
  }
}

TEST(DecodeBatch, OneThatFailsFailsAlone) {
  DecodeBatch batch(embedded_engine());
  const auto expected = logits_alone({40}, 1);
  const auto good = read_session({40});
  SessionOptions small;
  small.context = 20;
  const auto full = read_session({20}, small);
  const auto wrong = read_session({9});
  std::vector<DecodeBatch::Feed> feeds = {{.session = full.get(), .token = 1},
                                          {.session = good.get(), .token = best_next(*good)},
                                          {.session = wrong.get(), .token = -3}};
  batch.decode(feeds);
  EXPECT_FALSE(feeds[0].status.ok());
  EXPECT_TRUE(feeds[1].status.ok());
  EXPECT_FALSE(feeds[2].status.ok());
  EXPECT_TRUE(copied_logits(*good) == expected[0]);
  EXPECT_EQ(full->position(), 20);
  EXPECT_EQ(wrong->position(), 9);
}

TEST(DecodeBatch, WhatFollowsIsCalledOnceTheLogitsAreThere) {
  DecodeBatch batch(embedded_engine());
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::vector<float>> seen(3);
  std::vector<DecodeBatch::Feed> feeds;
  for (size_t i = 0; i < seen.size(); ++i) {
    sessions.push_back(read_session({static_cast<int64_t>(10 + i)}));
    feeds.push_back(
        {.session = sessions[i].get(), .token = 7, .then = [&, i] { seen[i] = copied_logits(*sessions[i]); }});
  }
  batch.decode(feeds);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_FALSE(seen[i].empty());
    EXPECT_TRUE(seen[i] == copied_logits(*sessions[i]));
  }
}

}  // namespace
}  // namespace ei
