#include "kv/store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace ei::kv {

Store::Store(const Backend& backend, const StoreConfig& config)
    : backend_(&backend),
      config_(config),
      layout_(backend, {.slots = config.page_slots,
                        .head_dim = config.head_dim,
                        .key_type = config.key_type,
                        .value_type = config.value_type}) {
  EI_CHECK(config.layers > 0 && config.kv_heads > 0 && config.head_dim > 0 && config.page_slots > 0);
  pool_ = std::make_shared<PagePool>(backend, layout_.bytes);
  layers_.resize(static_cast<size_t>(config.layers));
  for (Layer& layer : layers_) {
    layer.heads.resize(static_cast<size_t>(config.kv_heads));
    layer.views.resize(static_cast<size_t>(config.kv_heads));
    refresh(layer);
  }
}

Store& Store::operator=(Store&& other) noexcept {
  layers_ = std::move(other.layers_);  // first: the old pages go back to the old pool while it is there
  pool_ = std::move(other.pool_);
  backend_ = other.backend_;
  config_ = other.config_;
  layout_ = other.layout_;
  evicted_ = other.evicted_;
  compactions_ = other.compactions_;
  bytes_peak_ = other.bytes_peak_;
  return *this;
}

void Store::refresh(Layer& layer) {
  for (size_t h = 0; h < layer.heads.size(); ++h) layer.views[h] = layer.heads[h].view(layer.next);
}

Store::Layer& Store::layer_at(int layer) {
  EI_CHECK(layer >= 0 && layer < config_.layers);
  return layers_[static_cast<size_t>(layer)];
}

const Store::Layer& Store::layer_at(int layer) const {
  EI_CHECK(layer >= 0 && layer < config_.layers);
  return layers_[static_cast<size_t>(layer)];
}

// A partly filled page that a fork shares is copied before it is written.
int64_t Store::pages_missing(int64_t count) const {
  int64_t missing = 0;
  for (const Layer& layer : layers_) {
    for (const HeadSlots& head : layer.heads) {
      missing += head.pages_missing(layout_, count);
      if (head.tail_partial(layout_) && !head.tail_page(layout_).exclusive()) ++missing;
    }
  }
  return missing;
}

Status Store::reserve(int64_t count) {
  EI_CHECK_GE(count, 0);
  if (count == 0) return {};
  std::vector<HeadSlots*> shared_tails;  // decided once: a fork in another thread may let go at any time
  int64_t missing = 0;
  for (Layer& layer : layers_) {
    if (count > std::numeric_limits<int32_t>::max() - layer.next) {
      return make_error(ErrorKind::kMemory,
                        "the KV cache counts to 2147483647 positions: %lld more after %d do not fit",
                        static_cast<long long>(count), static_cast<int>(layer.next));
    }
    for (HeadSlots& head : layer.heads) {
      missing += head.pages_missing(layout_, count);
      if (head.tail_partial(layout_) && !head.tail_page(layout_).exclusive()) shared_tails.push_back(&head);
    }
  }
  EI_ASSIGN_OR_RETURN(std::vector<Page> pages, pool_->take(missing + static_cast<int64_t>(shared_tails.size())));
  for (size_t i = 0; i < shared_tails.size(); ++i) {
    const HeadSlots& head = *shared_tails[i];
    EI_RETURN_IF_ERROR(copy_rows(*backend_, layout_, head.tail_page(layout_), head.length() % layout_.slots, pages[i]));
  }
  // Nothing can fail from here on.
  auto page = pages.begin();
  for (HeadSlots* head : shared_tails) head->replace_tail_page(layout_, std::move(*page++));
  for (Layer& layer : layers_) {
    for (HeadSlots& head : layer.heads) {
      for (int64_t n = head.pages_missing(layout_, count); n > 0; --n) head.add_page(layout_, std::move(*page++));
      head.set_reserved(std::max(head.reserved(), count));
    }
    refresh(layer);
  }
  if (!pages.empty()) bytes_peak_ = bytes_peak();
  return {};
}

KvAppend Store::append(int layer, int64_t count) {
  EI_CHECK_GE(count, 0);
  Layer& at = layer_at(layer);
  KvAppend append{.runs = {}, .shape = layout_.shape};
  for (int h = 0; h < config_.kv_heads; ++h) {
    at.heads[static_cast<size_t>(h)].append(layout_, h, count, append.runs);
  }
  at.next += static_cast<int32_t>(count);
  refresh(at);
  return append;
}

KvView Store::view(int layer) const {
  return {.key_type = config_.key_type,
          .value_type = config_.value_type,
          .head_dim = config_.head_dim,
          .page_slots = config_.page_slots,
          .heads = layer_at(layer).views};
}

Status Store::compact(int layer, int kv_head, const KeepList& keep) {
  EI_CHECK(kv_head >= 0 && kv_head < config_.kv_heads);
  Layer& at = layer_at(layer);
  HeadSlots& head = at.heads[static_cast<size_t>(kv_head)];
  int64_t previous = -1;
  for (const int32_t slot : keep) {
    if (slot <= previous || slot >= head.length()) {
      return make_error(ErrorKind::kRuntime,
                        "keep list of layer %d, kv_head %d is not ascending slots below %lld: slot %d after %lld",
                        layer, kv_head, static_cast<long long>(head.length()), static_cast<int>(slot),
                        static_cast<long long>(previous));
    }
    previous = slot;
  }
  const int64_t dropped = head.length() - static_cast<int64_t>(keep.size());
  if (dropped == 0) return {};
  const Status status = head.compact(*backend_, layout_, *pool_, keep, at.next);
  refresh(at);
  EI_RETURN_IF_ERROR(status);
  evicted_ += dropped;
  ++compactions_;
  return {};
}

Status Store::truncate(int32_t position) {
  if (position < 0 || position > next_position()) {
    return make_error(ErrorKind::kUsage, "cannot rewind the KV cache to position %d: it holds positions 0 to %d",
                      static_cast<int>(position), static_cast<int>(next_position()));
  }
  for (Layer& layer : layers_) {
    for (HeadSlots& head : layer.heads) head.truncate(layout_, position, layer.next);
    layer.next = position;
    refresh(layer);
  }
  return {};
}

// A reservation made before the fork stays good although the last page is shared now: this side writes only rows beyond
// what the fork can see, and the fork, which has no reservation, copies the page before it writes.
Result<Store> Store::fork() const {
  Store copy(*backend_, config_);
  copy.pool_ = pool_;
  copy.evicted_ = evicted_;
  copy.compactions_ = compactions_;
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& to = copy.layers_[l];
    to.next = layers_[l].next;
    for (size_t h = 0; h < to.heads.size(); ++h) to.heads[h] = layers_[l].heads[h].share(layout_);
    refresh(to);
  }
  copy.bytes_peak_ = copy.bytes();
  return copy;
}

}  // namespace ei::kv
