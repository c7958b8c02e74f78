// Streams that share the pool of one backend: waiting, cancelling, and work that runs out of memory.
#include <ggml.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/dense_provider.h"
#include "backend/host_memory.h"
#include "base/clock.h"
#include "base/random.h"
#include "tensor/dtype.h"

namespace ei {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.threads = 2;
  auto backend = create_backend("cpu", options);
  EXPECT_TRUE(backend.ok());
  return std::move(backend).value();
}

// Holds the pool from construction until release().
class Busy {
 public:
  explicit Busy(const Backend& backend) : stream_(std::move(backend.new_stream(nullptr)).value()) {
    stream_->host([this] {
      started_.set_value();
      released_.get_future().wait();
    });
    thread_ = std::thread([this] { EXPECT_TRUE(stream_->synchronize().ok()); });
    started_.get_future().wait();
  }
  void release() {
    released_.set_value();
    thread_.join();
  }

 private:
  std::unique_ptr<Stream> stream_;
  std::promise<void> started_;
  std::promise<void> released_;
  std::thread thread_;
};

TEST(CpuStream, CanBeCancelledWhileAnotherHasThePool) {
  const std::unique_ptr<Backend> backend = cpu();
  Busy busy(*backend);
  CancelToken cancel;
  const std::unique_ptr<Stream> stream = std::move(backend->new_stream(&cancel)).value();
  bool ran = false;
  stream->host([&] { ran = true; });
  std::future<Status> status = std::async(std::launch::async, [&] { return stream->synchronize(); });
  EXPECT_EQ(status.wait_for(100ms), std::future_status::timeout);
  cancel.cancel();
  const bool answered = status.wait_for(5s) == std::future_status::ready;
  busy.release();
  EXPECT_TRUE(answered);
  const Status ended = status.get();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().kind, ErrorKind::kInterrupted);
  EXPECT_FALSE(ran);
}

TEST(CpuStream, BooksItsWaitingApart) {
  const std::unique_ptr<Backend> backend = cpu();
  Busy busy(*backend);
  const std::unique_ptr<Stream> stream = std::move(backend->new_stream(nullptr)).value();
  stream->host([] {});
  std::future<Status> status = std::async(std::launch::async, [&] { return stream->synchronize(); });
  std::this_thread::sleep_for(400ms);
  busy.release();
  EXPECT_TRUE(status.get().ok());
  EXPECT_GE(stream->times().wait_s, 0.2);
  EXPECT_LT(stream->times().matmul_s, stream->times().wait_s / 2);
}

TEST(CpuStream, TurnsAJobWithoutMemoryIntoAnErrorAndRunsNothingBehindIt) {
  const std::unique_ptr<Backend> backend = cpu();
  const std::unique_ptr<Stream> stream = std::move(backend->new_stream(nullptr)).value();
  bool ran = false;
  stream->host([] { throw std::bad_alloc(); });
  stream->host([&] { ran = true; });
  const Status status = stream->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kMemory);
  EXPECT_FALSE(ran);
  // The stream is as good as before.
  stream->host([&] { ran = true; });
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST(CpuStream, TakesNoMoreWorkThanItsGraphHasRoomFor) {
  const std::unique_ptr<Backend> backend = cpu();
  const std::unique_ptr<Stream> stream = std::move(backend->new_stream(nullptr)).value();
  int ran = 0;
  for (int i = 0; i < 100'000; ++i) stream->host([&] { ++ran; });
  const Status status = stream->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kModel);
  EXPECT_EQ(ran, 0);
  stream->host([&] { ++ran; });
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(ran, 1);
}

// Large products of ggml's are cut by rows, so that a cancelled stream answers soon.
TEST(CpuStream, CutsLargeProductsWithoutChangingThem) {
  BackendOptions options;
  options.threads = 2;
  options.dense = "ggml";
  const std::unique_ptr<Backend> backend = std::move(create_backend("cpu", options)).value();
  constexpr int64_t kSize = 2048, kRows = 1100, kSome = 5;  // 4.6e9 multiply-adds: two pieces
  std::vector<float> w(kSize * kSize), x(kRows * kSize), y(kRows * kSize, -1), few(kSome * kSize, -1);
  Random random(3);
  for (float& value : w) value = static_cast<float>(random.uniform() - 0.5);
  for (float& value : x) value = static_cast<float>(random.uniform() - 0.5);
  const HostTensor tensor{.name = "w", .type = 0, .rows = kSize, .cols = kSize, .data = w.data()};
  const std::unique_ptr<Weight> weight = std::move(backend->load_matrix({&tensor, 1}, MatrixUse::kEveryToken)).value();
  const std::unique_ptr<Stream> stream = std::move(backend->new_stream(nullptr)).value();
  stream->matmul(*weight, {x.data(), kRows, kSize, kSize}, {y.data(), kRows, kSize, kSize}, nullptr);
  ASSERT_TRUE(stream->synchronize().ok());
  for (const int64_t row : {int64_t{0}, int64_t{1022}, kRows - kSome}) {
    stream->matmul(*weight, {x.data() + row * kSize, kSome, kSize, kSize}, {few.data(), kSome, kSize, kSize}, nullptr);
    ASSERT_TRUE(stream->synchronize().ok());
    for (int64_t i = 0; i < kSome * kSize; ++i) ASSERT_NEAR(y[row * kSize + i], few[i], 1e-3) << row << " " << i;
  }
}

// Four slices of a weight that is not kept packed, the last of them short.
class Unpacked : public ::testing::Test {
 protected:
  static constexpr int64_t kOut = 1100, kIn = 8192, kRows = 9;

  void SetUp() override {
    if (!std::move(create_dense_provider("", "")).value()) GTEST_SKIP() << "no products in bf16 here";
    ASSERT_EQ(DenseProvider::slice_rows(kOut, kIn), 320);
    Random random(5);
    for (uint16_t& value : weights_) value = f32_to_bf16(static_cast<float>(random.uniform() - 0.5));
    for (float& value : x_) value = static_cast<float>(random.uniform() - 0.5);
  }

  // Rows [first, first + rows) of a prompt of `tokens` tokens, through packed copies within `budget`.
  std::vector<float> product(std::string_view dense, int64_t budget, int64_t tokens, int64_t first, int64_t rows) {
    BackendOptions options;
    options.threads = 2;
    options.dense = dense;
    options.packed_budget = budget;
    const std::unique_ptr<Backend> backend = std::move(create_backend("cpu", options)).value();
    const HostTensor tensor{.name = "w", .type = GGML_TYPE_BF16, .rows = kOut, .cols = kIn, .data = weights_.data()};
    const auto weight = std::move(backend->load_matrix({&tensor, 1}, MatrixUse::kEveryToken)).value();
    const std::unique_ptr<Stream> stream = std::move(backend->new_stream(nullptr)).value();
    std::vector<float> y(static_cast<size_t>(rows * kOut), -1);
    stream->enter(Phase::kPrompt, tokens);
    stream->matmul(*weight, {x_.data() + first * kIn, rows, kIn, kIn}, {y.data(), rows, kOut, kOut}, nullptr);
    EXPECT_TRUE(stream->synchronize().ok());
    return y;
  }

  std::vector<uint16_t> weights_ = std::vector<uint16_t>(kOut * kIn);
  std::vector<float> x_ = std::vector<float>(kRows * kIn);
};

TEST_F(Unpacked, WeightsGiveTheSameProductsInSlices) {
  const std::vector<float> packed = product("bf16", int64_t{1} << 30, 1000, 0, kRows);
  EXPECT_TRUE(product("bf16", 0, 1000, 0, kRows) == packed);
  const std::vector<float> row = product("bf16", 0, 1000, 4, 1);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), packed.begin() + 4 * kOut)) << "a chunk of one row";
}

TEST_F(Unpacked, WeightsAreNotUnpackedForAShortPrompt) {
  EXPECT_TRUE(product("bf16", 0, 20, 0, kRows) == product("ggml", 0, 20, 0, kRows));
  EXPECT_TRUE(product("bf16", int64_t{1} << 30, 20, 0, kRows) == product("bf16", 0, 1000, 0, kRows));
}

TEST(HostMemory, IsRefusedWhenTheSystemHasLess) {
  const int64_t available = available_memory_bytes();
  if (available < 0) GTEST_SKIP() << "the system does not say";
  const Result<Buffer> too_much = allocate_host(static_cast<size_t>(available) + (size_t{64} << 20));
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().kind, ErrorKind::kMemory);
  EXPECT_TRUE(allocate_host(static_cast<size_t>(available) / 2).ok());
}

}  // namespace
}  // namespace ei
