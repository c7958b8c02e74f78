#include "kv/attention_sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kv/layer_lengths.h"

namespace ei::kv {
namespace {

constexpr int64_t kCapacityStep = 1024;  // slots

int64_t rounded_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
// Only a damaged file has lost some.
Status check_waiting(const Observer& waiting, int64_t wanted) {
  if (waiting.size() >= wanted) return {};
  return make_error(ErrorKind::kUsage, "the cache came with %lld queries where %lld wait to be added up",
                    static_cast<long long>(waiting.size()), static_cast<long long>(wanted));
}

size_t bytes_of(int64_t doubles) { return static_cast<size_t>(doubles) * sizeof(double); }

}  // namespace

AttentionSums::AttentionSums(const Backend& backend, AttentionSumsShape shape)
    : backend_(&backend), shape_(std::move(shape)), layers_(shape_.taken.size()) {
  wanted_ = std::any_of(shape_.taken.begin(), shape_.taken.end(), [](uint8_t taken) { return taken != 0; });
  clear();
}

int32_t AttentionSums::counted_at(int64_t end) const {
  const int64_t over = end - counted_ - kWaiting;
  if (over <= 0) return counted_;
  return static_cast<int32_t>(std::min(end, counted_ + rounded_up(over, kTogether)));
}

Status AttentionSums::resize(Layer& layer, int64_t capacity) {
  std::array<Buffer, 2> memory;
  for (Buffer& one : memory) {
    EI_ASSIGN_OR_RETURN(one, backend_->allocate(bytes_of(shape_.heads * capacity)));
  }
  const int64_t held = *std::max_element(layer.lengths.begin(), layer.lengths.end());
  for (int64_t head = 0; head < shape_.heads && held > 0; ++head) {
    EI_RETURN_IF_ERROR(backend_->copy_within(static_cast<double*>(memory[now_].data()) + head * capacity,
                                             sums(layer, now_) + head * layer.capacity, bytes_of(held)));
  }
  layer.memory = std::move(memory);
  layer.capacity = capacity;
  return {};
}

Status AttentionSums::grow(Layer& layer, int64_t slots) {
  if (slots <= layer.capacity) return {};
  return resize(layer, rounded_up(std::max(slots, layer.capacity + layer.capacity / 4), kCapacityStep));
}

void AttentionSums::add(Stream& stream, Layer& layer, Matrix q, int32_t first, const KvView& view, bool begin) const {
  std::vector<int32_t> positions(static_cast<size_t>(q.rows));
  std::iota(positions.begin(), positions.end(), first);
  const void* staged = stream.stage(positions.data(), positions.size() * sizeof(positions[0]));
  const size_t next = 1 - now_;
  stream.attention_sums({.queries = {.q = q.data,
                                     .q_stride = q.stride,
                                     .positions = static_cast<const int32_t*>(staged),
                                     .window = q.rows,
                                     .num_heads = shape_.heads,
                                     .scale = shape_.attention_scale,
                                     .kv = view},
                         .before = sums(layer, begin ? now_ : next),
                         .counted = begin ? layer.lengths : layer.following,
                         .sums = sums(layer, next),
                         .stride = layer.capacity});
}

Status AttentionSums::record(Stream& stream, int layer, const Observer& waiting, Matrix q, int32_t first,
                             const KvView& view) {
  if (!wanted_ || !takes(layer)) return {};
  if (since_ < 0) since_ = counted_ = first;
  const int32_t end = counted_at(first + q.rows);
  if (end == counted_) return {};
  Layer& own = layers_[static_cast<size_t>(layer)];
  EI_RETURN_IF_ERROR(grow(own, longest_head(view)));
  own.following = lengths_of(view);
  const int64_t old = std::min(first, end) - counted_;  // of those that wait
  if (old > 0) {
    EI_RETURN_IF_ERROR(check_waiting(waiting, first - counted_));
    const Matrix held = waiting.queries(stream, layer);
    add(stream, own, held.row_range(held.rows - (first - counted_), old), counted_, view, /*begin=*/true);
  }
  if (end > first) add(stream, own, q.row_range(0, end - first), first, view, /*begin=*/old <= 0);
  return {};
}

void AttentionSums::advance(int32_t first, int64_t tokens) {
  if (!wanted_) return;
  const int32_t end = counted_at(first + tokens);
  if (end == counted_) return;
  counted_ = end;
  now_ = 1 - now_;
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    if (shape_.taken[layer] != 0) layers_[layer].lengths = layers_[layer].following;
}

Status AttentionSums::flush(Stream& stream, const Observer& waiting, const Store& store) {
  const int32_t end = store.next_position();
  if (!wanted_ || since_ < 0 || end <= counted_) return {};
  EI_RETURN_IF_ERROR(check_waiting(waiting, end - counted_));
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    if (shape_.taken[layer] == 0) continue;
    const KvView view = store.view(static_cast<int>(layer));
    EI_RETURN_IF_ERROR(grow(layers_[layer], longest_head(view)));
    layers_[layer].following = lengths_of(view);
    const Matrix held = waiting.queries(stream, static_cast<int>(layer));
    const int64_t rows = end - counted_;
    add(stream, layers_[layer], held.row_range(held.rows - rows, rows), counted_, view, /*begin=*/true);
  }
  EI_RETURN_IF_ERROR(stream.synchronize());
  counted_ = end;
  now_ = 1 - now_;
  for (Layer& layer : layers_) layer.lengths = layer.following;
  return {};
}

Result<std::vector<float>> AttentionSums::scores(int layer, int64_t stride) const {
  const Layer& own = layers_[static_cast<size_t>(layer)];
  const int32_t group = shape_.heads / shape_.kv_heads;
  std::vector<float> scores(static_cast<size_t>(shape_.heads * stride));
  std::vector<double> row;
  for (int32_t head = 0; head < shape_.heads; ++head) {
    row.resize(static_cast<size_t>(std::min(stride, own.lengths[static_cast<size_t>(head / group)])));
    EI_RETURN_IF_ERROR(backend_->copy_out(row.data(), sums(own, now_) + head * own.capacity,
                                          bytes_of(static_cast<int64_t>(row.size()))));
    std::transform(row.begin(), row.end(), scores.begin() + head * stride,
                   [](double one) { return static_cast<float>(one); });
  }
  return scores;
}

void AttentionSums::scores(Stream& stream, int layer, Matrix to) const {
  const Layer& own = layers_[static_cast<size_t>(layer)];
  stream.sum_scores({.sums = sums(own, now_),
                     .sum_stride = own.capacity,
                     .num_heads = shape_.heads,
                     .slots = std::min(to.cols, own.capacity),
                     .scores = to.data,
                     .stride = to.stride});
}

Status AttentionSums::compact(int layer, int kv_head, const KeepList& keep) {
  if (!wanted_ || !takes(layer)) return {};
  Layer& own = layers_[static_cast<size_t>(layer)];
  const int64_t length = own.lengths[static_cast<size_t>(kv_head)];
  const int32_t group = shape_.heads / shape_.kv_heads;
  const int64_t first = int64_t{kv_head} * group * own.capacity;
  // Slots behind `length` have no sums yet. The next chunk writes where the room is, and reads nothing there before.
  const std::span<const int32_t> kept(keep.begin(), std::lower_bound(keep.begin(), keep.end(), length));
  EI_RETURN_IF_ERROR(backend_->keep_sums({.sums = sums(own, now_) + first,
                                          .room = sums(own, 1 - now_) + first,
                                          .rows = group,
                                          .stride = own.capacity,
                                          .keep = kept}));
  own.lengths[static_cast<size_t>(kv_head)] = static_cast<int64_t>(kept.size());
  return {};
}

Status AttentionSums::shrink() {
  for (Layer& layer : layers_) {
    const int64_t held = *std::max_element(layer.lengths.begin(), layer.lengths.end());
    const int64_t capacity = rounded_up(held + 1, kCapacityStep);
    if (layer.capacity > 2 * capacity) EI_RETURN_IF_ERROR(resize(layer, capacity));
  }
  return {};
}

void AttentionSums::truncate(int32_t position) {
  if (position > 0 && position >= counted_) return;  // those that waited are forgotten by the observer
  since_ = counted_ = -1;
  for (Layer& layer : layers_) {
    layer.memory = {};
    layer.capacity = 0;
    layer.lengths.assign(static_cast<size_t>(shape_.kv_heads), 0);
    layer.following = layer.lengths;
  }
}

Result<AttentionSums> AttentionSums::copy() const {
  AttentionSums made(*backend_, shape_);
  made.since_ = since_;
  made.counted_ = counted_;
  made.now_ = now_;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const Layer& from = layers_[layer];
    if (from.capacity == 0) continue;
    Layer& to = made.layers_[layer];
    EI_RETURN_IF_ERROR(made.resize(to, from.capacity));
    EI_RETURN_IF_ERROR(
        backend_->copy_within(made.sums(to, now_), sums(from, now_), bytes_of(shape_.heads * from.capacity)));
    to.lengths = from.lengths;
  }
  return made;
}

Status AttentionSums::save(ByteWriter& to) const {
  to.put(shape_.heads);
  to.put(shape_.kv_heads);
  to.put_all(shape_.taken);
  to.put(since_);
  to.put(counted_);
  const int32_t group = shape_.heads / shape_.kv_heads;
  std::vector<double> row;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    if (shape_.taken[layer] == 0) continue;
    for (int32_t head = 0; head < shape_.heads; ++head) {
      row.resize(static_cast<size_t>(layers_[layer].lengths[static_cast<size_t>(head / group)]));
      if (!row.empty())
        EI_RETURN_IF_ERROR(backend_->copy_out(row.data(), sums(layers_[layer], now_) + head * layers_[layer].capacity,
                                              bytes_of(static_cast<int64_t>(row.size()))));
      to.put_all(row);
    }
  }
  return {};
}

Status AttentionSums::restore(ByteReader& from) {
  clear();
  const Error damaged{ErrorKind::kUsage, "what the cache was saved with is damaged (sums of attention)"};
  AttentionSumsShape shape;
  int32_t since = 0;
  int32_t counted = 0;
  if (!from.get(shape.heads) || !from.get(shape.kv_heads) || !from.get_all(shape.taken) || !from.get(since) ||
      !from.get(counted) || counted < since)
    return damaged;
  const bool ours = shape.heads == shape_.heads && shape.kv_heads == shape_.kv_heads && shape.taken == shape_.taken;
  const int32_t group = shape_.heads / shape_.kv_heads;
  std::vector<std::vector<double>> rows(static_cast<size_t>(ours ? shape_.heads : 0));
  std::vector<double> passed_over;
  for (size_t layer = 0; layer < shape.taken.size(); ++layer) {
    if (shape.taken[layer] == 0) continue;
    for (int32_t head = 0; head < shape.heads; ++head)
      if (!from.get_all(ours ? rows[static_cast<size_t>(head)] : passed_over)) return damaged;
    if (!ours) continue;
    Layer& own = layers_[layer];
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const auto length = static_cast<int64_t>(rows[static_cast<size_t>(head)].size());
      int64_t& held = own.lengths[static_cast<size_t>(head / group)];
      if (head % group != 0 && held != length) return damaged;
      held = length;
    }
    const std::vector<int64_t> lengths = own.lengths;
    own.lengths.assign(lengths.size(), 0);
    EI_RETURN_IF_ERROR(grow(own, *std::max_element(lengths.begin(), lengths.end())));
    own.lengths = lengths;
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const std::vector<double>& row = rows[static_cast<size_t>(head)];
      if (!row.empty())
        EI_RETURN_IF_ERROR(backend_->copy_in(sums(own, now_) + head * own.capacity, row.data(),
                                             bytes_of(static_cast<int64_t>(row.size()))));
    }
  }
  if (!ours) return {};
  since_ = since;
  counted_ = counted;
  return {};
}

int64_t AttentionSums::bytes_for(int64_t slots) const {
  const auto layers = std::count_if(shape_.taken.begin(), shape_.taken.end(), [](uint8_t taken) { return taken != 0; });
  // What is added is written beside what is in force.
  return wanted_ ? (2 * layers + kernels::kSumRoom) * shape_.heads * slots * static_cast<int64_t>(sizeof(double)) : 0;
}

}  // namespace ei::kv
