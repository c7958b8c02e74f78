#include "sparse/block_index.h"

#include <algorithm>

#include "base/check.h"

namespace ei::sparse {

namespace {
constexpr int64_t kPanelKeys = 8;
constexpr int64_t kSuperKeys = 64;  // wider bounds find other rows, narrower ones cost more (docs/selection.md)

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The most blocks that divide a segment and stay inside kSuperKeys.
int32_t blocks_per_super(const SegmentGrid& grid) {
  for (auto count = static_cast<int32_t>(kSuperKeys / grid.block); count > 1; --count)
    if (grid.blocks_per_segment() % count == 0) return count;
  return 1;
}
}  // namespace

BlockIndex::BlockIndex(const Backend& backend, BlockIndexShape shape)
    : backend_(&backend),
      shape_(std::move(shape)),
      super_blocks_(blocks_per_super(shape_.grid)),
      layers_(shape_.planned.size()) {}

int64_t BlockIndex::row_bytes() const {
  return int64_t{shape_.kv_heads} * shape_.head_dim * static_cast<int64_t>(dtype_bytes(shape_.key_type));
}

Status BlockIndex::reserve(int64_t tokens) {
  if (shape_.panels) EI_RETURN_IF_ERROR(reserve_panels(tokens));
  const int64_t blocks = tokens / shape_.grid.block;
  if (blocks <= capacity_) return {};
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (shape_.planned[i] == 0) continue;
    for (Buffer* buffer : {&layers_[i].max_keys, &layers_[i].min_keys}) {
      EI_ASSIGN_OR_RETURN(Buffer larger, backend_->allocate(static_cast<size_t>(blocks * row_bytes())));
      const auto held = static_cast<size_t>(layers_[i].blocks * row_bytes());
      if (held > 0) EI_RETURN_IF_ERROR(backend_->copy_within(larger.data(), buffer->data(), held));
      *buffer = std::move(larger);
    }
  }
  capacity_ = blocks;
  return {};
}

kernels::KeyPanels BlockIndex::lay_out(std::byte* memory, int64_t tokens, int64_t& bytes) const {
  kernels::KeyPanels panels;
  panels.super_blocks = super_blocks_;
  panels.capacity = round_up(tokens, kPanelKeys) / kPanelKeys;
  panels.bound_capacity = round_up(tokens / super_keys(), kPanelKeys) / kPanelKeys;
  bytes = 0;
  const auto take = [&](int64_t count) {
    std::byte* at = memory != nullptr ? memory + bytes : nullptr;
    bytes += round_up(count, 64);
    return at;
  };
  const int64_t heads = shape_.kv_heads;
  const int64_t panel_bytes = kPanelKeys * shape_.head_dim;
  panels.keys = reinterpret_cast<int8_t*>(take(heads * panels.capacity * panel_bytes));
  panels.key_scales = reinterpret_cast<float*>(take(heads * panels.capacity * int64_t{sizeof(float)}));
  panels.bounds = reinterpret_cast<int8_t*>(take(heads * panels.bound_capacity * 2 * panel_bytes));
  panels.bound_scales =
      reinterpret_cast<float*>(take(heads * panels.bound_capacity * kPanelKeys * int64_t{sizeof(float)}));
  return panels;
}

Status BlockIndex::reserve_panels(int64_t tokens) {
  if (tokens <= panel_capacity_) return {};
  int64_t bytes = 0;
  lay_out(nullptr, tokens, bytes);
  drop_panels();
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (shape_.planned[i] == 0) continue;
    EI_ASSIGN_OR_RETURN(layers_[i].panels, backend_->allocate(static_cast<size_t>(bytes)));
  }
  panel_capacity_ = tokens;
  return {};
}

void BlockIndex::drop_panels() {
  for (Layer& layer : layers_) {
    layer.panels = Buffer();
    layer.packed = layer.supers = 0;
  }
  panel_capacity_ = 0;
}

void BlockIndex::drop() {
  drop_panels();
  for (Layer& layer : layers_) {
    layer.max_keys = Buffer();
    layer.min_keys = Buffer();
    layer.blocks = 0;
  }
  capacity_ = 0;
}

int64_t BlockIndex::held_bytes() const {
  const auto layers = static_cast<int64_t>(std::count(shape_.planned.begin(), shape_.planned.end(), uint8_t{1}));
  int64_t panel_bytes = 0;
  if (panel_capacity_ > 0) lay_out(nullptr, panel_capacity_, panel_bytes);
  return layers * (2 * capacity_ * row_bytes() + panel_bytes);
}

kernels::KeyPanels BlockIndex::panels(int layer) const {
  int64_t bytes = 0;
  return lay_out(static_cast<std::byte*>(layers_[static_cast<size_t>(layer)].panels.data()), panel_capacity_, bytes);
}

void BlockIndex::update(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  Layer& own = layers_[static_cast<size_t>(layer)];
  const int64_t blocks = tokens / shape_.grid.block;
  EI_CHECK_LE(blocks, capacity_);
  if (blocks > own.blocks) {
    stream.block_extremes({.kv = kv,
                           .block = shape_.grid.block,
                           .first_block = own.blocks,
                           .num_blocks = blocks - own.blocks,
                           .out = view(layer)});
    own.blocks = blocks;
  }
  if (shape_.panels) update_panels(stream, layer, kv, tokens);
}

void BlockIndex::update_panels(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  Layer& own = layers_[static_cast<size_t>(layer)];
  EI_CHECK_LE(tokens, panel_capacity_);
  const int64_t supers = tokens / super_keys();
  stream.pack_keys({.kv = kv,
                    .first = own.packed,
                    .length = tokens,
                    .extremes = view(layer),
                    .first_super = own.supers,
                    .supers = supers,
                    .out = panels(layer)});
  own.packed = tokens / kPanelKeys * kPanelKeys;
  own.supers = supers;
}

kernels::BlockExtremes BlockIndex::view(int layer) const {
  const Layer& own = layers_[static_cast<size_t>(layer)];
  return {.max_keys = own.max_keys.data(),
          .min_keys = own.min_keys.data(),
          .type = shape_.key_type,
          .head_stride = shape_.head_dim,
          .block_stride = int64_t{shape_.kv_heads} * shape_.head_dim};
}

void BlockIndex::truncate(int64_t tokens) {
  for (Layer& layer : layers_) {
    layer.blocks = std::min(layer.blocks, tokens / shape_.grid.block);
    layer.packed = std::min(layer.packed, tokens / kPanelKeys * kPanelKeys);
    layer.supers = std::min(layer.supers, tokens / super_keys());
  }
}

int64_t BlockIndex::bytes_for(int64_t tokens) const {
  const auto layers = static_cast<int64_t>(std::count(shape_.planned.begin(), shape_.planned.end(), uint8_t{1}));
  int64_t panel_bytes = 0;
  if (shape_.panels) lay_out(nullptr, tokens, panel_bytes);
  return layers * (2 * (tokens / shape_.grid.block) * row_bytes() + panel_bytes);
}

}  // namespace ei::sparse
