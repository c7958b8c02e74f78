// Pace: how many tokens of a prompt a chunk has, by what the last ones took. Only arithmetic: the clock is the
// caller's.
#pragma once

#include <cstdint>

namespace ei::server {

class Pace {
 public:
  bool known() const { return row_s_ > 0; }
  // A chunk that takes about so long; `shared`: others wait for its end.
  int64_t rows(double seconds, bool shared) const;
  // A chunk of so many tokens took so long.
  void took(int64_t rows, double seconds);

  static constexpr int64_t kFirst = 256;    // before anything is known about this model's pace
  static constexpr int64_t kTogether = 64;  // longer chunks are cut in multiples that kernels like,
  static constexpr int64_t kLeast = 16;     // shorter ones in these, which cost more, and only where others wait

 private:
  double row_s_ = 0;
};

}  // namespace ei::server
