// Ctrl-C at any point, on a model of every family, with every method: while a prompt is read, between the layers of a
// generated token, between the layers of a compression. The session goes on as if nothing had been.
#include "parity/family_methods.h"
#include "support/guarded_backend.h"

namespace ei::testing {
namespace {

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

TEST_P(InterruptedFamilies, BetweenLayersOfACompressionNothingIsDroppedAndTheNextTokenMakesUpForIt) {
  for_every_kv([&](SessionOptions options) {
    options.kv->gap = 1;
    options.kv->repeat = 0;
    const auto measured = open_stepped(options);
    ASSERT_TRUE(measured->prefill(prompt(9)).ok());
    const int64_t all = stepped().steps_of(0, [&] { ASSERT_TRUE(measured->decode(20).ok()); });
    ASSERT_EQ(measured->stats().compressions, 1);
    const int64_t fed = stepped().steps_of(0, [&] { ASSERT_TRUE(measured->decode(21).ok()); });
    ASSERT_GT(all, fed + 1) << "a compression of one step";

    const auto session = open_stepped(options);
    ASSERT_TRUE(session->prefill(prompt(9)).ok());
    int32_t tokens = 0;
    for (int64_t stop = fed + 1; stop < all; ++stop) {
      stepped().steps_of(stop, [&] {
        const Status stopped = session->decode(20 + tokens++);
        ASSERT_FALSE(stopped.ok()) << "step " << stop << " of " << all;
        EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
      });
      ASSERT_EQ(session->position(), kPrompt + tokens) << "the token was fed";
      EXPECT_TRUE(session->store().exact());
      EXPECT_EQ(session->stats().compressions, 0);
    }
    ASSERT_TRUE(session->decode(20 + tokens++).ok());
    EXPECT_EQ(session->stats().compressions, 1);

    options.kv->gap = tokens;
    const auto whole = open_stepped(options);
    ASSERT_TRUE(whole->prefill(prompt(9)).ok());
    feed(*whole, tokens);
    EXPECT_EQ(kept_positions(*session), kept_positions(*whole));
    feed(*session, 3, 90);
    feed(*whole, 3, 90);
    EXPECT_EQ(logits_of(*session), logits_of(*whole));
  });
}

INSTANTIATE_TEST_SUITE_P(All, InterruptedFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
