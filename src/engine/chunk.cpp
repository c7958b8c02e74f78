// One chunk from end to end: what the forward pass needs beside the layers, running it, taking it back when it fails,
// and what it cost.
#include <new>

#include "base/clock.h"
#include "engine/session_state.h"

namespace ei {

std::vector<RopeTable> Session::State::stage_angles(int32_t first_position, int64_t tokens) {
  const model::Config& config = model.config();
  angles.resize(config.ropes.size());
  std::vector<RopeTable> tables;
  for (size_t i = 0; i < angles.size(); ++i) {
    RopeTable table{.cos = nullptr,
                    .sin = nullptr,
                    .dims = config.rope_dims,
                    .interleaved = config.rope_interleaved,
                    .rope = &config.ropes[i],
                    .first_position = first_position};
    if (!stream->makes_angles()) {
      RopeAngles& made = angles[i];
      fill_rope(config.ropes[i], config.rope_dims, first_position, tokens, made);
      table.cos = static_cast<const float*>(stream->stage(made.cos.data(), made.cos.size() * sizeof(float)));
      table.sin = static_cast<const float*>(stream->stage(made.sin.data(), made.sin.size() * sizeof(float)));
    }
    tables.push_back(table);
  }
  return tables;
}

Result<Session::State::Rows> Session::State::forward(std::span<const int32_t> chunk, Wanted wanted, bool plan) {
  const int32_t first = reading().next_position();
  Result<Rows> recorded = [&]() -> Result<Rows> {
    try {
      Result<Rows> rows = record(chunk, wanted, plan);
      // Pages of the next chunk, while a device computes; where there is no room that one says so.
      if (rows.ok() && tokens_ahead > 0 && engine.backend().free_memory() >= 0)
        static_cast<void>(reading().reserve(tokens_ahead).ok());
      return rows;
    } catch (const std::bad_alloc&) {
      return make_error(ErrorKind::kMemory, "out of memory at position %d; shorten the prompt or ask for fewer tokens",
                        first);
    }
  }();
  const Status ran = stream->synchronize();
  if (recorded.ok() && ran.ok()) {
    if (compressor) compressor->advance(first, static_cast<int64_t>(chunk.size()));
    held.insert(held.end(), chunk.begin(), chunk.end());
    return recorded;
  }
  if (plan) planner->undo_chunk();
  EI_RETURN_IF_ERROR(reading().truncate(first));
  return recorded.ok() ? ran.error() : recorded.error();
}

Result<Session::State::Rows> Session::State::forward_prompt(std::span<const int32_t> chunk, Wanted wanted) {
  const int64_t first = store.next_position();
  const bool plan = sparse();
  const Stream::Times before = stream->times();
  EI_ASSIGN_OR_RETURN(const Rows out, forward(chunk, wanted, plan));
  const Stream::Times after = stream->times();
  const auto tokens = static_cast<int64_t>(chunk.size());
  const double pairs = dense_pairs(model.config(), first, tokens);
  stats.pairs_dense += pairs;
  stats.pairs += pairs - (plan ? planner->finish_chunk() : 0);
  stats.prompt_tokens += tokens;
  stats.attention_s += after.attention_s - before.attention_s;
  stats.matmul_s += after.matmul_s - before.matmul_s;
  stats.profile_s += after.profile_s - before.profile_s;
  if (plan) stats.plan_s += after.plan_s - before.plan_s;  // other host jobs only show progress
  return out;
}

}  // namespace ei
