#include "sparse/midrange_step.h"

#include <cmath>

namespace ei::sparse {

namespace {
const ScratchSlot kRepresentatives, kMidrangeScores, kProbabilities, kMidrangeEntropy, kCovering;
}  // namespace

Status MidrangeStep::reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows,
                             const policy::PrefillMethod& method) {
  const int64_t lists = num_lists(rows);
  ranks_probabilities_ = policy::ranks_on_probabilities(method.options());
  covers_ = method.covers() > 0;
  EI_ASSIGN_OR_RETURN(representatives_,
                      stream.scratch(kRepresentatives, rows.num_segments, int64_t{shape.heads} * shape.head_dim));
  EI_ASSIGN_OR_RETURN(scores_, stream.scratch(kMidrangeScores, lists, rows.stride));
  if (method.options().layer_fusion || ranks_probabilities_) {
    EI_ASSIGN_OR_RETURN(probabilities_, stream.scratch(kProbabilities, lists, rows.stride));
  }
  if (covers_) EI_RETURN_IF_ERROR(covering_.reserve(stream, kCovering, shape.layers(), lists));
  return entropy_.reserve(stream, kMidrangeEntropy, shape.layers(), lists);
}

void MidrangeStep::record(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method,
                          const BlockIndex& index, bool follows) const {
  const policy::PrefillOptions& options = method.options();
  const int64_t into = turn.first % options.segment;  // of a segment that was begun before
  stream.query_midrange({.q = turn.q.data,
                         .q_stride = turn.q.stride,
                         .tokens = turn.tokens,
                         .first_rows = into != 0 ? options.segment - into : 0,
                         .segment = options.segment,
                         .num_heads = turn.shape.heads,
                         .head_dim = turn.shape.head_dim,
                         .out = representatives_.data});
  const bool scaled = options.logit_scale == policy::LogitScale::kInverseSqrtDim;
  stream.block_scores({.rows = turn.rows,
                       .queries = representatives_.data,
                       .num_heads = turn.shape.heads,
                       .head_dim = turn.shape.head_dim,
                       .keys = index.view(turn.layer),
                       .scale = scaled ? 1.0f / std::sqrt(static_cast<float>(turn.shape.head_dim)) : 1.0f,
                       .scores = scores_.data});
  stream.block_entropy({.rows = turn.rows,
                        .scores = scores_.data,
                        .previous = policy::fuses(options, turn.layer, follows) ? probabilities_.data : nullptr,
                        .probabilities = probabilities_.data,
                        .entropy = entropy_.of(turn.layer),
                        .covering = covers_ ? covering_.of(turn.layer) : nullptr,
                        .cover = static_cast<float>(method.covers())});
}

void MidrangeStep::on_host(int layer, policy::LayerRecords& run) const {
  for (size_t i = 0; i < run.size(); ++i) {
    for (size_t h = 0; h < run[i].heads.size(); ++h) {
      policy::HeadRecord& head = run[i].heads[h];
      const size_t list = h * run.size() + i;
      head.midrange_entropy = entropy_.of(layer)[list];
      if (covers_) head.covering = static_cast<int32_t>(covering_.of(layer)[list]);
    }
  }
}

}  // namespace ei::sparse
