// Sums of attention over a whole session, whatever it is taken through: what is kept is what a session keeps that has
// read the same text in one go.
#include <gtest/gtest.h>

#include "engine/prompt_cache.h"
#include "policy/registry.h"
#include "support/latent_sessions.h"
#include "support/temp_folder.h"

namespace ei {
namespace {

policy::KvOptions summed(int32_t budget) {
  policy::KvOptions kv = policy::find_kv_rule({"h2o"})->preset;
  kv.keep_slots(budget);
  return kv;
}

std::unique_ptr<Session> summing(int32_t budget, bool keep_whole = false, const CancelToken* cancel = nullptr) {
  SessionOptions options;
  options.kv = summed(budget);
  options.batch = 128;
  options.keep_whole = keep_whole;
  options.cancel = cancel;
  return open_session(one_thread_engine(), options);
}

std::vector<int32_t> positions_read(const Session& session) {
  std::vector<int32_t> all;
  for (int layer = 0; layer < session.reading().config().layers; ++layer) {
    const KvView view = session.reading().view(layer);
    for (const KvHeadView& head : view.heads)
      for (int64_t slot = 0; slot < head.length; ++slot) all.push_back(head.position(slot));
  }
  return all;
}

std::vector<int32_t> kept_of(const std::vector<int32_t>& tokens, int32_t budget) {
  const auto session = summing(budget);
  EXPECT_TRUE(session->prefill(tokens).ok());
  EXPECT_EQ(session->stats().compressions, 1);
  return positions_read(*session);
}

std::vector<int32_t> joined(std::vector<int32_t> text, std::span<const int32_t> more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

TEST(RunningSums, AreThoseOfTheTextBehindAView) {
  const std::vector<int32_t> text = random_tokens(300, 1);
  const auto session = summing(100, /*keep_whole=*/true);
  ASSERT_TRUE(session->prefill(text).ok());
  ASSERT_TRUE(session->has_view());
  feed_likeliest(*session, 90);
  const std::vector<int32_t> so_far(session->tokens().begin(), session->tokens().end());
  const std::vector<int32_t> question = random_tokens(40, 2);
  ASSERT_TRUE(session->prefill(question).ok());
  EXPECT_EQ(positions_read(*session), kept_of(joined(so_far, question), 100));
}

TEST(RunningSums, AreThoseOfTheTextBehindARewindAndAnInterruption) {
  const std::vector<int32_t> text = random_tokens(300, 3);
  CancelToken cancel;
  const auto session = summing(310, /*keep_whole=*/false, &cancel);
  ASSERT_TRUE(session->prefill(text).ok());
  feed_likeliest(*session, 5);
  EXPECT_EQ(session->rewind_point(280), 280);
  ASSERT_TRUE(session->truncate(280).ok());
  const auto refused = session->truncate(100);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("rewind to 0"), std::string::npos) << refused.error().message;
  const std::vector<int32_t> more = random_tokens(300, 4);
  ASSERT_FALSE(session
                   ->prefill(more,
                             [&](const PrefillProgress& progress) {
                               if (progress.done == 128) cancel.cancel();
                             })
                   .ok());
  cancel.reset();
  const int64_t end = session->position();
  EXPECT_GE(end, 280 + 128);
  ASSERT_TRUE(session->prefill(std::span(more).subspan(static_cast<size_t>(end - 280))).ok());
  EXPECT_EQ(positions_read(*session), kept_of(joined({text.begin(), text.begin() + 280}, more), 310));
}

TEST(RunningSums, AreForkedWithTheSession) {
  const std::vector<int32_t> text = random_tokens(300, 5);
  const auto session = summing(1000);
  ASSERT_TRUE(session->prefill(text).ok());
  SessionOptions options;
  options.kv = summed(100);
  const auto fork = session->fork(options);
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(positions_read(**fork), kept_of(text, 100));
}

// Of another method's cache nobody has added anything up.
TEST(RunningSums, AreReadAgainWhereASavedPromptHasNone) {
  const kv::TempFolder folder;
  const std::vector<int32_t> text = random_tokens(300, 6);
  const std::vector<int32_t> longer = joined(text, random_tokens(60, 7));
  for (const bool by_h2o : {true, false}) {
    SCOPED_TRACE(by_h2o);
    const auto writer = by_h2o ? summing(1000) : open_session(one_thread_engine(), {});
    ASSERT_TRUE(writer->prefill(text).ok());
    ASSERT_TRUE(save_prompt(*writer, folder.file("prompt")).ok());
    const auto session = summing(100);
    const auto found = load_prompt(*session, folder.file("prompt"), longer);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->kept, by_h2o ? 300 : 0);
    EXPECT_EQ(found->why.empty(), by_h2o) << found->why;
    ASSERT_TRUE(session->prefill(std::span(longer).subspan(static_cast<size_t>(found->kept))).ok());
    EXPECT_EQ(positions_read(*session), kept_of(longer, 100));
  }
}

}  // namespace
}  // namespace ei
