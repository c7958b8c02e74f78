// What a session goes on with beside its cache: logits, when and by what the next compression decides, and what the
// next prompt's plan goes on from.
#include "base/bytes.h"
#include "engine/session_state.h"

namespace ei {

Result<std::string> Session::memory() const {
  const State& state = *state_;
  ByteWriter to;
  to.put(static_cast<int32_t>(position()));
  to.put(static_cast<uint8_t>(state.compression_due));
  to.put_all(state.logits);
  std::string compression;
  if (state.compressor) {
    EI_ASSIGN_OR_RETURN(compression, state.compressor->memory(*state.stream));
  }
  to.put_all(compression);
  if (state.planner) to.put_all(state.planner->memory());
  return to.take();
}

Status Session::State::recall(std::string_view memory) {
  ByteReader from(memory);
  int32_t position = 0;
  uint8_t due = 0;
  std::vector<float> saved_logits;
  std::string compression;
  std::string plans;  // where prompts were read sparsely
  const bool read = from.get(position) && from.get(due) && from.get_all(saved_logits) && from.get_all(compression) &&
                    (from.done() || from.get_all(plans));
  const auto vocab = static_cast<size_t>(model.config().vocab);
  const bool fits = saved_logits.empty() || saved_logits.size() == vocab;
  if (!read || !from.done() || position < store.next_position() || !fits)
    return Error{ErrorKind::kUsage, "what the cache was saved with is damaged"};
  if (compressor && !compression.empty()) EI_RETURN_IF_ERROR(compressor->recall(*stream, compression));
  if (planner && !plans.empty()) EI_RETURN_IF_ERROR(planner->recall(plans, store.next_position()));
  if (position == store.next_position()) {
    logits = std::move(saved_logits);
    compression_due = compressor && due != 0;
    return {};
  }
  // The cache was cut: what is left counts as a prompt.
  if (compressor) {
    compressor->forget_clock();
    compressor->rewound(store);
  }
  return {};
}

}  // namespace ei
