#include "engine/decode_batch.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine_state.h"
#include "engine/session_state.h"
#include "engine/wanted_logits.h"

namespace ei {

namespace {
// Kernels take rows by fours: what is missing is filled up with rows that nobody reads.
int64_t filled_rows(size_t feeds) {
  constexpr int64_t kTogether = 4;
  const auto rows = static_cast<int64_t>(feeds);
  return rows < kTogether - 1 ? rows : (rows + kTogether - 1) / kTogether * kTogether;
}
}  // namespace

void DecodeBatch::decode_alone(Feed& feed) {
  feed.status = feed.session->decode(feed.token);
  // A compression that was interrupted leaves the logits of the token that was fed.
  if (feed.status.ok() && feed.then) feed.then();
}

void DecodeBatch::decode(std::span<Feed> feeds) {
  std::vector<Feed*> joined;
  std::vector<Feed*> alone;
  for (Feed& feed : feeds) {
    Session::State& state = *feed.session->state_;
    feed.status = state.check_token(feed.token);
    if (!feed.status.ok()) continue;
    const bool alike = joined.empty() || state.same_pages(*joined.front()->session->state_);
    const bool joins = engine_.backend().decodes_together() && state.reads_all() && alike && joined.size() < kMost;
    (joins ? joined : alone).push_back(&feed);
  }
  if (joined.size() == 1) {
    alone.push_back(joined.front());
    joined.clear();
  }
  if (!joined.empty()) decode_together(joined);
  for (Feed* feed : alone) decode_alone(*feed);
}

void DecodeBatch::decode_together(std::span<Feed*> feeds) {
  const double start = now_s();
  if (!stream_) {
    Result<std::unique_ptr<Stream>> made = engine_.backend().new_stream(/*cancel=*/nullptr);
    if (!made.ok()) {
      for (Feed* feed : feeds) decode_alone(*feed);
      return;
    }
    stream_ = std::move(*made);
  }
  // Who finds no room in its cache leaves, and the others go on.
  std::vector<Feed*> joined;
  for (Feed* feed : feeds) {
    Session::State& state = *feed->session->state_;
    state.prompt.reset();
    feed->status = state.reading().reserve(1);
    if (feed->status.ok()) joined.push_back(feed);
  }
  if (joined.empty()) return;
  stream_->enter(Phase::kGeneration, 1);
  std::vector<int32_t> first;
  first.reserve(joined.size());
  for (const Feed* feed : joined) first.push_back(feed->session->state_->reading().next_position());
  Status recorded;
  try {
    recorded = record(joined);
  } catch (const std::bad_alloc&) {
    recorded = make_error(ErrorKind::kMemory, "out of memory");
  }
  const Status ran = stream_->synchronize();
  if (!recorded.ok() || !ran.ok()) {
    // Together they asked for too much, perhaps: everything is taken back, and each has its own try.
    for (size_t i = 0; i < joined.size(); ++i) {
      joined[i]->status = joined[i]->session->state_->reading().truncate(first[i]);
      if (joined[i]->status.ok()) decode_alone(*joined[i]);
    }
    return;
  }
  const double share_s = (now_s() - start) / static_cast<double>(joined.size());
  for (size_t i = 0; i < joined.size(); ++i) {
    Session::State& state = *joined[i]->session->state_;
    if (state.compressor) state.compressor->advance(first[i], 1);
    state.held.push_back(joined[i]->token);
    joined[i]->status = state.token_fed(share_s, /*paged=*/false);
  }
}

std::vector<RopeTable> DecodeBatch::stage_angles(std::span<Feed*> feeds, int64_t rows) {
  const model::Config& config = engine_.config();
  std::vector<RopeTable> tables;
  for (const Rope& rope : config.ropes) {
    const auto width = static_cast<size_t>(config.rope_dims / 2);
    std::vector<float> cos(static_cast<size_t>(rows) * width, 1.0f);
    std::vector<float> sin(static_cast<size_t>(rows) * width, 0.0f);
    RopeAngles one;
    for (size_t i = 0; i < feeds.size(); ++i) {
      fill_rope(rope, config.rope_dims, feeds[i]->session->state_->reading().next_position(), 1, one);
      std::copy_n(one.cos.data(), width, cos.data() + i * width);
      std::copy_n(one.sin.data(), width, sin.data() + i * width);
    }
    tables.push_back({.cos = static_cast<const float*>(stream_->stage(cos.data(), cos.size() * sizeof(float))),
                      .sin = static_cast<const float*>(stream_->stage(sin.data(), sin.size() * sizeof(float))),
                      .dims = config.rope_dims,
                      .interleaved = config.rope_interleaved,
                      .rope = &rope,
                      .first_position = 0});
  }
  return tables;
}

// prefill.cpp's pass with a row of each session in place of the rows of a chunk.
Status DecodeBatch::record(std::span<Feed*> feeds) {
  const model::Model& model = engine_.state_->model;
  const int64_t rows = filled_rows(feeds.size());
  std::vector<int32_t> tokens(static_cast<size_t>(rows), 0);
  std::vector<int32_t> position;
  for (size_t i = 0; i < feeds.size(); ++i) {
    tokens[i] = feeds[i]->token;
    position.push_back(feeds[i]->session->state_->reading().next_position());
  }
  EI_ASSIGN_OR_RETURN(const model::Activations act, model.activations(*stream_, rows, rows));
  EI_ASSIGN_OR_RETURN(logits_, stream_->scratch(kLogitsSlot, rows, model.config().vocab));
  const std::vector<RopeTable> ropes = stage_angles(feeds, rows);

  model.embed(*stream_, tokens, act);
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    const model::LayerFacts& facts = model.config().per_layer[static_cast<size_t>(layer)];
    KvAppend append;
    for (size_t i = 0; i < feeds.size(); ++i) {
      KvAppend own = feeds[i]->session->state_->reading().append(layer, 1);
      append.shape = own.shape;
      for (KvAppend::Run& run : own.runs) {
        run.token += static_cast<int64_t>(i);
        append.runs.push_back(run);
      }
    }
    model.project_qkv(*stream_, layer, act, ropes[static_cast<size_t>(facts.rope)], append);
    std::vector<kernels::AttentionParams> calls;
    for (size_t i = 0; i < feeds.size(); ++i) {
      Session::State& state = *feeds[i]->session->state_;
      const model::Activations row = act.rows(static_cast<int64_t>(i), 1);
      if (state.compressor)
        EI_RETURN_IF_ERROR(
            state.compressor->record(*stream_, layer, model.query(row), position[i], state.reading().view(layer)));
      kernels::AttentionParams call = state.attention_of(layer, row, position[i], /*blocks=*/nullptr);
      call.out = act.attended.data + static_cast<int64_t>(i) * act.attended.stride;
      calls.push_back(call);
    }
    stream_->attention_each(calls);
    // Rows that fill up are no session's: any numbers will do for them, in all layers.
    for (int64_t row = static_cast<int64_t>(feeds.size()); layer == 0 && row < rows; ++row)
      stream_->copy(act.attended.row_range(0, 1), act.attended.row_range(row, 1));
    model.finish_layer(*stream_, layer, act);
  }
  model.logits(*stream_, act.normed, logits_);
  stream_->host_each(static_cast<int64_t>(feeds.size()),
                     [this, feeds = std::vector(feeds.begin(), feeds.end())](int64_t i) {
                       const Feed& feed = *feeds[static_cast<size_t>(i)];
                       Session::State& state = *feed.session->state_;
                       state.logits.resize(static_cast<size_t>(logits_.cols));
                       EI_CHECK(stream_->read(logits_.row_range(i, 1), state.logits.data()).ok());  // it lies here
                       if (feed.then) feed.then();
                     });
  return {};
}

}  // namespace ei
