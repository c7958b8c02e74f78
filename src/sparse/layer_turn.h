// One layer of a chunk while its plan is recorded: what every step may look at.
//
// A step is an object. reserve() takes its memory when a chunk begins; record() enqueues what the stream is to do for
// one layer; on_host() runs in the stream's turn and moves data between kernels and the walk's records. The planner
// calls them in the order in which they run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "policy/prefill/method.h"

namespace ei::sparse {

struct PlannerShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float attention_scale = 0;
  double products = 0;  // multiply-adds of a token with the weights of all layers
  DType key_type = DType::kF32;
  std::vector<uint8_t> global;  // [layers]: attends to the whole context; others have a window and stay as they are

  int64_t layers() const { return static_cast<int64_t>(global.size()); }
};

// The chunk's segments and the blocks before them.
inline int64_t num_lists(const kernels::BlockRows& rows) { return int64_t{rows.kv_heads} * rows.num_segments; }

struct LayerTurn {
  const PlannerShape& shape;
  const kernels::BlockRows& rows;
  int64_t first = 0;  // position of the chunk
  int64_t tokens = 0;
  int layer = 0;
  Matrix q;  // the chunk's rotated queries [tokens, heads * head_dim]
  const KvView& kv;
  std::span<const policy::SegmentPlace> places;  // [num_segments]
  std::span<const uint8_t> sparse;               // [num_segments]: they choose, where their rows attend
  kernels::KeyIndex keys = {};                   // where blocks are rated by peaks

  template <typename Wanted>
  std::vector<uint8_t> segments(Wanted wanted) const {
    std::vector<uint8_t> found;
    for (const policy::SegmentPlace& place : places) found.push_back(wanted(place) ? 1 : 0);
    return found;
  }
};

// An array of T for every layer, in a stream's shared() memory.
template <typename T>
class LayerArray {
 public:
  Status reserve(Stream& stream, const ScratchSlot& slot, int64_t layers, int64_t count) {
    per_layer_ = (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 4;
    EI_ASSIGN_OR_RETURN(memory_, stream.shared(slot, layers * per_layer_));
    return {};
  }
  T* of(int layer) const { return reinterpret_cast<T*>(memory_ + layer * per_layer_); }

 private:
  float* memory_ = nullptr;
  int64_t per_layer_ = 0;  // floats
};

}  // namespace ei::sparse
