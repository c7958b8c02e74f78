// What a request is said to need before it is read, beside what it then takes of the GPU's memory. Needs the GPU to
// itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "gpu/engine/sides.h"
#include "support/embedded_engine.h"

namespace ei::testing {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
// The driver gives memory out in pieces of 2 MiB: what the rooms of a stream round up to, together.
constexpr int64_t kRoundedUp = 32 * kMebibyte;

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
    const int64_t need = said_need(*session, tokens);
    ASSERT_GT(need, 0);
    const int64_t before = engine->backend().free_memory();
    int64_t least = before;
    const Status read = session->prefill(
        tokens, [&](const PrefillProgress&) { least = std::min(least, engine->backend().free_memory()); });
    ASSERT_TRUE(read.ok()) << read.error().message;
    const int64_t taken = before - std::min(least, engine->backend().free_memory());
    std::printf("%s: %lld MiB said, %lld MiB taken, %lld of them cache\n", request.name,
                static_cast<long long>(need / kMebibyte), static_cast<long long>(taken / kMebibyte),
                static_cast<long long>(session->store().bytes() / kMebibyte));
    // Pages are cut from slabs of up to a quarter of the cache: the last one may be begun only.
    EXPECT_LE(taken, need + session->store().bytes() / 4 + kRoundedUp);
    EXPECT_LE(need, 2 * taken);
  }
}

}  // namespace
}  // namespace ei::testing
