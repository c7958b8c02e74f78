// gguf_corpus FOLDER: writes the valid and the malformed files there, as seeds for fuzz_gguf.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "malformed_files.h"

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: gguf_corpus FOLDER\n");
    return 2;
  }
  std::error_code error;
  std::filesystem::create_directories(argv[1], error);
  constexpr size_t kLargestSeed = 64 << 10;  // bigger ones only slow the fuzzer down
  size_t written = 0;
  for (const auto& files : {ei::fuzz::valid_files(), ei::fuzz::malformed_files()}) {
    for (const auto& file : files) {
      if (file.bytes.size() > kLargestSeed) continue;
      std::ofstream out(std::filesystem::path(argv[1]) / ("seed-" + std::to_string(written)), std::ios::binary);
      out << file.bytes;
      if (!out.good()) {
        std::fprintf(stderr, "gguf_corpus: cannot write to %s\n", argv[1]);
        return 1;
      }
      ++written;
    }
  }
  std::printf("%zu seeds in %s\n", written, argv[1]);
  return 0;
}
