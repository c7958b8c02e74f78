// SIGHUP, which ends a program that does not know it: a server goes on, and opens its log anew, so that a file that was
// moved away is let go.
#pragma once

namespace ei::cli {

class Hangups {
 public:
  Hangups();
  ~Hangups();
  Hangups(const Hangups&) = delete;
  Hangups& operator=(const Hangups&) = delete;

  // Has one come since the last call?
  bool come();
};

}  // namespace ei::cli
