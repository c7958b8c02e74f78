#include "kv/compressor.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kv/compression_steps.h"
#include "kv/layer_lengths.h"
#include "kv/stream_choice.h"

namespace ei::kv {
namespace {

policy::KvShape method_shape(const CompressorShape& shape) {
  const auto global = std::count(shape.windows.begin(), shape.windows.end(), 0);
  return {.layers = static_cast<int32_t>(global),
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .slot_bytes = shape.slot_bytes};
}

AttentionSumsShape sums_shape(const CompressorShape& shape, bool wanted) {
  AttentionSumsShape sums{.heads = shape.heads, .kv_heads = shape.kv_heads, .attention_scale = shape.attention_scale};
  for (const int32_t window : shape.windows) sums.taken.push_back(wanted && window == 0 ? 1 : 0);
  return sums;
}

}  // namespace

Result<Compressor> Compressor::create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape) {
  std::unique_ptr<policy::KvMethod> method = policy::make_kv_method(options, method_shape(shape));
  EI_CHECK(method != nullptr);
  EI_RETURN_IF_ERROR(method->check());
  const policy::QuerySource queries = method->needs().queries;
  const bool sampled = queries == policy::QuerySource::kSampled;
  const bool adds_up = method->needs().accumulated;
  const int64_t window = sampled ? options.samples : options.window;
  ObserverShape observed{.observed = {},
                         .window = adds_up ? AttentionSums::kWaiting : window,
                         .width = int64_t{shape.heads} * shape.head_dim,
                         .sampled = sampled};
  const bool observes = queries != policy::QuerySource::kNone;
  for (const int32_t sliding : shape.windows) observed.observed.push_back(observes && sliding == 0 ? 1 : 0);
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
      carried_(method_->options().carry),
      sums_(backend, sums_shape(shape_, method_->needs().accumulated)) {}

Status Compressor::record(Stream& stream, int layer, Matrix q, int32_t first, const KvView& view) {
  observer_.record(stream, layer, q, first);
  return sums_.record(stream, layer, observer_, q, first, view);
}

void Compressor::advance(int32_t first, int64_t tokens) {
  observer_.advance(first, tokens);
  sums_.advance(first, tokens);
}

void Compressor::restart() {
  schedule_.restart();
  observer_.truncate(0);
  carried_.clear();
  sums_.clear();
  whole_.reset();
}

Status Compressor::take(Stream& stream, const Compressor& from) {
  observer_.take(stream, from.observer_);
  // Scores of another method mean something else.
  if (options().rule == from.options().rule) carried_ = from.carried_;
  if (!sums_.wanted() || !from.sums_.wanted()) return {};
  EI_ASSIGN_OR_RETURN(sums_, from.sums_.copy());
  return {};
}

Result<std::string> Compressor::memory(Stream& stream) const {
  ByteWriter to;
  EI_RETURN_IF_ERROR(observer_.save(stream, to));
  to.put_all(std::string(options().rule.name));
  to.put(schedule_.generated());
  carried_.save(to);
  ByteWriter sums;
  const bool saved = sums_.wanted() && sums_.save(sums).ok();
  if (saved) to.put_all(sums.take());
  return to.take();
}

Status Compressor::recall(Stream& stream, std::string_view memory) {
  restart();
  ByteReader from(memory);
  EI_RETURN_IF_ERROR(observer_.restore(stream, from));
  std::string rule;
  int64_t generated = 0;
  CarriedScores carried = carried_;
  const bool read = from.get_all(rule) && from.get(generated) && carried.restore(from);
  // Only a method that adds attention up saves sums.
  std::string sums;
  if (!read || (!from.done() && !from.get_all(sums)) || !from.done())
    return Error{ErrorKind::kUsage, "what the cache was saved with is damaged (a compression's state)"};
  if (sums_.wanted() && !sums.empty()) {
    ByteReader bytes(sums);
    EI_RETURN_IF_ERROR(sums_.restore(bytes));
  }
  if (rule != options().rule.name) return {};
  schedule_.resume(generated);
  carried_ = std::move(carried);
  return {};
}

void Compressor::rewound(const Store& store) {
  observer_.truncate(store.next_position());
  if (whole_) {
    sums_ = std::move(*whole_);
    whole_.reset();
  }
  sums_.truncate(store.next_position());
  size_t index = 0;
  for (int layer = 0; layer < static_cast<int>(shape_.windows.size()); ++layer)
    if (takes_part(layer)) carried_.trim(index++, lengths_of(store.view(layer)));
}

Status Compressor::begin_view(Stream& stream, const Store& store) {
  if (!sums_.wanted()) return {};
  EI_RETURN_IF_ERROR(sums_.flush(stream, observer_, store));
  EI_ASSIGN_OR_RETURN(whole_, sums_.copy());
  return {};
}

int32_t Compressor::rewind_point(int32_t position) const {
  return position >= (whole_ ? *whole_ : sums_).counted() ? position : 0;
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
  const int64_t keys = options().key_share > 0 ? method_->num_sets() + method_->shape().kv_heads : 0;
  const int64_t ratings = method_->needs().row_entropy ? int64_t{method_->shape().layers} : 0;  // of all layers at once
  return slots * (2 * shape_.heads + keys + (4 + ratings) * method_->num_sets()) * static_cast<int64_t>(sizeof(float)) +
         sums_.bytes_for(slots);
}

Result<int64_t> Compressor::compress(Stream& stream, Store& store) {
  if (store.exact()) carried_.clear();  // nothing was left out of this cache yet
  EI_RETURN_IF_ERROR(sums_.flush(stream, observer_, store));
  carried_.begin();
  Compression run = begin(store);
  const bool on_stream = StreamChoice::serves(stream, *method_);

  AttentionStep attention;
  RateStep rate(*backend_, run, attention, carried_, sums_);
  StreamChoice choice(run, attention, rate);
  EI_RETURN_IF_ERROR(attention.reserve(stream, run, /*host_reads=*/!on_stream));
  if (on_stream) EI_RETURN_IF_ERROR(choice.reserve(stream));
  if (on_stream && !run.budgets_known()) EI_RETURN_IF_ERROR(choice.measure_shares(stream));
  const bool known = run.budgets_known();
  for (size_t index = 0; index < run.layers.size(); ++index) {
    if (known && !run.over_budget(index)) continue;
    if (on_stream) {
      EI_RETURN_IF_ERROR(choice.record(stream, index));
    } else {
      attention.record(stream, run, index);
      EI_RETURN_IF_ERROR(rate.record(stream, index));
    }
  }
  if (!known) rate.record_shares(stream);
  EI_RETURN_IF_ERROR(stream.synchronize());
  carried_.commit();
  return drop(run.keeps, store);
}

Result<int64_t> Compressor::drop(const std::vector<LayerKeeps>& keeps, Store& store) {
  const int64_t before = store.evicted();
  for (size_t layer = 0; layer < keeps.size(); ++layer)
    for (size_t h = 0; h < keeps[layer].size(); ++h)
      if (!keeps[layer][h].empty()) {
        EI_RETURN_IF_ERROR(store.compact(static_cast<int>(layer), static_cast<int>(h), keeps[layer][h]));
        EI_RETURN_IF_ERROR(sums_.compact(static_cast<int>(layer), static_cast<int>(h), keeps[layer][h]));
      }
  EI_RETURN_IF_ERROR(sums_.shrink());
  return store.evicted() - before;
}

Compression Compressor::begin(const Store& store) const {
  EI_CHECK_EQ(static_cast<int64_t>(shape_.windows.size()), store.config().layers);
  Compression run{.method = *method_, .shape = shape_, .observer = observer_, .store = store, .budget = budget(store)};
  for (int layer = 0; layer < store.config().layers; ++layer) {
    const bool own_window = !takes_part(layer);
    run.keeps.push_back(own_window ? keep_window(store, layer) : LayerKeeps());
    if (own_window) continue;
    run.layers.push_back(layer);
    const KvView view = store.view(layer);
    run.states.push_back({.held = method_->held(lengths_of(view))});
    run.slots = std::max(run.slots, longest_head(view));
  }
  const policy::KvNeeds needs = method_->needs();
  const bool unobserved =
      (needs.queries != policy::QuerySource::kNone && observer_.size() == 0) || (needs.accumulated && sums_.empty());
  if (unobserved || run.slots <= run.budget) run.layers.clear();  // nothing to decide by, or about
  if (!needs.row_entropy) run.share_out();
  return run;
}

LayerKeeps Compressor::keep_window(const Store& store, int layer) const {
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
