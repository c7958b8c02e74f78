// A session that goes on from where another stands.
#include "engine/session_state.h"

namespace ei {

Result<std::unique_ptr<Session>> Session::fork(const SessionOptions& options) const {
  EI_ASSIGN_OR_RETURN(std::unique_ptr<Session> made, engine().new_session(options));
  EI_ASSIGN_OR_RETURN(kv::Store store, state_->reading().fork());
  EI_RETURN_IF_ERROR(made->adopt(std::move(store), tokens()));
  State& state = *made->state_;
  state.logits = state_->logits;
  state.stats = state_->stats;
  if (state.planner && state_->planner)
    EI_RETURN_IF_ERROR(state.planner->recall(state_->planner->memory(), state.store.next_position()));
  if (!state.compressor) return made;
  if (state_->compressor) {
    EI_RETURN_IF_ERROR(state.compressor->take(*state.stream, *state_->compressor));
    EI_RETURN_IF_ERROR(state.stream->synchronize());
  }
  state.compression_due = state.compressor->prompt_read(state.store);
  const double before = state.stats.compress_s;
  const Status compressed = state.compress_if_due();
  state.stats.prompt_s += state.stats.compress_s - before;
  if (!compressed.ok()) return compressed.error();
  return made;
}

}  // namespace ei
