// libFuzzer target: any bytes are refused or safe to read. Seeds: gguf_corpus.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ei::fuzz::parse_copy(std::string(reinterpret_cast<const char*>(data), size), [](const auto& parsed) {
    if (parsed.ok()) return;
    if (parsed.error().message.empty() || parsed.error().message.find('\n') != std::string::npos) std::abort();
  });
  return 0;
}
