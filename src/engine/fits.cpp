#include "engine/fits.h"

#include <algorithm>

#include "base/units.h"
#include "engine/memory.h"
#include "engine/session_state.h"
#include "engine/wanted_logits.h"

namespace ei {

namespace {

// A prompt that ends at `end`, in such chunks and pieces of them.
PromptShape shape_of(const model::Config& config, const kv::Store& store, int64_t end, int64_t chunk, int64_t piece) {
  const kv::StoreConfig& kv = store.config();
  const int64_t heads = int64_t{kv.layers} * kv.kv_heads;
  return {.chunk = chunk,
          .piece = piece,
          .angles = static_cast<int64_t>(config.ropes.size()) * config.rope_dims,
          .heads = heads,
          .pages = heads * (end / kv.page_slots + 1),
          .positions = store.exact() ? 0 : store.tokens_kept(),
          .widest = std::max({config.width, config.heads * config.head_dim, config.ffn_width})};
}

}  // namespace

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
  const int64_t chunk = std::min(slots, session.batch());
  const int64_t beside = engine.backend().stream_room(
      shape_of(engine.config(), session.store(), std::min(slots, session.context()), chunk, chunk));
  const double more = static_cast<double>(need.kv) + static_cast<double>(need.scratch) + static_cast<double>(room) +
                      static_cast<double>(beside) - static_cast<double>(session.store().bytes());
  const int64_t available = free_bytes(engine.backend());
  if (available < 0 || more <= static_cast<double>(available)) return {};
  return make_error(ErrorKind::kMemory,
                    "a context of %lld tokens needs %s more, but only %s of memory is available; shorten the text or "
                    "ask for fewer tokens",
                    static_cast<long long>(slots), format_bytes(more).c_str(),
                    format_bytes(static_cast<double>(available)).c_str());
}

bool beyond_training(const Engine& engine, int64_t tokens) { return tokens > engine.config().context; }

PromptNeed Session::prompt_need(int64_t tokens) const { return state_->need_of(tokens, 1); }

PromptNeed Session::State::need_of(int64_t added, int64_t wanted) const {
  const model::Config& config = model.config();
  const kv::StoreConfig& kv = store.config();
  const Backend& backend = engine.backend();
  const int64_t first = reading().next_position();
  const int64_t end = first + added;
  const int64_t appended = end - store.next_position();  // with those that only a view holds
  // As the prompt will be cut: a method may want all of it at once, in pieces of a chunk.
  const int64_t chunk = sparse() ? planner->longest_chunk(added, batch) : std::min(added, batch);
  const int64_t piece = std::min(added, batch);
  const int64_t spare = added >= batch ? model::spare_bytes(config, batch) : 0;
  PromptShape shape = shape_of(config, store, end, chunk, piece);
  shape.reads_parts = chunk > piece || wanted > 1;
  return {.cache = store.bytes_missing(appended),
          .activations = model::activation_bytes(config, chunk, piece, std::min(wanted, logits_together(config.vocab))),
          .layer = backend.layer_room(kv.key_type, int64_t{kv.kv_heads} * kv.head_dim, end + chunk),
          .stream = backend.stream_room(shape),
          .planner = planner ? planner->bytes_for(first, end, batch, spare) : 0,
          .compressor = compressor ? compressor->bytes_for(end) : 0};
}

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
  const int64_t need = need_of(added, wanted).total();
  const int64_t available = free_bytes(engine.backend());
  if (available >= 0 && need > available) {
    return make_error(
        ErrorKind::kMemory, "%lld tokens need %lld MiB for the KV cache and activations, only %lld MiB are free",
        static_cast<long long>(added), static_cast<long long>(need >> 20), static_cast<long long>(available >> 20));
  }
  return {};
}

}  // namespace ei
