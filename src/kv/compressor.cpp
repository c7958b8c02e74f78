#include "kv/compressor.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "policy/kv/share.h"

namespace ei::kv {
namespace {

constexpr int kScores = 300;  // of shared memory

int64_t longest_head(const KvView& view) {
  int64_t length = 0;
  for (const KvHeadView& head : view.heads) length = std::max(length, head.length);
  return length;
}

// Slots per kv_head, on average and rounded up: above the budget exactly when the layer holds more than its share.
int64_t mean_head(const KvView& view) {
  int64_t slots = 0;
  for (const KvHeadView& head : view.heads) slots += head.length;
  const auto heads = static_cast<int64_t>(view.heads.size());
  return (slots + heads - 1) / heads;
}

}  // namespace

Result<Compressor> Compressor::create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape) {
  ObserverShape observed{.observed = {}, .window = options.window, .width = int64_t{shape.heads} * shape.head_dim};
  for (const int32_t window : shape.windows) observed.observed.push_back(window == 0 ? 1 : 0);
  EI_ASSIGN_OR_RETURN(Observer observer, Observer::create(backend, std::move(observed)));
  return Compressor(options, std::move(shape), std::move(observer));
}

Compressor::Compressor(const policy::KvOptions& options, CompressorShape shape, Observer observer)
    : options_(options), shape_(std::move(shape)), observer_(std::move(observer)) {}

int64_t Compressor::held_slots(const KvView& view) const {
  return options_.share == policy::KvShare::kFlat ? longest_head(view) : mean_head(view);
}

int64_t Compressor::most_held(const Store& store) const {
  int64_t most = 0;
  for (size_t layer = 0; layer < shape_.windows.size(); ++layer)
    most = std::max(most, held_slots(store.view(static_cast<int>(layer))) - shape_.windows[layer]);
  return most;
}

int64_t Compressor::most_slots(int64_t prompt, int64_t generated) const {
  const int64_t all = prompt + generated;
  if (options_.repeat == 0) return all;
  const int64_t window = *std::max_element(shape_.windows.begin(), shape_.windows.end()) + options_.window;
  const int64_t before = prompt + std::max(options_.gap, 0) + 1;
  return std::min(all, std::max(before, std::max<int64_t>(options_.budget, window) + options_.repeat));
}

int64_t Compressor::bytes_for(int64_t slots) const {
  // Scores and about as much again inside the kernel; pooled ones per kv_head, in a row and with their ranks.
  return slots * (2 * shape_.heads + 4 * shape_.kv_heads) * static_cast<int64_t>(sizeof(float));
}

Result<int64_t> Compressor::compress(Stream& stream, Store& store) const {
  EI_CHECK_EQ(static_cast<int64_t>(shape_.windows.size()), store.config().layers);
  int64_t slots = 0;
  for (int layer = 0; layer < store.config().layers; ++layer)
    if (shape_.windows[static_cast<size_t>(layer)] == 0) slots = std::max(slots, longest_head(store.view(layer)));
  EI_ASSIGN_OR_RETURN(float* scores, stream.shared(kScores, slots * shape_.heads));
  std::vector<LayerKeeps> keeps(static_cast<size_t>(store.config().layers));
  for (int layer = 0; layer < store.config().layers; ++layer)
    decide(stream, store, layer, scores, keeps[static_cast<size_t>(layer)]);
  EI_RETURN_IF_ERROR(stream.synchronize());
  const int64_t before = store.evicted();
  for (int layer = 0; layer < store.config().layers; ++layer) {
    for (int h = 0; h < shape_.kv_heads; ++h) {
      const KeepList& keep = keeps[static_cast<size_t>(layer)][static_cast<size_t>(h)];
      if (!keep.empty()) EI_RETURN_IF_ERROR(store.compact(layer, h, keep));
    }
  }
  return store.evicted() - before;
}

void Compressor::decide(Stream& stream, const Store& store, int layer, float* scores, LayerKeeps& keeps) const {
  if (shape_.windows[static_cast<size_t>(layer)] > 0) {
    keeps = keep_window(store, layer);
    return;
  }
  const KvView view = store.view(layer);
  const int64_t stride = longest_head(view);
  keeps.resize(view.heads.size());
  if (held_slots(view) <= options_.budget || observer_.size() == 0) return;
  const std::vector<int32_t> positions = observer_.positions();
  const Matrix queries = observer_.queries(stream, layer);
  stream.window_scores({.q = queries.data,
                        .q_stride = queries.stride,
                        .positions = static_cast<const int32_t*>(
                            stream.stage(positions.data(), positions.size() * sizeof(positions[0]))),
                        .window = queries.rows,
                        .num_heads = shape_.heads,
                        .scale = shape_.attention_scale,
                        .kv = view,
                        .scores = scores,
                        .score_stride = stride});
  // The next layer's scores go to the same place, so this layer's turn is now.
  stream.host([this, view, scores, stride, &keeps] {
    const int32_t group = shape_.heads / shape_.kv_heads;
    std::vector<policy::GroupScores> groups;
    std::vector<int64_t> lengths;
    for (const KvHeadView& head : view.heads) {
      groups.push_back({.scores = scores + static_cast<int64_t>(groups.size()) * group * stride,
                        .stride = stride,
                        .group = group,
                        .slots = std::max<int64_t>(0, head.length - options_.window)});
      lengths.push_back(head.length);
    }
    keeps = policy::keep_lists(options_, groups, lengths);
  });
}

Compressor::LayerKeeps Compressor::keep_window(const Store& store, int layer) const {
  const int32_t seen_from = store.next_position() + 1 - shape_.windows[static_cast<size_t>(layer)] - options_.window;
  LayerKeeps keeps;
  for (const KvHeadView& head : store.view(layer).heads) {
    const int64_t first = first_slot_at_or_after(head, seen_from);
    KeepList& keep = keeps.emplace_back();
    if (first == 0) continue;
    keep.resize(static_cast<size_t>(head.length - first));
    std::iota(keep.begin(), keep.end(), static_cast<int32_t>(first));
  }
  return keeps;
}

}  // namespace ei::kv
