// What a Session holds, and the forward pass over one chunk. Private to the engine room.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "model/model.h"
#include "model/rope.h"

namespace ei {

struct Session::State {
  const Engine& engine;
  const model::Model& model;
  const CancelToken* cancel = nullptr;
  std::unique_ptr<Stream> stream;
  kv::Store store;
  int64_t context = 0;
  int64_t batch = 0;
  SessionStats stats{};
  std::vector<float> logits{};              // [vocab] of the last token fed
  std::vector<model::RopeAngles> angles{};  // one per rope of the model, for the current chunk

  // Runs `chunk` through all layers behind what the store holds. Gives the logits [logits_rows, vocab] of its last rows
  // (0: only the cache is filled). On an error the store is as before.
  Result<Matrix> forward(std::span<const int32_t> chunk, int64_t logits_rows);
  // Adds the query-key pairs of a prompt chunk to the statistics.
  void count_pairs(int64_t first, int64_t tokens);
  Status check_room(std::span<const int32_t> tokens, int64_t logits_rows) const;

 private:
  Result<Matrix> record(std::span<const int32_t> chunk, int64_t logits_rows);
  std::vector<RopeTable> stage_angles(int32_t first_position, int64_t tokens);
};

}  // namespace ei
