#include "sparse/block_index.h"

#include <algorithm>

#include "base/check.h"

namespace ei::sparse {

namespace {
constexpr int64_t kPanelKeys = 8;
constexpr int64_t kSuperKeys = 64;  // wider bounds find other rows, narrower ones cost more (docs/notes/selection.md)

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

int64_t BlockIndex::num_planned() const {
  return static_cast<int64_t>(std::count(shape_.planned.begin(), shape_.planned.end(), uint8_t{1}));
}

int64_t BlockIndex::extremes_bytes(int64_t tokens) const {
  return shape_.extremes ? tokens / shape_.grid.block * row_bytes() : 0;
}

// [bound panels, kv_heads, 8 * 2 * head_dim] of bytes, then [bound panels, kv_heads, 8] of floats: grows by appending
// only within its capacity.
int64_t BlockIndex::bounds_bytes(int64_t tokens) const {
  if (!shape_.panels) return 0;
  const int64_t panels = round_up(tokens / super_keys(), kPanelKeys) / kPanelKeys;
  return shape_.kv_heads * panels * kPanelKeys * (2 * shape_.head_dim + int64_t{sizeof(float)});
}

int64_t BlockIndex::panels_bytes(int64_t tokens) const {
  if (!shape_.panels) return 0;
  const int64_t panels = round_up(tokens, kPanelKeys) / kPanelKeys;
  return shape_.kv_heads * panels * (kPanelKeys * shape_.head_dim + int64_t{sizeof(float)});
}

Status BlockIndex::grow(Buffer& buffer, int64_t bytes, int64_t held) const {
  EI_ASSIGN_OR_RETURN(Buffer larger, backend_->allocate(static_cast<size_t>(bytes)));
  if (held > 0) EI_RETURN_IF_ERROR(backend_->copy_within(larger.data(), buffer.data(), static_cast<size_t>(held)));
  buffer = std::move(larger);
  return {};
}

Status BlockIndex::reserve(int64_t tokens) {
  if (shape_.panels && tokens > panel_capacity_) {
    panels_ = Buffer();
    panel_capacity_ = 0;
    EI_ASSIGN_OR_RETURN(panels_, backend_->allocate(static_cast<size_t>(panels_bytes(tokens))));
    panel_capacity_ = tokens;
  }
  if (tokens <= capacity_) return {};
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (shape_.planned[i] == 0) continue;
    Layer& layer = layers_[i];
    if (shape_.extremes) {
      for (Buffer* buffer : {&layer.max_keys, &layer.min_keys})
        EI_RETURN_IF_ERROR(grow(*buffer, extremes_bytes(tokens), layer.blocks * row_bytes()));
    }
    if (shape_.panels && bounds_bytes(tokens) > 0) {
      layer.supers = 0;  // made anew from the keys: their place depends on the capacity
      EI_RETURN_IF_ERROR(grow(layer.bounds, bounds_bytes(tokens), 0));
    }
  }
  capacity_ = tokens;
  return {};
}

void BlockIndex::update(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  if (!shape_.extremes) return;
  Layer& own = layers_[static_cast<size_t>(layer)];
  const int64_t blocks = tokens / shape_.grid.block;
  EI_CHECK_LE(tokens, capacity_);
  if (blocks <= own.blocks) return;
  stream.block_extremes({.kv = kv,
                         .block = shape_.grid.block,
                         .first_block = own.blocks,
                         .num_blocks = blocks - own.blocks,
                         .out = view(layer)});
  own.blocks = blocks;
}

kernels::KeyPanels BlockIndex::pack(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  EI_CHECK_LE(tokens, panel_capacity_);
  Layer& own = layers_[static_cast<size_t>(layer)];
  const int64_t heads = shape_.kv_heads;
  kernels::KeyPanels panels;
  panels.super_blocks = super_blocks_;
  panels.capacity = round_up(panel_capacity_, kPanelKeys) / kPanelKeys;
  panels.keys = static_cast<int8_t*>(panels_.data());
  panels.key_scales = reinterpret_cast<float*>(panels.keys + heads * panels.capacity * kPanelKeys * shape_.head_dim);
  panels.bound_capacity = round_up(capacity_ / super_keys(), kPanelKeys) / kPanelKeys;
  panels.bounds = static_cast<int8_t*>(own.bounds.data());
  if (panels.bounds != nullptr) {
    const int64_t bytes = heads * panels.bound_capacity * kPanelKeys * 2 * shape_.head_dim;
    panels.bound_scales = reinterpret_cast<float*>(panels.bounds + bytes);
  }
  const int64_t supers = tokens / super_keys();
  stream.pack_keys({.kv = kv,
                    .first = 0,
                    .length = tokens,
                    .block = shape_.grid.block,
                    .first_super = own.supers,
                    .supers = supers,
                    .out = panels});
  own.supers = supers;
  return panels;
}

void BlockIndex::end_prompt() {
  panels_ = Buffer();
  panel_capacity_ = 0;
}

void BlockIndex::drop() {
  end_prompt();
  for (Layer& layer : layers_) layer = Layer();
  capacity_ = 0;
}

int64_t BlockIndex::held_bytes() const {
  return num_planned() * (2 * extremes_bytes(capacity_) + bounds_bytes(capacity_)) + panels_bytes(panel_capacity_);
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
    layer.supers = std::min(layer.supers, tokens / super_keys());
  }
}

int64_t BlockIndex::bytes_for(int64_t tokens) const {
  return num_planned() * (2 * extremes_bytes(tokens) + bounds_bytes(tokens)) + panels_bytes(tokens);
}

}  // namespace ei::sparse
