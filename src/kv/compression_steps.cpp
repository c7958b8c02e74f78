#include "kv/compression_steps.h"

#include <utility>

#include "kv/key_measure.h"

namespace ei::kv {
namespace {

const ScratchSlot kHostScores, kStreamScores, kEntropies;

// Calls make(params) with what is known of a layer's queries.
template <typename Made, typename Make>
Made with_expected(Stream& stream, const Compression& run, size_t index, Make make) {
  const int layer = run.layers[index];
  const std::vector<int32_t> positions = run.observer.positions();
  const Matrix queries = run.observer.queries(stream, layer);
  EI_RETURN_IF_ERROR(stream.synchronize());
  std::vector<float> rows(static_cast<size_t>(queries.rows * queries.cols));
  EI_RETURN_IF_ERROR(stream.read(queries, rows.data()));
  const KvView view = run.view(index);
  return make(ExpectedParams{.queries = rows,
                             .positions = positions,
                             .heads = run.shape.heads,
                             .scale = run.shape.attention_scale,
                             .rope = run.shape.ropes[static_cast<size_t>(layer)],
                             .next_position = run.store.next_position(),
                             .kv = view,
                             .stride = longest_head(view)});
}

}  // namespace

bool AttentionStep::wanted(const policy::KvNeeds& needs) {
  return needs.queries != policy::QuerySource::kNone && ((!needs.expected && !needs.accumulated) || needs.row_entropy);
}

Status AttentionStep::reserve(Stream& stream, const Compression& run, bool host_reads) {
  const policy::KvNeeds needs = run.method.needs();
  if (!wanted(needs) || run.layers.empty()) return {};
  const int64_t heads = run.shape.heads;
  if (needs.row_entropy) {
    EI_ASSIGN_OR_RETURN(float* entropies, stream.shared(kEntropies, heads));
    entropies_ = {entropies, static_cast<size_t>(heads)};
  }
  if (host_reads) {
    EI_ASSIGN_OR_RETURN(scores_, stream.shared(kHostScores, run.slots * heads));
  } else {
    EI_ASSIGN_OR_RETURN(const Matrix scores, stream.scratch(kStreamScores, heads, run.slots));
    scores_ = scores.data;
  }
  return {};
}

void AttentionStep::record(Stream& stream, const Compression& run, size_t index) const {
  if (scores_ == nullptr) return;
  const KvView view = run.view(index);
  const std::vector<int32_t> positions = run.observer.positions();
  const Matrix queries = run.observer.queries(stream, run.layers[index]);
  const void* staged = stream.stage(positions.data(), positions.size() * sizeof(positions[0]));
  stream.window_scores({.q = queries.data,
                        .q_stride = queries.stride,
                        .positions = static_cast<const int32_t*>(staged),
                        .window = queries.rows,
                        .num_heads = run.shape.heads,
                        .scale = run.shape.attention_scale,
                        .kv = view,
                        .scores = scores_,
                        .score_stride = longest_head(view),
                        .entropy = entropies_.data()});
}

Result<RateStep::Measured> RateStep::measure(Stream& stream, size_t index) const {
  const policy::KvNeeds needs = run_.method.needs();
  Measured measured;
  if (needs.expected) {
    EI_ASSIGN_OR_RETURN(
        measured.expected,
        with_expected<Result<std::vector<float>>>(stream, run_, index, [&](const ExpectedParams& params) {
          return stream.measures_slots() ? expected_attention(stream, params) : expected_attention(backend_, params);
        }));
  }
  if (needs.accumulated) {
    EI_ASSIGN_OR_RETURN(measured.accumulated, sums_.scores(run_.layers[index], longest_head(run_.view(index))));
  }
  if (needs.keys != policy::KeyMeasure::kNone) {
    const KvView view = run_.view(index);
    const int64_t stride = longest_head(view);
    EI_ASSIGN_OR_RETURN(measured.keys, stream.measures_slots() ? measure_keys(stream, view, needs.keys, stride)
                                                               : measure_keys(backend_, view, needs.keys, stride));
  }
  return measured;
}

Status RateStep::measure_there(Stream& stream, size_t index, Matrix scores) const {
  const policy::KvNeeds needs = run_.method.needs();
  if (needs.expected)
    return with_expected<Status>(stream, run_, index, [&](const ExpectedParams& params) -> Status {
      expect_attention(stream, params, scores.data);
      return {};
    });
  if (needs.accumulated) {
    sums_.scores(stream, run_.layers[index], scores);
  } else {
    score_keys(stream, run_.view(index), needs.keys, scores);
  }
  return {};
}

Status RateStep::record(Stream& stream, size_t index) {
  EI_ASSIGN_OR_RETURN(Measured measured, measure(stream, index));
  stream.host([this, index, measured = std::move(measured)] { on_host(index, measured); });
  return {};
}

void RateStep::on_host(size_t index, const Measured& measured) {
  const KvView view = run_.view(index);
  const std::vector<int64_t> lengths = lengths_of(view);
  policy::LayerRating rating = run_.method.rate({.layer = static_cast<int32_t>(index),
                                                 .lengths = lengths,
                                                 .attention = attention_.scores(),
                                                 .stride = longest_head(view),
                                                 .row_entropy = attention_.entropies(),
                                                 .keys = measured.keys,
                                                 .expected = measured.expected,
                                                 .accumulated = measured.accumulated,
                                                 .aligned = aligned(view)});
  carried_.add_to(index, rating);
  if (run_.budgets_known()) return keep(index, rating);
  run_.states[index] = rating.state(run_.states[index].held);
  ratings_[index] = std::move(rating);
}

void RateStep::record_shares(Stream& stream) {
  stream.host([this] { run_.share_out(); });
  for (size_t index = 0; index < run_.layers.size(); ++index) {
    stream.host([this, index] {
      keep(index, ratings_[index]);
      ratings_[index] = {};
    });
  }
}

void RateStep::keep(size_t index, const policy::LayerRating& rating) {
  LayerKeeps& keeps = run_.keeps_of(index);
  keeps = run_.method.keep(rating, run_.budgets[index]);
  carried_.remember(index, rating, keeps);
}

}  // namespace ei::kv
