// One compression on its way: what every step may look at, and what they find out.
//
// A step is an object. reserve() takes its memory when a compression begins; record() enqueues what the stream is to do
// for one layer; on_host() runs in the stream's turn and moves data between kernels and this record. The compressor
// calls them in the order in which they run (compressor.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "kv/expected_attention.h"
#include "kv/layer_lengths.h"
#include "kv/observer.h"
#include "kv/store.h"
#include "policy/kv/method.h"

namespace ei::kv {

struct CompressorShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float attention_scale = 0;
  int64_t slot_bytes = 1;        // of a key and a value of one kv_head
  std::vector<int32_t> windows;  // [layers]: sliding window of the layer; 0: it attends to everything
  std::vector<LayerRope> ropes;  // [layers], for methods that undo rotations
};

using LayerKeeps = std::vector<KeepList>;  // [kv_heads]; an empty list: everything stays

// By layer means: of those that take part; the others lose what lies outside their window.
struct Compression {
  const policy::KvMethod& method;
  const CompressorShape& shape;
  const Observer& observer;
  const Store& store;
  int64_t budget = 0;                           // slots per kv_head in the mean
  int64_t slots = 0;                            // the most that a kv_head of a layer holds
  std::vector<int> layers = {};                 // that take part
  std::vector<policy::LayerState> states = {};  // by layer
  std::vector<int64_t> budgets = {};            // by layer; where entropies decide, known when all are measured
  std::vector<LayerKeeps> keeps = {};           // [all layers]

  KvView view(size_t index) const { return store.view(layers[index]); }
  LayerKeeps& keeps_of(size_t index) { return keeps[static_cast<size_t>(layers[index])]; }
  bool budgets_known() const { return !budgets.empty() || layers.empty(); }
  void share_out() { budgets = method.layer_budgets(budget, states); }
  // A budget of exactly what a layer holds is carried out: rounded as AdaKV's authors do, a kv_head may lose a slot.
  bool over_budget(size_t index) const { return method.held(lengths_of(view(index))) >= budgets[index]; }
};

}  // namespace ei::kv
