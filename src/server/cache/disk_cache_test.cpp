#include "server/cache/disk_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "support/embedded_engine.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

constexpr int64_t kShort = 40;

std::vector<int32_t> some_tokens(int64_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(100 + (i * 37 + seed * 1009) % 3000));
  return tokens;
}

HeldText read_text(const std::vector<int32_t>& tokens, const std::string& space = "") {
  const auto session = open_session(embedded_engine(), {});
  EXPECT_TRUE(session->prefill(tokens).ok());
  auto store = session->store().fork();
  EXPECT_TRUE(store.ok());
  return {.tokens = tokens, .store = std::move(*store), .space = space};
}

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheOptions options(const std::string& build = "one") {
    return {.folder = folder_.file("cache"),
            .least_tokens = kShort,
            .model_hash = embedded_engine().model_hash(),
            .build = build,
            .types = open_session(embedded_engine(), {})->store().config(),
            .log = [this](const std::string& line) {
              const std::lock_guard lock(mutex_);
              lines_.push_back(line);
            }};
  }
  static void settle(const DiskCache& cache) {
    for (int i = 0; i < 1000 && !cache.idle(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(cache.idle());
  }
  static Result<HeldText> load(DiskCache& cache, const DiskCache::Found& found) {
    std::promise<Result<HeldText>> loaded;
    cache.load(found, [&](Result<HeldText> text) { loaded.set_value(std::move(text)); });
    return loaded.get_future().get();
  }
  size_t files() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.file("cache"))) ++count;
    return count;
  }

  kv::TempFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(DiskCacheTest, ATextIsFoundAgainByAnotherProcess) {
  const std::vector<int32_t> tokens = some_tokens(300, 1);
  {
    DiskCache cache(embedded_engine().backend(), options());
    cache.put(read_text(tokens));
    cache.put(read_text(some_tokens(kShort - 1, 2)));
    settle(cache);
    EXPECT_EQ(cache.figures().texts, 1);
  }
  DiskCache cache(embedded_engine().backend(), options());
  std::vector<int32_t> prompt = tokens;
  prompt.resize(200);
  prompt.push_back(9);
  const auto found = cache.find(prompt, "");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tokens, 200);
  EXPECT_FALSE(cache.find(prompt, "sparse").has_value());
  const Result<HeldText> text = load(cache, *found);
  ASSERT_TRUE(text.ok()) << text.error().message;
  // What the prompt has not got stays in the file.
  EXPECT_EQ(text->tokens, std::vector<int32_t>(tokens.begin(), tokens.begin() + 200));
  EXPECT_EQ(text->store.next_position(), 200);
  EXPECT_TRUE(text->store.exact());
  const int64_t whole = load(cache, *cache.find(tokens, ""))->store.bytes();
  EXPECT_LT(text->store.bytes(), whole);
  EXPECT_NEAR(static_cast<double>(found->bytes), static_cast<double>(text->store.bytes()),
              0.3 * static_cast<double>(whole));
  EXPECT_TRUE(lines_.empty());
  DiskCache other(embedded_engine().backend(), options("another build"));
  EXPECT_EQ(other.figures().texts, 0);
}

TEST_F(DiskCacheTest, ADamagedFileIsPassedOverWithOneLineAndOthersServe) {
  const std::vector<int32_t> first = some_tokens(200, 3);
  const std::vector<int32_t> second = some_tokens(200, 4);
  std::string damaged;
  {
    DiskCache cache(embedded_engine().backend(), options());
    cache.put(read_text(first));
    cache.put(read_text(second));
    settle(cache);
    damaged = cache.find(first, "")->path;
  }
  std::vector<unsigned char> bytes = kv::read_all(damaged);
  bytes[bytes.size() - 1000] ^= 1;  // a row: only its reader notices
  kv::write_all(damaged, bytes);
  kv::write_all(folder_.file("cache/0000.eikv"), {1, 2, 3});
  DiskCache cache(embedded_engine().backend(), options());
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_FALSE(load(cache, *cache.find(first, "")).ok());
  EXPECT_EQ(lines_.size(), 2u);
  EXPECT_FALSE(cache.find(first, "").has_value());
  EXPECT_TRUE(load(cache, *cache.find(second, "")).ok());
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoWhenThereIsNoRoom) {
  DiskCacheOptions small = options();
  small.most_bytes = read_text(some_tokens(256, 1)).store.bytes() * 5 / 2;
  DiskCache cache(embedded_engine().backend(), small);
  for (const int32_t seed : {5, 6}) cache.put(read_text(some_tokens(256, seed)));
  settle(cache);
  EXPECT_TRUE(load(cache, *cache.find(some_tokens(256, 5), "")).ok());  // used
  cache.put(read_text(some_tokens(256, 7)));
  settle(cache);
  EXPECT_EQ(cache.figures().texts, 2);
  EXPECT_EQ(files(), 2u);
  EXPECT_TRUE(cache.find(some_tokens(256, 5), "").has_value());
  EXPECT_FALSE(cache.find(some_tokens(256, 6), "").has_value());
}

TEST_F(DiskCacheTest, ALongerTextTakesThePlaceOfItsBeginning) {
  DiskCache cache(embedded_engine().backend(), options());
  const std::vector<int32_t> whole = some_tokens(400, 8);
  cache.put(read_text({whole.begin(), whole.begin() + 200}));
  settle(cache);
  cache.put(read_text(whole));
  cache.put(read_text({whole.begin(), whole.begin() + 390}));  // nothing new
  settle(cache);
  EXPECT_EQ(cache.figures().texts, 1);
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(cache.find(whole, "")->tokens, 400);
}

// Their pages are in nobody's count once memory has given them up.
TEST_F(DiskCacheTest, TextsThatWaitToBeWrittenHaveABound) {
  DiskCacheOptions small = options();
  const std::vector<int32_t> first = some_tokens(256, 1);
  const int64_t one = read_text(first).store.bytes();
  small.most_waiting_bytes = one * 5 / 2;
  DiskCache cache(embedded_engine().backend(), small);
  cache.put(read_text(first));
  settle(cache);
  std::promise<void> begun;
  std::promise<void> goes_on;
  cache.load(*cache.find(first, ""), [&](const Result<HeldText>&) {
    begun.set_value();
    goes_on.get_future().wait();
  });
  begun.get_future().wait();
  for (const int32_t seed : {2, 3, 4}) cache.put(read_text(some_tokens(256, seed)));
  EXPECT_EQ(cache.figures().waiting, 2);
  EXPECT_EQ(cache.figures().waiting_bytes, 2 * one);
  goes_on.set_value();
  settle(cache);
  EXPECT_EQ(cache.figures().waiting_bytes, 0);
  EXPECT_EQ(cache.figures().texts, 3);
  // One that is larger than the bound is written where nothing waits.
  cache.put(read_text(some_tokens(1000, 5)));
  settle(cache);
  EXPECT_TRUE(cache.find(some_tokens(1000, 5), "").has_value());
}

TEST_F(DiskCacheTest, AFolderThatCannotBeWrittenCostsALineAndNoMore) {
  kv::write_all(folder_.file("cache"), {1});  // a file where the folder should be
  DiskCache cache(embedded_engine().backend(), options());
  cache.put(read_text(some_tokens(100, 9)));
  settle(cache);
  EXPECT_EQ(cache.figures().texts, 0);
  EXPECT_GE(lines_.size(), 1u);
}

}  // namespace
}  // namespace ei::server
