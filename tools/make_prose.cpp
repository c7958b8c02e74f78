// make_prose BYTES [SEED]: that much of our own endless prose on stdout, to read long prompts from.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "eval/prose.h"

int main(int argc, char** argv) {
  const long long bytes = argc > 1 ? std::atoll(argv[1]) : 0;
  if (bytes <= 0) {
    std::fprintf(stderr, "usage: make_prose BYTES [SEED]\n");
    return 2;
  }
  ei::eval::Prose prose(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::string text;
  while (text.size() < static_cast<size_t>(bytes)) text += prose.piece();
  text.resize(static_cast<size_t>(bytes));
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
}
