// The one door to oneDNN's headers: a weight matrix in panels of oneDNN's layout, and the primitives that read them.
// Included by the onednn_*.cpp files alone. Functions here may throw dnnl::error.
#pragma once

#include <cstdlib>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "backend/dense_provider.h"

namespace ei::onednn {

using dnnl::memory;
using Type = memory::data_type;

inline constexpr int64_t kPanelRows = 512;
inline constexpr int64_t kTileRows = 256;  // x tile: 256 rows keep re-reading W at 256 flop/byte, and the tile in L2
inline constexpr int64_t kMinTileRows = 32;
inline constexpr size_t kAlign = 64;

inline size_t align_up(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// The caller's pool is the only source of threads: oneDNN sees one thread while this lives.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

struct Free {
  void operator()(void* data) const { std::free(data); }
};

struct Panels {
  memory::desc layout;             // of a panel: [K, panel rows]
  std::vector<int64_t> k_offsets;  // elements
  std::vector<int64_t> n_offsets;
  bool pairs = false;  // bf16 elements 2k and 2k + 1 of a row lie in one aligned 32-bit word
};

struct Primitive {
  int64_t m = 0;
  int64_t n = 0;
  int64_t y_stride = 0;
  dnnl::matmul primitive;
  memory::desc src, weights, dst, scratchpad;
};

struct PackedPanels final : DenseProvider::Packed {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  Type type = Type::f32;
  Panels full;  // the first rows / kPanelRows panels
  Panels tail;  // the last one when kPanelRows does not divide rows
  size_t panel_bytes = 0;
  size_t scratchpad_bytes = 0;
  bool writes_apart = true;  // rows of y may lie apart: the same code serves them. If not, they go through scratch
  std::unique_ptr<std::byte, Free> data;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Primitive>> primitives;  // few: tile heights × panel widths × strides of y

  int64_t num_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t panel_rows(int64_t panel) const { return std::min(kPanelRows, rows - panel * kPanelRows); }
  const Panels& panels(int64_t n) const { return n == kPanelRows ? full : tail; }
  size_t element_bytes() const { return type == Type::bf16 ? 2 : 4; }

  const Primitive& primitive(int64_t m, int64_t n, int64_t y_stride) const;  // made on first use
};

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, int64_t m, int64_t k, int64_t y_stride,
                                             const memory::desc& weights);
memory::desc any_weights(int64_t k, int64_t n, Type type);
// bf16 where oneDNN has a bf16 matmul at all; f32 (holding bf16-rounded values) otherwise.
Type element_type(const dnnl::engine& engine);
// The shapes of a packed matrix, without its memory.
std::unique_ptr<PackedPanels> lay_out(int64_t rows_n, int64_t cols_k);

}  // namespace ei::onednn
