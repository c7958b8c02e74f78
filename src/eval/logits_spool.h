// Rows of logits kept on disk between two runs over the same text: at long contexts they outgrow memory.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace ei::eval {

class LogitsSpool {
 public:
  static Result<LogitsSpool> open();

  void rewind();
  void write(std::span<const float> row);
  // The next row; valid until the next call.
  std::span<const float> read(size_t count);
  // Says whether every write and read went well.
  Status status() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<float> row_;
  bool failed_ = false;
};

}  // namespace ei::eval
