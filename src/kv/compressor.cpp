#include "kv/compressor.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ei::kv {
namespace {

constexpr int kAttention = 300;  // of shared memory

std::vector<int64_t> lengths_of(const KvView& view) {
  std::vector<int64_t> lengths;
  for (const KvHeadView& head : view.heads) lengths.push_back(head.length);
  return lengths;
}

int64_t longest_head(const KvView& view) {
  int64_t length = 0;
  for (const KvHeadView& head : view.heads) length = std::max(length, head.length);
  return length;
}

policy::KvShape method_shape(const CompressorShape& shape) {
  const auto global = std::count(shape.windows.begin(), shape.windows.end(), 0);
  return {.layers = static_cast<int32_t>(global), .heads = shape.heads, .kv_heads = shape.kv_heads};
}

}  // namespace

Result<Compressor> Compressor::create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape) {
  std::unique_ptr<policy::KvMethod> method = policy::make_kv_method(options, method_shape(shape));
  EI_CHECK(method != nullptr);
  ObserverShape observed{.observed = {}, .window = options.window, .width = int64_t{shape.heads} * shape.head_dim};
  const bool observes = method->needs().attention;
  for (const int32_t window : shape.windows) observed.observed.push_back(observes && window == 0 ? 1 : 0);
  EI_ASSIGN_OR_RETURN(Observer observer, Observer::create(backend, std::move(observed)));
  return Compressor(std::move(method), std::move(shape), std::move(observer));
}

Compressor::Compressor(std::unique_ptr<policy::KvMethod> method, CompressorShape shape, Observer observer)
    : method_(std::move(method)),
      shape_(std::move(shape)),
      observer_(std::move(observer)),
      schedule_(method_->options()) {}

void Compressor::restart() {
  schedule_.restart();
  observer_.truncate(0);
}

int64_t Compressor::most_held(const Store& store) const {
  int64_t most = 0;
  int64_t sum = 0;
  int64_t layers = 0;
  for (int layer = 0; layer < static_cast<int>(shape_.windows.size()); ++layer) {
    const int64_t held = method_->held(lengths_of(store.view(layer)));
    most = std::max(most, held - shape_.windows[static_cast<size_t>(layer)]);
    if (!takes_part(layer)) continue;
    sum += held;
    ++layers;
  }
  if (options().layers == policy::KvLayers::kFlat || layers == 0) return most;
  return (sum + layers - 1) / layers;
}

int64_t Compressor::most_slots(int64_t prompt, int64_t generated) const {
  const int64_t all = prompt + generated;
  if (options().repeat == 0) return all;
  const int64_t window = *std::max_element(shape_.windows.begin(), shape_.windows.end()) + options().window;
  const int64_t before = prompt + std::max(options().gap, 0) + 1;
  return std::min(all, std::max(before, std::max(method_->most_kept(), window) + options().repeat));
}

int64_t Compressor::bytes_for(int64_t slots) const {
  // Attention and about as much again inside the kernel; scores per set, in a row and with their ranks.
  return slots * (2 * shape_.heads + 4 * method_->num_sets()) * static_cast<int64_t>(sizeof(float));
}

Result<int64_t> Compressor::compress(Stream& stream, Store& store) const {
  EI_ASSIGN_OR_RETURN(Decision decision, begin(stream, store));
  for (size_t index = 0; index < decision.layers.size(); ++index) decide(stream, store, index, decision);
  EI_RETURN_IF_ERROR(stream.synchronize());
  const int64_t before = store.evicted();
  for (int layer = 0; layer < store.config().layers; ++layer) {
    const LayerKeeps& keeps = decision.keeps[static_cast<size_t>(layer)];
    for (size_t h = 0; h < keeps.size(); ++h)
      if (!keeps[h].empty()) EI_RETURN_IF_ERROR(store.compact(layer, static_cast<int>(h), keeps[h]));
  }
  return store.evicted() - before;
}

Result<Compressor::Decision> Compressor::begin(Stream& stream, const Store& store) const {
  EI_CHECK_EQ(static_cast<int64_t>(shape_.windows.size()), store.config().layers);
  Decision decision;
  std::vector<int64_t> held;
  for (int layer = 0; layer < store.config().layers; ++layer) {
    const bool own_window = !takes_part(layer);
    decision.keeps.push_back(own_window ? keep_window(store, layer) : LayerKeeps());
    if (own_window) continue;
    decision.layers.push_back(layer);
    held.push_back(longest_head(store.view(layer)));
  }
  decision.budgets = method_->layer_budgets(held);
  if (method_->needs().attention && !held.empty()) {
    const int64_t slots = *std::max_element(held.begin(), held.end());
    EI_ASSIGN_OR_RETURN(decision.attention, stream.shared(kAttention, slots * shape_.heads));
  }
  return decision;
}

void Compressor::decide(Stream& stream, const Store& store, size_t index, Decision& decision) const {
  const int layer = decision.layers[index];
  const KvView view = store.view(layer);
  const bool observes = method_->needs().attention;
  if (method_->held(lengths_of(view)) <= decision.budgets[index] || (observes && observer_.size() == 0)) return;
  if (observes) measure_attention(stream, view, layer, decision.attention);
  // The next layer's measurements go to the same place, so this layer's turn is now.
  stream.host([this, view, index, layer, &decision] {
    const std::vector<int64_t> lengths = lengths_of(view);
    const policy::LayerMeasures measured{.layer = static_cast<int32_t>(index),
                                         .lengths = lengths,
                                         .attention = decision.attention,
                                         .stride = longest_head(view)};
    decision.keeps[static_cast<size_t>(layer)] = method_->keep(method_->rate(measured), decision.budgets[index]);
  });
}

void Compressor::measure_attention(Stream& stream, const KvView& view, int layer, float* attention) const {
  const std::vector<int32_t> positions = observer_.positions();
  const Matrix queries = observer_.queries(stream, layer);
  const void* staged = stream.stage(positions.data(), positions.size() * sizeof(positions[0]));
  stream.window_scores({.q = queries.data,
                        .q_stride = queries.stride,
                        .positions = static_cast<const int32_t*>(staged),
                        .window = queries.rows,
                        .num_heads = shape_.heads,
                        .scale = shape_.attention_scale,
                        .kv = view,
                        .scores = attention,
                        .score_stride = longest_head(view)});
}

Compressor::LayerKeeps Compressor::keep_window(const Store& store, int layer) const {
  const int32_t seen_from = store.next_position() + 1 - shape_.windows[static_cast<size_t>(layer)] - options().window;
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
