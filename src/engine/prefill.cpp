// The forward pass over one chunk, as the paper draws it: embed; per layer project -> append -> plan (measure, decide,
// select) -> attend -> finish; logits. Everything is recorded on the session's stream, which runs it afterwards.
#include <algorithm>

#include "engine/session_state.h"
#include "engine/wanted_logits.h"

namespace ei {

Result<Session::State::Rows> Session::State::record(std::span<const int32_t> chunk, Wanted rows, bool plan) {
  const auto tokens = static_cast<int64_t>(chunk.size());
  kv::Store& cache = reading();
  const int32_t first = cache.next_position();
  EI_RETURN_IF_ERROR(cache.reserve(tokens));
  // Where this chunk is a whole one, or one was read before, that much memory is there.
  const bool whole = first >= batch || tokens >= batch;
  const int64_t spare = plan && whole ? planner->spare_for(model::spare_bytes(model.config(), batch)) : 0;
  // A chunk is longer than a batch where a method looks at the whole prompt before it decides.
  EI_ASSIGN_OR_RETURN(model::Activations act, model.activations(*stream, tokens, std::min(tokens, batch), spare));
  Rows out;
  EI_ASSIGN_OR_RETURN(out.logits, stream->scratch(kLogitsSlot, rows.logits, model.config().vocab));
  if (plan) EI_RETURN_IF_ERROR(planner->begin_chunk(*stream, first, tokens, act.spare));
  const std::vector<RopeTable> ropes = stage_angles(first, tokens);

  model.embed(*stream, chunk, act);  // [tokens, width]
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    const model::LayerFacts& facts = model.config().per_layer[static_cast<size_t>(layer)];
    // Q K V [tokens, heads | kv_heads, head_dim], rotated; K and V go where the cache says.
    model.project_qkv(*stream, layer, act, ropes[static_cast<size_t>(facts.rope)], cache.append(layer, tokens));
    if (compressor) EI_RETURN_IF_ERROR(compressor->record(*stream, layer, model.query(act), first, cache.view(layer)));
    // Behind the last layer's keys and values only the rows whose logits are wanted matter.
    const bool last = layer + 1 == model.num_layers();
    const int64_t wanted = last ? rows.tail : tokens;
    const BlockPlan* blocks = nullptr;  // null: everything is read
    if (plan && planner->plans(layer))
      blocks = planner->record(*stream, layer, model.query(act), cache.view(layer), wanted);
    if (reads_pages) {
      EI_ASSIGN_OR_RETURN(blocks, pages->record(*stream, layer, model.query(act), cache.view(layer)));
    }
    if (wanted == 0) break;
    for (int64_t row = tokens - wanted, end = 0; row < tokens; row = end) {
      end = std::min(tokens, row - row % act.piece() + act.piece());
      const model::Activations piece = act.rows(row, end - row);
      stream->attention(attention_of(layer, piece, static_cast<int32_t>(first + row), blocks));
      model.finish_layer(*stream, layer, piece);
    }
    if (on_layers && !last) stream->host([this, layer] { on_layers(layer + 1); });
    if (last) out.normed = act.normed.row_range(tokens - wanted, wanted);
  }
  if (rows.tail > 0) model.logits(*stream, out.normed.row_range(0, out.logits.rows), out.logits);
  return out;
}

kernels::AttentionParams Session::State::attention_of(int layer, const model::Activations& act, int32_t first_position,
                                                      const BlockPlan* blocks) const {
  const model::Config& config = model.config();
  const Matrix q = model.query(act);
  return {.q = q.data,
          .q_stride = q.stride,
          .out = act.attended.data,
          .out_stride = act.attended.stride,
          .tokens = q.rows,
          .num_heads = config.heads,
          .first_position = first_position,
          .scale = config.attention_scale,
          .scale_queries = config.scaled_queries,
          .window = config.per_layer[static_cast<size_t>(layer)].window,
          .plan = blocks,
          .kv = reading().view(layer)};
}

}  // namespace ei
