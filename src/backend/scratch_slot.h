// ScratchSlot: names one piece of a stream's memory. Each object is a piece of its own, in every stream, so that nobody
// has to know who else asks for memory; usually a constant beside the code that uses the piece.
#pragma once

#include <atomic>

namespace ei {

class ScratchSlot {
 public:
  ScratchSlot() noexcept : id_(next()) {}
  ScratchSlot(const ScratchSlot&) = delete;
  ScratchSlot& operator=(const ScratchSlot&) = delete;

  int id() const { return id_; }

 private:
  static int next() noexcept {
    static std::atomic<int> made = 0;
    return made++;
  }
  int id_;
};

}  // namespace ei
