// Ctrl-C at any point, on a model of every family, with every method: while a prompt is read, between the layers of a
// generated token, between the layers of a compression. The session goes on as if nothing had been.
#include "parity/family_methods.h"
#include "support/guarded_backend.h"

namespace ei::testing {
namespace {

constexpr int32_t kRepeat = 32;  // tokens between two compressions: more than one has steps

// An engine whose streams say when a step has run, so that it can be cancelled between any two.
struct SteppedEngine {
  explicit SteppedEngine(std::string_view family) {
    const RandomModelFile file(family_spec(family));
    EngineOptions options;
    options.model_path = file.path();
    options.backend_options.threads = 1;
    options.make_backend = [this](const BackendOptions& given) -> Result<std::unique_ptr<Backend>> {
      EI_ASSIGN_OR_RETURN(auto inner, create_backend("cpu", given));
      return std::unique_ptr<Backend>(std::make_unique<GuardedBackend>(std::move(inner), guard));
    };
    auto loaded = Engine::load(options);
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
    engine = std::move(loaded).value();
    guard->on_step = [this] {
      if (++step == last) cancel.cancel();
    };
  }
  // Runs `work` until `most` steps have run, or to its end, and says how many have. 0: no limit.
  template <typename Work>
  int64_t steps_of(int64_t most, Work work) {
    step = 0;
    last = most;
    work();
    cancel.reset();
    last = 0;
    return step;
  }

  std::shared_ptr<Guard> guard = std::make_shared<Guard>();
  std::unique_ptr<Engine> engine;
  CancelToken cancel;
  int64_t step = 0;
  int64_t last = 0;
};

SteppedEngine& stepped_engine(std::string_view family) {
  static std::map<std::string_view, std::unique_ptr<SteppedEngine>> engines;
  std::unique_ptr<SteppedEngine>& engine = engines[family];
  if (engine == nullptr) engine = std::make_unique<SteppedEngine>(family);
  return *engine;
}

class InterruptedFamilies : public FamilyMethods {
 protected:
  SteppedEngine& stepped() const { return stepped_engine(GetParam()); }
  std::unique_ptr<Session> open_stepped(SessionOptions options) const {
    options.cancel = &stepped().cancel;
    return open(*stepped().engine, options);
  }

  // Interrupts the compression that comes with token `nth` behind the prompt, as `when` says, between each two of its
  // steps. What is kept and answered then is what a session keeps and answers whose compression comes that late.
  void interrupt_compression(SessionOptions options, int32_t policy::KvOptions::*when, int32_t nth) const {
    const auto begun = [&](int32_t at, int32_t tokens) {
      (*options.kv).*when = at;
      auto session = open_stepped(options);
      EXPECT_TRUE(session->prefill(prompt(9)).ok());
      feed(*session, tokens);
      return session;
    };
    const auto measured = begun(nth, nth - 1);
    const int64_t before = measured->stats().compressions;
    const int64_t all = stepped().steps_of(0, [&] { feed(*measured, 1, 20 + nth - 1); });
    ASSERT_EQ(measured->stats().compressions, before + 1);
    const int64_t fed = stepped().steps_of(0, [&] { feed(*measured, 1, 20 + nth); });
    ASSERT_GT(all, fed + 1) << "a compression of one step";

    int32_t tokens = nth - 1;
    const auto session = begun(nth, tokens);
    const int64_t evicted = session->store().evicted();
    for (int64_t stop = fed + 1; stop < all; ++stop) {
      stepped().steps_of(stop, [&] {
        const Status stopped = session->decode(20 + tokens++);
        ASSERT_FALSE(stopped.ok()) << "step " << stop << " of " << all;
        EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
      });
      ASSERT_EQ(session->position(), kPrompt + tokens) << "the token was fed";
      EXPECT_EQ(session->store().evicted(), evicted);
      EXPECT_EQ(session->stats().compressions, before);
    }
    feed(*session, 1, 20 + tokens++);
    EXPECT_EQ(session->stats().compressions, before + 1);

    const auto whole = begun(tokens, tokens);
    EXPECT_EQ(kept_positions(*session), kept_positions(*whole));
    feed(*session, 3, 90);
    feed(*whole, 3, 90);
    EXPECT_EQ(logits_of(*session), logits_of(*whole));
  }
};

TEST_P(InterruptedFamilies, BetweenChunksThePromptIsReadOn) {
  for_every_generation([&](SessionOptions options) {
    options.batch = 96;
    const auto whole = open(engine(), options);
    ASSERT_TRUE(whole->prefill(prompt(5)).ok());
    CancelToken cancel;
    options.cancel = &cancel;
    for (const int64_t stop : {int64_t{96}, int64_t{288}, kPrompt}) {
      const auto session = open(engine(), options);
      const std::vector<int32_t> tokens = prompt(5);
      const Status stopped = session->prefill(tokens, [&](const PrefillProgress& progress) {
        if (progress.done >= stop) cancel.cancel();
      });
      EXPECT_EQ(stopped.ok(), stop == kPrompt && options.kv->read > 0);
      cancel.reset();
      const auto read = static_cast<size_t>(session->position());
      if (read < tokens.size()) {
        ASSERT_TRUE(session->prefill(std::span(tokens).subspan(read)).ok());
        EXPECT_EQ(kept_positions(*session), kept_positions(*whole)) << "interrupted after " << read;
        EXPECT_EQ(logits_of(*session), logits_of(*whole));
      } else {  // while it compressed: the next token makes up for it
        EXPECT_TRUE(session->store().exact());
        ASSERT_TRUE(session->decode(5).ok());
        expect_acted(*session, options, 1);
      }
    }
  });
}

TEST_P(InterruptedFamilies, BetweenLayersOfAPromptItIsReadOn) {
  for_every_prefill([&](SessionOptions options) {
    options.batch = 128;
    const auto whole = open_stepped(options);
    const std::vector<int32_t> tokens = prompt(6);
    const int64_t steps = stepped().steps_of(0, [&] { ASSERT_TRUE(whole->prefill(tokens).ok()); });
    for (int64_t stop = 1; stop < steps; stop += 5) {
      const auto session = open_stepped(options);
      stepped().steps_of(stop, [&] { EXPECT_FALSE(session->prefill(tokens).ok()) << "step " << stop; });
      const auto read = static_cast<size_t>(session->position());
      ASSERT_LT(read, tokens.size());
      ASSERT_TRUE(session->prefill(std::span(tokens).subspan(read)).ok());
      EXPECT_EQ(logits_of(*session), logits_of(*whole)) << "step " << stop << " of " << steps;
    }
  });
}

// While queries are observed and added up, and while the cache is compressed behind the last of them.
TEST_P(InterruptedFamilies, BetweenLayersOfAPromptItIsReadOnAndKeepsTheSame) {
  for_every_kv([&](SessionOptions options) {
    options.batch = 128;
    const std::vector<int32_t> tokens = prompt(6);
    const auto whole = open_stepped(options);
    const int64_t steps = stepped().steps_of(0, [&] { ASSERT_TRUE(whole->prefill(tokens).ok()); });
    SessionOptions a_token_later = options;
    a_token_later.kv->gap = 1;
    const auto late = open_stepped(a_token_later);
    ASSERT_TRUE(late->prefill(tokens).ok());
    for (Session* one : {whole.get(), late.get()}) feed(*one, 3);
    for (int64_t stop = 1; stop < steps; stop += 3) {
      SCOPED_TRACE(::testing::Message() << "step " << stop << " of " << steps);
      const auto session = open_stepped(options);
      stepped().steps_of(stop, [&] { EXPECT_FALSE(session->prefill(tokens).ok()); });
      const auto read = static_cast<size_t>(session->position());
      if (read < tokens.size()) {
        ASSERT_TRUE(session->prefill(std::span(tokens).subspan(read)).ok());
      }
      feed(*session, 3);
      const Session& same = read < tokens.size() ? *whole : *late;  // the next token makes up for a compression
      EXPECT_EQ(session->stats().compressions, 1);
      EXPECT_EQ(kept_positions(*session), kept_positions(same));
      EXPECT_EQ(logits_of(*session), logits_of(same));
    }
  });
}

TEST_P(InterruptedFamilies, BetweenLayersOfATokenItIsFedAgain) {
  for_every_generation([&](SessionOptions options) {
    options.kv->repeat = 0;
    const auto whole = open_stepped(options);
    const auto session = open_stepped(options);
    for (Session* one : {whole.get(), session.get()}) ASSERT_TRUE(one->prefill(prompt(7)).ok());
    int64_t steps = 2;
    int32_t token = 20;
    for (int64_t stop = 1; stop < steps; ++stop, ++token) {
      steps = stepped().steps_of(0, [&] { ASSERT_TRUE(whole->decode(token).ok()); });
      const int64_t before = session->position();
      stepped().steps_of(stop, [&] { EXPECT_FALSE(session->decode(token).ok()) << "step " << stop; });
      ASSERT_EQ(session->position(), before);
      ASSERT_TRUE(session->decode(token).ok());
      EXPECT_EQ(logits_of(*session), logits_of(*whole)) << "step " << stop << " of " << steps;
    }
    EXPECT_GE(steps, engine().config().layers);
    EXPECT_EQ(kept_positions(*session), kept_positions(*whole));
  });
}

// The first compression, a token behind the prompt.
TEST_P(InterruptedFamilies, BetweenLayersOfACompressionNothingIsDroppedAndTheNextTokenMakesUpForIt) {
  for_every_kv([&](SessionOptions options) {
    options.kv->repeat = 0;
    interrupt_compression(options, &policy::KvOptions::gap, 1);
  });
}

// The second one, which goes by what the first has left: slots, sums over all queries, carried scores.
TEST_P(InterruptedFamilies, BetweenLayersOfASecondCompressionNothingIsDroppedAndTheNextTokenMakesUpForIt) {
  for_every_kv([&](SessionOptions options) {
    options.kv->carry = 0.5;
    interrupt_compression(options, &policy::KvOptions::repeat, kRepeat);
  });
}

INSTANTIATE_TEST_SUITE_P(All, InterruptedFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
