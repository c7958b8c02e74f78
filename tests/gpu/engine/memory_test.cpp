// What a request is said to need before it is read, beside what it then takes of the GPU's memory. Needs the GPU to
// itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "gpu/engine/sides.h"
#include "support/embedded_engine.h"

namespace ei::testing {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

// The least memory that was free while it lived, asked for all the time: inside chunks, too.
class LeastFree {
 public:
  explicit LeastFree(const Backend& backend)
      : backend_(backend), least_(backend.free_memory()), watch_([this] {
          while (!ended_) {
            look();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        }) {}
  ~LeastFree() { end(); }
  int64_t end() {
    ended_ = true;
    if (watch_.joinable()) watch_.join();
    look();
    return least_;
  }

 private:
  void look() { least_ = std::min(least_, backend_.free_memory()); }

  const Backend& backend_;
  std::atomic<bool> ended_ = false;
  int64_t least_;  // of the watching thread, until that has ended
  std::thread watch_;
};

// All of the GPU's memory but `left` bytes.
class Ballast {
 public:
  Ballast(const Backend& backend, int64_t left) {
    for (int64_t piece = int64_t{32} << 30; piece >= 2 * kMebibyte;) {
      if (backend.free_memory() - piece < left) {
        piece /= 2;
      } else if (Result<Buffer> taken = backend.allocate(static_cast<size_t>(piece)); taken.ok()) {
        held_.push_back(std::move(taken).value());
      } else {
        piece /= 2;
      }
    }
  }

 private:
  std::vector<Buffer> held_;
};

// Of the refusal that a prompt meets where there is no memory; negative where it met none.
int64_t said_need(Session& session, const std::vector<int32_t>& tokens) {
  const Ballast ballast(session.engine().backend(), 24 * kMebibyte);
  const Status refused = session.begin_prompt(tokens);
  if (refused.ok()) return -1;
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory) << refused.error().message;
  long long mebibytes = -1;
  EXPECT_EQ(std::sscanf(refused.error().message.c_str(), "%*d tokens need %lld MiB", &mebibytes), 1)
      << refused.error().message;
  return mebibytes * kMebibyte;
}

struct Request {
  const char* name;
  const char* method;
  std::optional<DType> cache;
};

TEST(CudaMemory, IsSaidBeforeItIsTaken) {
  EI_NEEDS_GPU();
  EngineOptions loading;
  loading.backend = "cuda";
  const auto engine = load_embedded(loading);
  ASSERT_NE(engine, nullptr);
  const std::vector<int32_t> tokens = ei::random_tokens(120000, 5);
  for (const Request& request :
       {Request{"dense", "full", std::nullopt}, Request{"sparse", "entropyinfer", std::nullopt},
        Request{"dense, fp8", "full", DType::kF8}, Request{"sparse, fp8", "entropyinfer", DType::kF8}}) {
    SCOPED_TRACE(request.name);
    SessionOptions options;
    options.method = request.method;
    options.key_type = options.value_type = request.cache;
    // Once before: kernels are loaded when they are first asked for, and take memory, too.
    ASSERT_TRUE(open_session(*engine, options)->prefill(tokens).ok());
    const auto session = open_session(*engine, options);
    const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMebibyte); };
    const PromptNeed need = session->prompt_need(static_cast<int64_t>(tokens.size()));
    std::printf(
        "%s: said %.1f MiB: cache %.1f, activations %.1f, layer %.1f, stream %.1f, planner %.1f, compressor %.1f\n",
        request.name, mebibytes(need.total()), mebibytes(need.cache), mebibytes(need.activations),
        mebibytes(need.layer), mebibytes(need.stream), mebibytes(need.planner), mebibytes(need.compressor));
    EXPECT_EQ(said_need(*session, tokens), need.total() / kMebibyte * kMebibyte);
    const int64_t before = engine->backend().free_memory();
    LeastFree watched(engine->backend());
    int64_t between = before;
    const Status read = session->prefill(tokens, [&](const PrefillProgress& progress) {
      const int64_t free = engine->backend().free_memory();
      if (free < between)
        std::printf("  %lld tokens: %.1f MiB taken, %.1f of them slabs, %.1f the planner's\n",
                    static_cast<long long>(progress.done), mebibytes(before - free),
                    mebibytes(session->store().pool_usage().slab_bytes),
                    mebibytes(session->planner() != nullptr ? session->planner()->held_bytes() : 0));
      between = std::min(between, free);
    });
    const int64_t taken = before - watched.end();
    ASSERT_TRUE(read.ok()) << read.error().message;
    std::printf("%s: taken %.1f MiB, between chunks %.1f; %.1f of them cache in slabs of %.1f\n", request.name,
                mebibytes(taken), mebibytes(before - between), mebibytes(session->store().bytes()),
                mebibytes(session->store().pool_usage().slab_bytes));
    EXPECT_LE(taken, need.total());
    EXPECT_LE(need.total(), 2 * taken);
  }
}

}  // namespace
}  // namespace ei::testing
