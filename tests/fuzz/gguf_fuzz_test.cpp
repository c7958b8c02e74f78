// The promise of gguf::File on hostile input: an Error (kModel, one line) or a File whose every byte can be read, and
// never memory for a lie.
#include <gtest/gtest.h>

#include <set>

#include "base/clock.h"
#include "base/random.h"
#include "gguf/file.h"
#include "malformed_files.h"
#include "mutate.h"
#include "walk.h"

namespace ei::fuzz {
namespace {

#ifdef EI_SANITIZED  // these hold on to freed memory
constexpr int64_t kMaxGrowth = int64_t{512} << 20;
#else
constexpr int64_t kMaxGrowth = int64_t{64} << 20;
#endif

void expect_one_clear_line(const Error& error, const std::string& what) {
  EXPECT_EQ(error.kind, ErrorKind::kModel) << what;
  EXPECT_FALSE(error.message.empty()) << what;
  EXPECT_LT(error.message.size(), 1024u) << what;
  for (const char c : error.message) ASSERT_GE(static_cast<unsigned char>(c), ' ') << what << ": " << error.message;
}

TEST(MalformedFile, IsRefusedWithOneLineAndLittleMemory) {
  const std::vector<NamedFile> files = malformed_files();
  EXPECT_GE(files.size(), 80u);
  std::set<std::string> names;
  for (const NamedFile& file : files) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    const int64_t before = peak_rss_bytes();
    const auto result = parse_copy(file.bytes, [&](const auto& parsed) {
      EXPECT_FALSE(parsed.ok()) << file.name;
      if (!parsed.ok()) expect_one_clear_line(parsed.error(), file.name);
    });
    EXPECT_FALSE(result) << file.name;
    EXPECT_LT(peak_rss_bytes() - before, kMaxGrowth + static_cast<int64_t>(file.bytes.size())) << file.name;
  }
  RecordProperty("files", static_cast<int>(files.size()));
}

TEST(ValidFile, IsAccepted) {
  for (const NamedFile& file : valid_files()) {
    parse_copy(file.bytes, [&](const auto& parsed) {
      EXPECT_TRUE(parsed.ok()) << file.name << ": " << (parsed.ok() ? "" : parsed.error().message);
    });
  }
}

TEST(ValidFile, IsRefusedWhenCutAtAnyByte) {
  for (const NamedFile& file : valid_files()) {
    for (size_t size = 0; size < file.bytes.size(); ++size) {
      parse_copy(file.bytes.substr(0, size), [&](const auto& parsed) {
        ASSERT_FALSE(parsed.ok()) << file.name << " cut at " << size;
        expect_one_clear_line(parsed.error(), file.name + " cut at " + std::to_string(size));
      });
    }
  }
}

TEST(MutatedFile, IsRefusedOrSafeToRead) {
  constexpr int kMutations = 20'000;
  constexpr uint64_t kSeed = 20'260'101;
  const std::vector<NamedFile> bases = valid_files();
  std::vector<Mutator> mutators;
  mutators.reserve(bases.size());
  for (const NamedFile& base : bases) mutators.emplace_back(base.bytes);
  const int64_t before = peak_rss_bytes();
  int accepted = 0;
  for (int i = 0; i < kMutations; ++i) {
    Random random(kSeed + static_cast<uint64_t>(i));
    const std::string& other = bases[static_cast<size_t>(random.below(std::ssize(bases)))].bytes;
    const std::string bytes = mutators[static_cast<size_t>(i) % mutators.size()].mutate(random, other);
    const std::string what = "seed " + std::to_string(kSeed + static_cast<uint64_t>(i));
    accepted += parse_copy(bytes, [&](const auto& parsed) {
      if (!parsed.ok()) expect_one_clear_line(parsed.error(), what);
    });
  }
  EXPECT_LT(peak_rss_bytes() - before, kMaxGrowth);
  EXPECT_GT(accepted, kMutations / 100) << "too much damage: nothing beyond the parser is exercised";
  EXPECT_LT(accepted, kMutations) << "too little damage";
}

}  // namespace
}  // namespace ei::fuzz
