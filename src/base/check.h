// EI_CHECK: for what only a bug can cause. Never reachable from a request or a file.
#pragma once

#include <cstdint>

namespace ei {
[[noreturn]] void check_failed(const char* file, int line, const char* expression);
[[noreturn]] void check_op_failed(const char* file, int line, const char* expression, int64_t left, int64_t right);
}  // namespace ei

#define EI_CHECK(condition)                                               \
  do {                                                                    \
    if (!(condition)) ::ei::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)
#define EI_CHECK_OP(a, op, b)                                                                  \
  do {                                                                                         \
    const auto ei_a = (a);                                                                     \
    const auto ei_b = (b);                                                                     \
    if (!(ei_a op ei_b))                                                                       \
      ::ei::check_op_failed(__FILE__, __LINE__, #a " " #op " " #b, static_cast<int64_t>(ei_a), \
                            static_cast<int64_t>(ei_b));                                       \
  } while (false)
#define EI_CHECK_EQ(a, b) EI_CHECK_OP(a, ==, b)
#define EI_CHECK_LE(a, b) EI_CHECK_OP(a, <=, b)
#define EI_CHECK_LT(a, b) EI_CHECK_OP(a, <, b)
#define EI_CHECK_GE(a, b) EI_CHECK_OP(a, >=, b)
