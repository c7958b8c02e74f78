#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

#include "kv/checksum.h"
#include "kv/file_stream.h"
#include "kv/store.h"
#include "support/fake_backend.h"
#include "support/naive_store.h"
#include "support/temp_folder.h"

namespace ei::kv {
namespace {

constexpr StoreConfig kConfig{
    .layers = 2, .kv_heads = 2, .head_dim = 4, .key_type = DType::kBF16, .value_type = DType::kF32, .page_slots = 8};
constexpr uint64_t kModel = 0x1234;

// Where things lie in the file of the fixture (store_file.cpp has the format).
constexpr size_t kVersionAt = 8;
constexpr size_t kLayersAt = 20;
constexpr size_t kNextAt = 44;
constexpr size_t kNoteAt = 64;
constexpr size_t kHeadsAt = 72;

class StoreFile : public ::testing::Test {
 protected:
  StoreFile() : store_(backend_, kConfig), naive_(kConfig) {
    feed(store_, 21);
    compact(0, 1, {0, 4, 5, 20});
    feed(store_, 3);
    EXPECT_TRUE(store_.save(path_, kModel).ok());
    good_ = read_all(path_);
  }
  void feed(Store& store, int64_t count) {
    ASSERT_TRUE(store.reserve(count).ok());
    naive_.reserve(count);
    for (int l = 0; l < kConfig.layers; ++l) naive_.append(store, backend_, l, count, number_);
  }
  void compact(int layer, int head, const KeepList& keep) {
    ASSERT_TRUE(store_.compact(layer, head, keep).ok());
    naive_.compact(layer, head, keep);
  }
  // The message of a load that must fail.
  std::string refusal(const std::vector<unsigned char>& bytes) {
    const std::string path = folder_.file("bad");
    write_all(path, bytes);
    const int64_t before = backend_.live_bytes();
    const auto loaded = Store::load(path, kModel, backend_);
    EXPECT_FALSE(loaded.ok());
    EXPECT_EQ(backend_.live_bytes(), before);
    return loaded.ok() ? "" : loaded.error().message;
  }
  template <typename T>
  static void put(std::vector<unsigned char>& bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  }
  // A lie with a valid checksum: the description is `bytes` up to `end`.
  static std::vector<unsigned char> signed_description(std::vector<unsigned char> bytes, size_t end) {
    Checksum checksum;
    checksum.update(bytes.data(), end);
    put(bytes, end, checksum.value());
    return bytes;
  }

  FakeBackend backend_;
  TempFolder folder_;
  std::string path_ = folder_.file("session");
  Store store_;
  NaiveStore naive_;
  uint64_t number_ = 1;
  std::vector<unsigned char> good_;
  // Four heads of 16 bytes; head (0, 1) lists 3 positions.
  size_t description_end_ = kHeadsAt + 4 * 16 + 3 * 4;
};

TEST_F(StoreFile, ComesBackTheSameAndGoesOn) {
  auto loaded = Store::load(path_, kModel, backend_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  naive_.expect_equal(*loaded, backend_);
  EXPECT_FALSE(loaded->exact());
  ASSERT_TRUE(loaded->save(folder_.file("again"), kModel).ok());
  EXPECT_EQ(read_all(folder_.file("again")), good_);
  feed(*loaded, 30);
  naive_.expect_equal(*loaded, backend_);
}

TEST_F(StoreFile, HoldsAnEmptyStore) {
  const Store empty(backend_, kConfig);
  ASSERT_TRUE(empty.save(path_, kModel).ok());
  const auto loaded = Store::load(path_, kModel, backend_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->next_position(), 0);
  EXPECT_TRUE(loaded->exact());
}

TEST_F(StoreFile, GivesTheBeginningThatIsWantedAndChecksTheRest) {
  const auto load = [&](int32_t most) { return Store::load(path_, kModel, backend_, nullptr, nullptr, nullptr, most); };
  EXPECT_EQ(load(5)->next_position(), store_.next_position()) << "slots are not positions here";
  Store exact(backend_, kConfig);
  NaiveStore naive(kConfig);
  ASSERT_TRUE(exact.reserve(24).ok());
  naive.reserve(24);
  for (int l = 0; l < kConfig.layers; ++l) naive.append(exact, backend_, l, 24, number_);
  ASSERT_TRUE(exact.save(path_, kModel).ok());
  const int64_t whole = load(100)->bytes();
  naive.truncate(11);
  const auto loaded = load(11);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  naive.expect_equal(*loaded, backend_);
  EXPECT_LT(loaded->bytes(), whole);
  EXPECT_EQ(load(0)->next_position(), 0);
  std::vector<unsigned char> bytes = read_all(path_);
  bytes[bytes.size() - 10] ^= 1;  // of a row behind them
  write_all(path_, bytes);
  EXPECT_FALSE(load(11).ok());
}

TEST_F(StoreFile, HoldsOnlyTheUsedRows) {
  const size_t rows = 24 * 3 + 7;
  EXPECT_EQ(good_.size(), description_end_ + 8 + rows * (4 * 2 + 4 * 4) + 8);
}

TEST_F(StoreFile, IsRefusedWhenCutAnywhere) {
  for (size_t size = 0; size < good_.size(); ++size) {
    EXPECT_NE(refusal({good_.begin(), good_.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size;
  }
}

TEST_F(StoreFile, IsRefusedWhenAnyByteIsChanged) {
  Random random(11);
  for (size_t at = 0; at < good_.size(); ++at) {
    auto bytes = good_;
    bytes[at] = static_cast<unsigned char>(bytes[at] ^ random.between(1, 255));
    EXPECT_NE(refusal(bytes), "") << "byte " << at << ", seed 11";
  }
}

TEST_F(StoreFile, CarriesANote) {
  const std::string note("how it was read\0and what", 24);
  ASSERT_TRUE(store_.save(path_, kModel, nullptr, note).ok());
  std::string found = "something else";
  ASSERT_TRUE(Store::load(path_, kModel, backend_, nullptr, &found).ok());
  EXPECT_EQ(found, note);
  write_all(path_, good_);
  ASSERT_TRUE(Store::load(path_, kModel, backend_, nullptr, &found).ok());
  EXPECT_EQ(found, "");
}

TEST_F(StoreFile, IsRefusedWhenSomethingFollows) {
  auto bytes = good_;
  bytes.push_back(0);
  EXPECT_NE(refusal(bytes), "");
}

TEST_F(StoreFile, SaysWhatIsWrong) {
  EXPECT_NE(refusal({'n', 'o', 't', ' ', 'a', ' ', 'c', 'a', 'c', 'h', 'e'}).find("not a saved KV cache"),
            std::string::npos);
  auto bytes = good_;
  put(bytes, kVersionAt, uint32_t{1});
  EXPECT_NE(refusal(bytes).find("version is 1"), std::string::npos);
  bytes = good_;
  bytes[bytes.size() - 20] ^= 1;
  EXPECT_NE(refusal(bytes).find("checksum"), std::string::npos);
  const auto other_model = Store::load(path_, kModel + 1, backend_);
  ASSERT_FALSE(other_model.ok());
  EXPECT_NE(other_model.error().message.find("another model"), std::string::npos);
  const auto missing = Store::load(folder_.file("missing"), kModel, backend_);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  EXPECT_FALSE(Store::load(folder_.file(""), kModel, backend_).ok()) << "a folder";
  ASSERT_EQ(::mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(Store::load(folder_.file("pipe"), kModel, backend_).ok()) << "a pipe, without waiting for it";
}

TEST_F(StoreFile, LiesWithAValidChecksumAllocateNoMoreThanTheFileHolds) {
  const int64_t before = backend_.peak_bytes();
  const auto lie = [&](size_t at, auto value) {
    auto bytes = good_;
    put(bytes, at, value);
    return refusal(signed_description(bytes, description_end_));
  };
  for (size_t field = 0; field < 6; ++field) {
    for (const int32_t value : {-1, 4095, 4096, 0x7FFFFFFF}) EXPECT_NE(lie(kLayersAt + 4 * field, value), "") << field;
  }
  EXPECT_NE(lie(kLayersAt + 12, static_cast<int32_t>(DType::kQ8_0)).find("rows of 4 elements in q8_0"),
            std::string::npos);
  for (const int32_t value : {-1, 0, 23, 25, 0x7FFFFFFF}) EXPECT_NE(lie(kNextAt, value), "") << value;
  for (const int64_t value : {int64_t{-1}, int64_t{23}, int64_t{1} << 62, INT64_MAX, INT64_MIN}) {
    EXPECT_NE(lie(kNoteAt, value), "") << "note " << value;
    EXPECT_NE(lie(kHeadsAt, value), "") << "length " << value;
    EXPECT_NE(lie(kHeadsAt + 8, value), "") << "listed " << value;
  }
  const size_t positions_at = kHeadsAt + 3 * 16 - 16;  // behind head (0, 0) and the counts of head (0, 1)
  EXPECT_NE(lie(positions_at, int32_t{4}).find("out of order"), std::string::npos);
  EXPECT_NE(lie(positions_at, int32_t{-5}).find("out of order"), std::string::npos);
  EXPECT_NE(lie(positions_at + 8, int32_t{20}).find("out of order"), std::string::npos);
  EXPECT_LE(backend_.peak_bytes(), before + (1 << 20)) << "more than the smallest slab";
}

TEST_F(StoreFile, OfQ8IsRefusedByABackendThatDoesNotHoldIt) {
  Filled quantised(backend_,
                   {.layers = 1, .kv_heads = 1, .head_dim = 32, .key_type = DType::kQ8_0, .value_type = DType::kF16});
  quantised.feed(3);
  ASSERT_TRUE(quantised.store.save(path_, kModel).ok());
  EXPECT_TRUE(Store::load(path_, kModel, backend_).ok());
  backend_.takes_q8 = false;
  EXPECT_NE(refusal(read_all(path_)).find("q8_0, which the fake backend does not hold"), std::string::npos);
}

TEST_F(StoreFile, HasNoNameBeforeItIsWholeAndIsItsOwnersAloneThen) {
  const mode_t before = ::umask(0);
  {
    FileWriter writer(folder_.file("whole"), FileWriter::kOwnerOnly);
    ASSERT_TRUE(writer.open().ok());
    ASSERT_TRUE(writer.put(uint64_t{7}).ok());
    EXPECT_EQ(folder_.num_files(), 1) << "a killed process would leave it behind";
    ASSERT_TRUE(writer.commit().ok());
  }
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(folder_.file("whole").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "it holds the tokens of a text";
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "as caches that are saved";
  EXPECT_EQ(folder_.num_files(), 2);
}

TEST_F(StoreFile, LeavesTheOldFileWhenSavingFails) {
  backend_.copies_fail = true;
  EXPECT_FALSE(store_.save(path_, kModel).ok());
  backend_.copies_fail = false;
  EXPECT_EQ(read_all(path_), good_);
  EXPECT_EQ(folder_.num_files(), 1) << "no temporary file stays behind";
  EXPECT_FALSE(store_.save(folder_.file("no/such/folder"), kModel).ok());
  EXPECT_FALSE(store_.save(folder_.file("."), kModel).ok());
  EXPECT_FALSE(store_.save("/dev/null", kModel).ok()) << "a device is never replaced";
}

TEST_F(StoreFile, IsNotWrittenInTheMiddleOfAChunk) {
  ASSERT_TRUE(store_.reserve(2).ok());
  store_.append(0, 2);
  EXPECT_FALSE(store_.save(path_, kModel).ok());
  EXPECT_EQ(read_all(path_), good_);
}

TEST_F(StoreFile, FailsCleanlyWhenTheMemoryIsShort) {
  backend_.limit = backend_.live_bytes();
  const auto loaded = Store::load(path_, kModel, backend_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kMemory);
}

}  // namespace
}  // namespace ei::kv
