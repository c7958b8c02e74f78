#include "kv/compressor.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kv/key_measure.h"
#include "kv/layer_lengths.h"

namespace ei::kv {
namespace {

const ScratchSlot kAttention, kEntropy;

policy::KvShape method_shape(const CompressorShape& shape) {
  const auto global = std::count(shape.windows.begin(), shape.windows.end(), 0);
  return {.layers = static_cast<int32_t>(global),
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .slot_bytes = shape.slot_bytes};
}

}  // namespace

Result<Compressor> Compressor::create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape) {
  std::unique_ptr<policy::KvMethod> method = policy::make_kv_method(options, method_shape(shape));
  EI_CHECK(method != nullptr);
  EI_RETURN_IF_ERROR(method->check());
  const policy::QuerySource queries = method->needs().queries;
  const bool sampled = queries == policy::QuerySource::kSampled;
  ObserverShape observed{.observed = {},
                         .window = sampled ? options.samples : options.window,
                         .width = int64_t{shape.heads} * shape.head_dim,
                         .sampled = sampled};
  const bool observes = queries != policy::QuerySource::kNone;
  for (const int32_t window : shape.windows) observed.observed.push_back(observes && window == 0 ? 1 : 0);
  EI_ASSIGN_OR_RETURN(Observer observer, Observer::create(backend, std::move(observed)));
  return Compressor(backend, std::move(method), std::move(shape), std::move(observer));
}

Compressor::Compressor(const Backend& backend, std::unique_ptr<policy::KvMethod> method, CompressorShape shape,
                       Observer observer)
    : backend_(&backend),
      method_(std::move(method)),
      shape_(std::move(shape)),
      observer_(std::move(observer)),
      schedule_(method_->options()),
      carried_(method_->options().carry) {}

void Compressor::restart() {
  schedule_.restart();
  observer_.truncate(0);
  carried_.clear();
}

void Compressor::take(Stream& stream, const Compressor& from) {
  observer_.take(stream, from.observer_);
  // Scores of another method mean something else.
  if (options().rule == from.options().rule) carried_ = from.carried_;
}

std::string Compressor::memory(Stream& stream) const {
  ByteWriter to;
  observer_.save(stream, to);
  to.put_all(std::string(options().rule.name));
  to.put(schedule_.generated());
  carried_.save(to);
  return to.take();
}

Status Compressor::recall(Stream& stream, std::string_view memory) {
  restart();
  ByteReader from(memory);
  EI_RETURN_IF_ERROR(observer_.restore(stream, from));
  std::string rule;
  int64_t generated = 0;
  CarriedScores carried = carried_;
  if (!from.get_all(rule) || !from.get(generated) || !carried.restore(from) || !from.done())
    return Error{ErrorKind::kUsage, "what the cache was saved with is damaged (a compression's state)"};
  if (rule != options().rule.name) return {};
  schedule_.resume(generated);
  carried_ = std::move(carried);
  return {};
}

void Compressor::rewound(const Store& store) {
  observer_.truncate(store.next_position());
  size_t index = 0;
  for (int layer = 0; layer < static_cast<int>(shape_.windows.size()); ++layer)
    if (takes_part(layer)) carried_.trim(index++, lengths_of(store.view(layer)));
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
  const int64_t kept = method_->most_kept(method_->budget_at(all));
  return std::min(all, std::max(before, std::max(kept, window) + options().repeat));
}

int64_t Compressor::bytes_for(int64_t slots) const {
  // Attention and about as much again inside the kernel, or keys measured; scores per set, in a row and with their
  // ranks.
  const int64_t ratings = method_->needs().row_entropy ? int64_t{method_->shape().layers} : 0;  // of all layers at once
  return slots * (2 * shape_.heads + (4 + ratings) * method_->num_sets()) * static_cast<int64_t>(sizeof(float));
}

Result<int64_t> Compressor::compress(Stream& stream, Store& store) {
  if (store.exact()) carried_.clear();  // nothing was left out of this cache yet
  carried_.begin();
  EI_ASSIGN_OR_RETURN(Decision decision, begin(stream, store));
  if (decision.on_stream && decision.budgets.empty()) EI_RETURN_IF_ERROR(measure_entropies(stream, store, decision));
  for (size_t index = 0; index < decision.layers.size(); ++index)
    EI_RETURN_IF_ERROR(rate(stream, store, index, decision));
  if (decision.budgets.empty()) share_out(stream, decision);
  EI_RETURN_IF_ERROR(stream.synchronize());
  carried_.commit();
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
  decision.budget = method_->budget_at(store.next_position());
  int64_t slots = 0;
  for (int layer = 0; layer < store.config().layers; ++layer) {
    const bool own_window = !takes_part(layer);
    decision.keeps.push_back(own_window ? keep_window(store, layer) : LayerKeeps());
    if (own_window) continue;
    decision.layers.push_back(layer);
    decision.states.push_back({.held = longest_head(store.view(layer))});
    slots = std::max(slots, decision.states.back().held);
  }
  const policy::KvNeeds needs = method_->needs();
  const bool unobserved = needs.queries != policy::QuerySource::kNone && observer_.size() == 0;
  if (unobserved || slots <= decision.budget) decision.layers.clear();  // nothing to decide by, or about
  if (!needs.row_entropy || decision.layers.empty())
    decision.budgets = method_->layer_budgets(decision.budget, decision.states);
  decision.ratings.resize(decision.layers.size());
  const bool attends = needs.queries != policy::QuerySource::kNone && (!needs.expected || needs.row_entropy);
  if (!attends || decision.layers.empty()) return decision;
  if (needs.row_entropy) {
    EI_ASSIGN_OR_RETURN(decision.entropy, stream.shared(kEntropy, shape_.heads));
  }
  if (chosen_by(stream)) {
    EI_RETURN_IF_ERROR(prepare(stream, slots, decision));
    return decision;
  }
  EI_ASSIGN_OR_RETURN(decision.attention, stream.shared(kAttention, slots * shape_.heads));
  return decision;
}

Status Compressor::rate(Stream& stream, const Store& store, size_t index, Decision& decision) {
  const int layer = decision.layers[index];
  const KvView view = store.view(layer);
  const bool known = !decision.budgets.empty();
  // A budget of exactly what a layer holds is carried out: rounded as AdaKV's authors do, a kv_head may lose a slot.
  if (known && method_->held(lengths_of(view)) < decision.budgets[index]) return {};
  std::vector<float> expected;
  if (method_->needs().expected) {
    EI_ASSIGN_OR_RETURN(expected, measure_expected(stream, store, layer));
  }
  if (decision.attention != nullptr) measure_attention(stream, view, layer, decision);
  if (decision.on_stream) {
    choose_on_stream(stream, view, index, decision);
    return {};
  }
  std::vector<float> keys;
  if (const policy::KeyMeasure measure = method_->needs().keys; measure != policy::KeyMeasure::kNone) {
    EI_ASSIGN_OR_RETURN(keys, measure_keys(*backend_, view, measure, longest_head(view)));
  }
  // The next layer's measurements go to the same place, so this layer's turn is now.
  stream.host([this, view, index, known, keys = std::move(keys), expected = std::move(expected), &decision] {
    const std::vector<int64_t> lengths = lengths_of(view);
    policy::LayerMeasures measured{.layer = static_cast<int32_t>(index),
                                   .lengths = lengths,
                                   .attention = decision.attention,
                                   .stride = longest_head(view),
                                   .keys = keys,
                                   .expected = expected,
                                   .aligned = aligned(view)};
    if (decision.entropy != nullptr) measured.row_entropy = {decision.entropy, static_cast<size_t>(shape_.heads)};
    policy::LayerRating rating = method_->rate(measured);
    carried_.add_to(index, rating);
    if (known) return keep(index, rating, decision);
    decision.ratings[index] = std::move(rating);
    decision.states[index] = decision.ratings[index].state(decision.states[index].held);
  });
  return {};
}

// Where entropies decide: all layers have been rated, now they divide the slots.
void Compressor::share_out(Stream& stream, Decision& decision) {
  stream.host([this, &decision] { decision.budgets = method_->layer_budgets(decision.budget, decision.states); });
  for (size_t index = 0; index < decision.layers.size(); ++index) {
    stream.host([this, index, &decision] {
      keep(index, decision.ratings[index], decision);
      decision.ratings[index] = {};
    });
  }
}

void Compressor::keep(size_t index, const policy::LayerRating& rating, Decision& decision) {
  LayerKeeps& keeps = decision.keeps[static_cast<size_t>(decision.layers[index])];
  keeps = method_->keep(rating, decision.budgets[index]);
  carried_.remember(index, rating, keeps);
}

void Compressor::measure_attention(Stream& stream, const KvView& view, int layer, const Decision& decision) const {
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
                        .scores = decision.attention,
                        .score_stride = longest_head(view),
                        .entropy = decision.entropy});
}

// The queries are wanted on the host, so what was recorded before them runs now.
Result<std::vector<float>> Compressor::measure_expected(Stream& stream, const Store& store, int layer) const {
  const std::vector<int32_t> positions = observer_.positions();
  const Matrix queries = observer_.queries(stream, layer);
  EI_RETURN_IF_ERROR(stream.synchronize());
  std::vector<float> rows(static_cast<size_t>(queries.rows * queries.cols));
  stream.read(queries, rows.data());
  const KvView view = store.view(layer);
  return expected_attention(*backend_, {.queries = rows,
                                        .positions = positions,
                                        .heads = shape_.heads,
                                        .scale = shape_.attention_scale,
                                        .rope = shape_.ropes[static_cast<size_t>(layer)],
                                        .next_position = store.next_position(),
                                        .kv = view,
                                        .stride = longest_head(view)});
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
