// Nothing above the backends follows a pointer into their memory, and the host waits once a chunk: what a device whose
// memory the host cannot read will ask for.
#include <gtest/gtest.h>

#include "support/embedded_engine.h"
#include "support/guarded_backend.h"
#include "support/temp_folder.h"

namespace ei {
namespace {

struct Guarded {
  explicit Guarded(const std::string& device) {
    EngineOptions options;
    options.make_backend = [this, device](const BackendOptions& given) -> Result<std::unique_ptr<Backend>> {
      EI_ASSIGN_OR_RETURN(auto inner, create_backend(device, given));
      return std::unique_ptr<Backend>(std::make_unique<GuardedBackend>(std::move(inner), guard));
    };
    engine = load_embedded(options);
  }
  std::shared_ptr<Guard> guard = std::make_shared<Guard>();
  std::unique_ptr<Engine> engine;
};

SessionOptions sparse_and_small() {
  SessionOptions options;
  options.batch = 256;
  options.method = "entropyinfer";
  options.prefill = policy::find_method("entropyinfer")->prefill;
  options.prefill->segment = 128;
  options.prefill->threshold = 256;
  options.prefill->base_budget = 64;
  options.kv = policy::find_method("entropyinfer")->kv;
  options.kv->keep_slots(256);
  options.kv->gap = 4;
  return options;
}

TEST(DeviceMemory, IsTouchedByTheBackendAlone) {
  const std::vector<int32_t> tokens = random_tokens(1200, 3);
  for (const char* device : {"cpu", "ggml"}) {
    SCOPED_TRACE(device);
    const Guarded guarded(device);
    EngineOptions plain;
    plain.backend = device;
    const std::unique_ptr<Engine> engine = load_embedded(plain);
    const std::unique_ptr<Session> inside = open_session(*guarded.engine, sparse_and_small());
    const std::unique_ptr<Session> outside = open_session(*engine, sparse_and_small());
    for (Session* session : {inside.get(), outside.get()}) {
      ASSERT_TRUE(session->prefill(tokens).ok());
      for (int i = 0; i < 12; ++i) ASSERT_TRUE(session->decode(likeliest(*session)).ok());
      EXPECT_GT(session->stats().compressions, 0);
      EXPECT_LT(session->stats().density(), 1);
      ASSERT_TRUE(session->truncate(session->rewind_point(1205)).ok());
      ASSERT_TRUE(session->prefill(std::span(tokens).first(50)).ok());
    }
    EXPECT_EQ(logits_of(*inside), logits_of(*outside));
  }
}

TEST(DeviceMemoryDeathTest, TheGuardBites) {
  const Guarded guarded("cpu");
  const auto memory = guarded.engine->backend().allocate(4096);
  ASSERT_TRUE(memory.ok());
  EXPECT_DEATH(*static_cast<volatile char*>(memory->data()) = 1, "");
}

TEST(DeviceMemory, SavedCachesGoThroughTheBackend) {
  const kv::TempFolder folder;
  const Guarded guarded("cpu");
  const std::unique_ptr<Session> session = open_session(*guarded.engine, {});
  ASSERT_TRUE(session->prefill(random_tokens(300, 4)).ok());
  const std::string path = folder.file("cache");
  ASSERT_TRUE(session->store().save(path, 7).ok());
  const auto loaded = kv::Store::load(path, 7, guarded.engine->backend());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->next_position(), 300);
}

TEST(DeviceMemory, TheHostWaitsOnceAChunkATokenAndACompression) {
  const Guarded guarded("cpu");
  const std::unique_ptr<Session> session = open_session(*guarded.engine, sparse_and_small());
  ASSERT_TRUE(session->prefill(random_tokens(1024, 5)).ok());
  EXPECT_EQ(guarded.guard->waits, 4);
  guarded.guard->waits = 0;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(session->decode(100 + i).ok());
  EXPECT_EQ(session->stats().compressions, 1);
  EXPECT_EQ(guarded.guard->waits, 8 + 1);
}

TEST(Loading, CanBeCancelled) {
  CancelToken cancel;
  cancel.cancel();
  EngineOptions options;
  options.model_path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
  options.cancel = &cancel;
  const auto engine = Engine::load(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::kInterrupted);
}

TEST(Saving, CanBeCancelledAndLeavesNothing) {
  const kv::TempFolder folder;
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  ASSERT_TRUE(session->prefill(random_tokens(300, 4)).ok());
  CancelToken cancel;
  cancel.cancel();
  const std::string path = folder.file("cache");
  const Status saved = session->store().save(path, 7, &cancel);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().kind, ErrorKind::kInterrupted);
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  ASSERT_TRUE(session->store().save(path, 7).ok());
  const auto loaded = kv::Store::load(path, 7, session->engine().backend(), &cancel);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace ei
