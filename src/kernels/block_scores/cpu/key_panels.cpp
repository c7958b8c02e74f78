#include "kernels/block_scores/cpu/key_panels.h"

namespace ei::kernels {
namespace {

constexpr int64_t kPanel = 8;

int64_t panels_for(int64_t count) { return (count + kPanel - 1) / kPanel; }

int64_t supers_of(const KeyIndexShape& shape, int64_t tokens) {
  return tokens / (int64_t{blocks_per_super(shape.grid)} * shape.grid.block);
}

}  // namespace

// Kept: [bound panels, kv_heads, 8 * 2 * head_dim] of bytes, then [bound panels, kv_heads, 8] of floats. Passing:
// [kv_heads, panels, 8 * head_dim] of bytes, then [kv_heads, panels] of floats. Working: peaks of one tile of rows per
// worker, and the best of every tile of every head.
KeyIndexBytes key_panel_bytes(const KeyIndexShape& shape, int64_t tokens) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t bounds = panels_for(supers_of(shape, tokens));
  return {.kept = shape.kv_heads * bounds * kPanel * (2 * shape.head_dim + kFloat),
          .passing = shape.kv_heads * panels_for(tokens) * (kPanel * shape.head_dim + kFloat),
          .working = (150 + 20 * int64_t{shape.heads}) * (tokens / shape.grid.block) * kFloat};
}

KeyPanels key_panels(const KeyIndex& index) {
  const KeyIndexShape& shape = index.shape;
  KeyPanels panels;
  panels.super_blocks = blocks_per_super(shape.grid);
  panels.capacity = panels_for(index.passing_tokens);
  panels.keys = static_cast<int8_t*>(index.passing);
  if (panels.keys != nullptr) {
    const int64_t bytes = shape.kv_heads * panels.capacity * kPanel * shape.head_dim;
    panels.key_scales = reinterpret_cast<float*>(panels.keys + bytes);
  }
  panels.bound_capacity = panels_for(supers_of(shape, index.kept_tokens));
  panels.bounds = static_cast<int8_t*>(index.kept);
  if (panels.bounds != nullptr) {
    const int64_t bytes = shape.kv_heads * panels.bound_capacity * kPanel * 2 * shape.head_dim;
    panels.bound_scales = reinterpret_cast<float*>(panels.bounds + bytes);
  }
  return panels;
}

}  // namespace ei::kernels
