// For the tests of this room: a folder that goes away with the test. In memory where possible: every save of a store
// waits for the disk otherwise.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ei::kv {

class TempFolder {
 public:
  TempFolder() {
    path_ = "/dev/shm/ei_kv_XXXXXX";
    if (::mkdtemp(path_.data()) != nullptr) return;
    path_ = ::testing::TempDir() + "/ei_kv_XXXXXX";
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  int64_t num_files() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::string path_;
};

inline std::vector<unsigned char> read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_all(const std::string& path, const std::vector<unsigned char>& bytes) {
  std::filesystem::remove(path);  // a new file: some file systems sync when an old one is overwritten
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good());
}

}  // namespace ei::kv
