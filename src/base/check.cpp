#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ei {

void check_failed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "entropyinfer: internal error at %s:%d: %s\n", file, line, expression);
  std::abort();
}

void check_op_failed(const char* file, int line, const char* expression, int64_t left, int64_t right) {
  std::fprintf(stderr, "entropyinfer: internal error at %s:%d: %s (%lld and %lld)\n", file, line, expression,
               static_cast<long long>(left), static_cast<long long>(right));
  std::abort();
}

}  // namespace ei
