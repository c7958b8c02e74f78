// libFuzzer target: any bytes as the body of a request are answered by every route, with a success or an error that
// says what is wrong with it. Seeds: corpus/fuzz_request.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "request_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ei::fuzz::RequestWalk walk(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf");
  if (!walk.failure().empty()) {
    std::fprintf(stderr, "fuzz_request: %s\n", walk.failure().c_str());
    std::abort();
  }
  const std::string wrong = walk.complaint(std::string(reinterpret_cast<const char*>(data), size));
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
