#include "engine/fits.h"

#include <algorithm>

#include "base/units.h"
#include "engine/memory.h"
#include "engine/session_state.h"
#include "engine/wanted_logits.h"

namespace ei {

Status check_prompt_fits(const Session& session, int64_t prompt_tokens) {
  if (prompt_tokens <= session.context()) return {};
  const int64_t trained = session.engine().config().context;
  const std::string cure = prompt_tokens <= trained ? "raise --ctx-size"
                                                    : str_format("this model was trained for %lld, shorten it",
                                                                 static_cast<long long>(trained));
  return make_error(ErrorKind::kUsage, "prompt is longer than the context: %lld > %lld tokens; %s",
                    static_cast<long long>(prompt_tokens), static_cast<long long>(session.context()), cure.c_str());
}

Status check_cache_fits(const Session& session, int64_t slots) {
  const Engine& engine = session.engine();
  const kv::StoreConfig& types = session.store().config();
  const MemoryNeed need = memory_need(engine.config(), engine.file(), std::min(slots, session.context()),
                                      types.key_type, types.value_type, session.batch());
  const int64_t room = engine.backend().layer_room(types.key_type, int64_t{types.kv_heads} * types.head_dim,
                                                   std::min(slots, session.context()));
  const double more = static_cast<double>(need.kv) + static_cast<double>(need.scratch) + static_cast<double>(room) -
                      static_cast<double>(session.store().bytes());
  const int64_t available = free_bytes(engine.backend());
  if (available < 0 || more <= static_cast<double>(available)) return {};
  return make_error(ErrorKind::kMemory,
                    "a context of %lld tokens needs %s more, but only %s of memory is available; shorten the text or "
                    "ask for fewer tokens",
                    static_cast<long long>(slots), format_bytes(more).c_str(),
                    format_bytes(static_cast<double>(available)).c_str());
}

bool beyond_training(const Engine& engine, int64_t tokens) { return tokens > engine.config().context; }

Status Session::State::check_room(std::span<const int32_t> tokens, int64_t wanted) const {
  const int64_t first = reading().next_position();
  const auto added = static_cast<int64_t>(tokens.size());
  if (added == 0) return make_error(ErrorKind::kUsage, "the prompt is empty");
  if (first + added > context) {
    return make_error(ErrorKind::kUsage, "prompt is longer than the context: %lld > %lld tokens; raise --ctx-size",
                      static_cast<long long>(first + added), static_cast<long long>(context));
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= model.config().vocab) {
      return make_error(ErrorKind::kUsage, "token %d is not in the vocabulary of %d", token, model.config().vocab);
    }
  }
  const kv::StoreConfig& kv = store.config();
  const int64_t appended = first + added - store.next_position();  // with those that only a view holds
  // As the prompt will be cut: a method may want all of it at once, in pieces of a chunk.
  const int64_t chunk = sparse() ? planner->longest_chunk(added, batch) : std::min(added, batch);
  const int64_t spare = added > batch ? model::spare_bytes(model.config(), batch) : 0;
  const int64_t need = appended * model.config().kv_bytes_per_token(kv.key_type, kv.value_type) +
                       model::activation_bytes(model.config(), chunk, std::min(added, batch),
                                               std::min(wanted, logits_together(model.config().vocab))) +
                       engine.backend().layer_room(kv.key_type, int64_t{kv.kv_heads} * kv.head_dim, first + added) +
                       (planner ? planner->bytes_for(first + added, spare) : 0) +
                       (compressor ? compressor->bytes_for(first + added) : 0);
  const int64_t available = free_bytes(engine.backend());
  if (available >= 0 && need > available) {
    return make_error(
        ErrorKind::kMemory, "%lld tokens need %lld MiB for the KV cache and activations, only %lld MiB are free",
        static_cast<long long>(added), static_cast<long long>(need >> 20), static_cast<long long>(available >> 20));
  }
  return {};
}

}  // namespace ei
