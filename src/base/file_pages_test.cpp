#include "base/file_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ei {
namespace {

// How many pages of `memory` are in this process's page table.
int64_t present(std::span<const std::byte> memory) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto first = reinterpret_cast<uintptr_t>(memory.data()) / page;
  const auto last = reinterpret_cast<uintptr_t>(memory.data() + memory.size() - 1) / page;
  int64_t count = 0;
  for (uintptr_t at = first; at <= last; ++at) {
    uint64_t entry = 0;
    if (pread(map, &entry, sizeof entry, static_cast<off_t>(at * sizeof entry)) == sizeof entry) {
      count += static_cast<int64_t>(entry >> 63);
    }
  }
  close(map);
  return count;
}

// A file of about 500 KiB that lies between two pieces of ordinary memory.
class FilePages : public ::testing::Test {
 protected:
  static constexpr size_t kRoom = size_t{256} << 10;
  static constexpr size_t kFile = (size_t{500} << 10) + 123;

  void SetUp() override {
    const std::string path = ::testing::TempDir() + "ei_file_pages_" + std::to_string(getpid());
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    const std::vector<char> content(kFile, 'f');
    ASSERT_EQ(write(file, content.data(), kFile), static_cast<ssize_t>(kFile));
    unlink(path.c_str());
    const size_t bytes = kRoom + kFile + 2 * kRoom;
    void* all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(all, MAP_FAILED);
    all_ = {static_cast<std::byte*>(all), bytes};
    std::fill(all_.begin(), all_.end(), std::byte{'m'});
    ASSERT_NE(mmap(all_.data() + kRoom, kFile, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0), MAP_FAILED);
    close(file);
    mapping_ = all_.subspan(kRoom, kFile);
  }
  void TearDown() override { munmap(all_.data(), all_.size()); }

  static bool all_are(std::span<const std::byte> memory, char value) {
    return std::all_of(memory.begin(), memory.end(), [&](std::byte one) { return one == std::byte(value); });
  }

  std::span<std::byte> all_;
  std::span<const std::byte> mapping_;
};

TEST_F(FilePages, LeaveMemoryAndComeBack) {
  ASSERT_TRUE(all_are(mapping_, 'f'));
  if (present(mapping_) == 0) GTEST_SKIP() << "the system does not show its pages";
  release_file_pages(mapping_, mapping_);
  EXPECT_EQ(present(mapping_), 0);
  EXPECT_TRUE(all_are(mapping_, 'f'));
}

TEST_F(FilePages, BesideTheMappingStayAsTheyAre) {
  release_file_pages(mapping_.first(10), mapping_);
  release_file_pages(mapping_.last(10), mapping_);
  release_file_pages({}, mapping_);
  release_file_pages(all_.first(10), {});
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_TRUE(all_are(all_.first(kRoom), 'm'));
  EXPECT_TRUE(all_are(all_.subspan(kRoom + (kFile + page - 1) / page * page), 'm'));
  EXPECT_TRUE(all_are(mapping_, 'f'));
}

}  // namespace
}  // namespace ei
