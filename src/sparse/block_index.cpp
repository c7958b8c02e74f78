#include "sparse/block_index.h"

#include <algorithm>

#include "base/check.h"

namespace ei::sparse {

BlockIndex::BlockIndex(const Backend& backend, BlockIndexShape shape)
    : backend_(&backend), shape_(std::move(shape)), layers_(shape_.planned.size()) {}

int64_t BlockIndex::row_bytes() const {
  const kernels::KeyIndexShape& keys = shape_.keys;
  return int64_t{keys.kv_heads} * keys.head_dim *
         static_cast<int64_t>(dtype_bytes(kernels::extremes_type(keys.key_type)));
}

int64_t BlockIndex::num_planned() const {
  return static_cast<int64_t>(std::count(shape_.planned.begin(), shape_.planned.end(), uint8_t{1}));
}

int64_t BlockIndex::extremes_bytes(int64_t tokens) const {
  return shape_.extremes ? tokens / shape_.keys.grid.block * row_bytes() : 0;
}

kernels::KeyIndexBytes BlockIndex::rated_bytes(int64_t tokens, int64_t segments) const {
  return shape_.rated ? backend_->key_index_bytes(shape_.keys, tokens, segments) : kernels::KeyIndexBytes{};
}

int64_t BlockIndex::spare_at(int64_t tokens, int64_t have) const {
  const int64_t wanted = rated_bytes(tokens).passing;
  return wanted > have && wanted <= 2 * have ? wanted : have;
}

int64_t BlockIndex::spare_for(int64_t have) {
  const int64_t spare = spare_at(capacity_, have);
  if (rated_bytes(capacity_).passing <= spare) own_passing_ = Buffer();
  return spare;
}

Status BlockIndex::grow(Buffer& buffer, int64_t bytes, int64_t held) const {
  EI_ASSIGN_OR_RETURN(Buffer larger, backend_->allocate(static_cast<size_t>(bytes)));
  if (held > 0) EI_RETURN_IF_ERROR(backend_->copy_within(larger.data(), buffer.data(), static_cast<size_t>(held)));
  buffer = std::move(larger);
  return {};
}

Status BlockIndex::reserve(int64_t tokens) {
  if (tokens <= capacity_) return {};
  const int64_t kept = rated_bytes(tokens).kept;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (shape_.planned[i] == 0) continue;
    Layer& layer = layers_[i];
    if (shape_.extremes) {
      for (Buffer* buffer : {&layer.max_keys, &layer.min_keys})
        EI_RETURN_IF_ERROR(grow(*buffer, extremes_bytes(tokens), layer.blocks * row_bytes()));
    }
    if (kept > 0) {
      layer.supers = 0;  // made anew from the keys: their place depends on the capacity
      EI_RETURN_IF_ERROR(grow(layer.kept, kept, 0));
    }
  }
  capacity_ = tokens;
  return {};
}

Status BlockIndex::begin_chunk(std::span<std::byte> spare) {
  const auto bytes = static_cast<size_t>(rated_bytes(capacity_).passing);
  if (bytes <= spare.size()) {
    own_passing_ = Buffer();
    passing_ = spare.data();
    return {};
  }
  if (own_passing_.bytes() < bytes) {
    own_passing_ = Buffer();
    EI_ASSIGN_OR_RETURN(own_passing_, backend_->allocate(bytes));
  }
  passing_ = own_passing_.data();
  return {};
}

void BlockIndex::update(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  if (!shape_.extremes) return;
  Layer& own = layers_[static_cast<size_t>(layer)];
  const int64_t blocks = tokens / shape_.keys.grid.block;
  EI_CHECK_LE(tokens, capacity_);
  if (blocks <= own.blocks) return;
  stream.block_extremes({.kv = kv,
                         .block = shape_.keys.grid.block,
                         .first_block = own.blocks,
                         .num_blocks = blocks - own.blocks,
                         .out = view(layer)});
  own.blocks = blocks;
}

kernels::KeyIndex BlockIndex::pack(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  EI_CHECK_LE(tokens, capacity_);
  Layer& own = layers_[static_cast<size_t>(layer)];
  const kernels::KeyIndex index{.shape = shape_.keys,
                                .kept = own.kept.data(),
                                .passing = passing_,
                                .kept_tokens = capacity_,
                                .passing_tokens = capacity_};
  const int64_t supers = tokens / super_keys();
  stream.pack_keys({.kv = kv,
                    .index = index,
                    .first = 0,
                    .length = tokens,
                    .block = shape_.keys.grid.block,
                    .first_super = own.supers,
                    .supers = supers,
                    .out = {}});
  own.supers = supers;
  return index;
}

void BlockIndex::end_prompt() {
  own_passing_ = Buffer();
  passing_ = nullptr;
}

void BlockIndex::drop() {
  end_prompt();
  for (Layer& layer : layers_) layer = Layer();
  capacity_ = 0;
}

int64_t BlockIndex::held_bytes() const {
  return num_planned() * (2 * extremes_bytes(capacity_) + rated_bytes(capacity_).kept) +
         static_cast<int64_t>(own_passing_.bytes());
}

kernels::BlockExtremes BlockIndex::view(int layer) const {
  const Layer& own = layers_[static_cast<size_t>(layer)];
  return {.max_keys = own.max_keys.data(),
          .min_keys = own.min_keys.data(),
          .type = kernels::extremes_type(shape_.keys.key_type),
          .head_stride = shape_.keys.head_dim,
          .block_stride = int64_t{shape_.keys.kv_heads} * shape_.keys.head_dim};
}

void BlockIndex::truncate(int64_t tokens) {
  for (Layer& layer : layers_) {
    layer.blocks = std::min(layer.blocks, tokens / shape_.keys.grid.block);
    layer.supers = std::min(layer.supers, tokens / super_keys());
  }
}

int64_t BlockIndex::bytes_for(int64_t tokens, int64_t segments, int64_t spare) const {
  const kernels::KeyIndexBytes rated = rated_bytes(tokens, segments);
  const int64_t larger = spare_at(tokens, spare);
  const int64_t passing = rated.passing <= larger ? larger - spare : rated.passing;
  const int64_t of_layer = 2 * backend_->taken_bytes(extremes_bytes(tokens)) + backend_->taken_bytes(rated.kept);
  return num_planned() * of_layer + passing + rated.working;
}

}  // namespace ei::sparse
