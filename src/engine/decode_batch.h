// DecodeBatch: generated tokens of several sessions in one pass over the weights. Rows of all sessions are multiplied
// together; keys and values go into each session's own cache, and each row attends over that alone. Whoever else is in
// the batch changes no bit of anybody's logits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace ei {

class DecodeBatch {
 public:
  // One token for one session, and what Session::decode would have answered.
  struct Feed {
    Session* session = nullptr;
    int32_t token = 0;
    // Called once the logits are there, perhaps on another thread and beside those of other feeds: a sampler's work.
    // It may look at the session's logits and must neither throw nor change the session.
    std::function<void()> then{};
    Status status{};
  };

  explicit DecodeBatch(const Engine& engine) : engine_(engine) {}

  // Sessions that cannot join (generation reads chosen pages, other types in the cache, a backend that takes one row at
  // a time) are fed alone, one after the other. One that has no room, or whose token is wrong, fails alone. Once begun,
  // a pass is not interrupted: it takes as long as a few tokens.
  void decode(std::span<Feed> feeds);

  // Most that one pass takes.
  static constexpr size_t kMost = 16;

 private:
  void decode_alone(Feed& feed);
  void decode_together(std::span<Feed*> feeds);
  Status record(std::span<Feed*> feeds);
  std::vector<RopeTable> stage_angles(std::span<Feed*> feeds, int64_t rows);

  const Engine& engine_;
  std::unique_ptr<Stream> stream_{};  // made for the first pass
  Matrix logits_{};                   // [rows, vocab] of the pass
};

}  // namespace ei
