#include "sparse/block_index.h"

#include <algorithm>

#include "base/check.h"

namespace ei::sparse {

BlockIndex::BlockIndex(const Backend& backend, BlockIndexShape shape)
    : backend_(&backend), shape_(std::move(shape)), layers_(shape_.planned.size()) {}

int64_t BlockIndex::row_bytes() const {
  return int64_t{shape_.kv_heads} * shape_.head_dim * static_cast<int64_t>(dtype_bytes(shape_.key_type));
}

Status BlockIndex::reserve(int64_t tokens) {
  const int64_t blocks = tokens / shape_.block;
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

void BlockIndex::update(Stream& stream, int layer, const KvView& kv, int64_t tokens) {
  Layer& own = layers_[static_cast<size_t>(layer)];
  const int64_t blocks = tokens / shape_.block;
  EI_CHECK_LE(blocks, capacity_);
  if (blocks <= own.blocks) return;
  stream.block_extremes({.kv = kv,
                         .block = shape_.block,
                         .first_block = own.blocks,
                         .num_blocks = blocks - own.blocks,
                         .out = view(layer)});
  own.blocks = blocks;
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
  for (Layer& layer : layers_) layer.blocks = std::min(layer.blocks, tokens / shape_.block);
}

int64_t BlockIndex::bytes() const { return bytes_for(shape_, capacity_ * shape_.block); }

int64_t BlockIndex::bytes_for(const BlockIndexShape& shape, int64_t tokens) {
  const auto layers = static_cast<int64_t>(std::count(shape.planned.begin(), shape.planned.end(), uint8_t{1}));
  return 2 * layers * (tokens / shape.block) * shape.kv_heads * shape.head_dim *
         static_cast<int64_t>(dtype_bytes(shape.key_type));
}

}  // namespace ei::sparse
