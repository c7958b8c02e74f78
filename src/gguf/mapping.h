// Mapping: a regular file mapped read-only into memory, or copied there; move-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace ei::gguf {

class Mapping {
 public:
  // Refuses, with one line each, what is missing, unreadable, empty or not a regular file. `copy`: reads the file into
  // memory of its own.
  static Result<Mapping> open(const std::string& path, bool copy = false);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  bool copied() const { return copied_; }
  // Drops the pages of `part` from memory; they are read again when touched. Not of a copy, which is all there is.
  void release(std::span<const std::byte> part) const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool copied_ = false;
};

}  // namespace ei::gguf
