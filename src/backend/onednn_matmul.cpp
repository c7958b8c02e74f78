#include "backend/onednn_matmul.h"

#ifdef EI_HAVE_ONEDNN
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "backend/onednn_convert.h"
#include "base/check.h"
#endif

namespace ei {

#ifndef EI_HAVE_ONEDNN

bool OnednnMatmul::built() { return false; }
bool OnednnMatmul::available() { return false; }
std::string OnednnMatmul::describe() { return {}; }
size_t OnednnMatmul::packed_bytes(int64_t, int64_t) { return 0; }
Result<std::unique_ptr<OnednnMatmul::Packed>> OnednnMatmul::pack(int64_t rows_n, int64_t cols_k, const RowSource&) {
  return allocate(rows_n, cols_k);
}
Result<std::unique_ptr<OnednnMatmul::Packed>> OnednnMatmul::allocate(int64_t, int64_t) {
  return make_error(ErrorKind::kDevice, "built without oneDNN: install libdnnl-dev and rebuild, or unset EI_DENSE");
}
void OnednnMatmul::repack(Packed&, int64_t, int64_t, const RowSource&) {}
void OnednnMatmul::run(const Packed&, const float*, int64_t, float*, int64_t, int64_t, void*, Worker, WorkQueue&) {}
size_t OnednnMatmul::scratch_bytes(const Packed&, int64_t, int) { return 0; }

#else

// oneDNN of Debian runs on OpenMP; only these two of its calls are needed, and clang has no omp.h without libomp.
extern "C" void omp_set_num_threads(int count);
extern "C" int omp_get_max_threads(void);

namespace {

using dnnl::memory;
using Type = memory::data_type;

constexpr int64_t kTileRows = 256;  // x tile: 256 rows keep re-reading W at 256 flop/byte, and the tile in L2
constexpr int64_t kMinTileRows = 32;
constexpr int64_t kPackRows = 16;
constexpr size_t kAlign = 64;

size_t align_up(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// The caller's pool is the only source of threads: oneDNN sees one thread while this lives.
class SingleThreaded {
 public:
  SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(before_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, int64_t m, int64_t k, int64_t y_stride,
                                             const memory::desc& weights) {
  const Type type = weights.data_type();
  const memory::desc src({m, k}, type, memory::dims{k, 1});
  const memory::desc dst({m, weights.dims()[1]}, Type::f32, memory::dims{y_stride, 1});
  dnnl::primitive_attr attr;
  // The library's own scratchpad belongs to the thread that made the primitive; ours are shared by all workers.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {dnnl::matmul::desc(src, weights, dst), attr, engine};
}

memory::desc any_weights(int64_t k, int64_t n, Type type) {
  return memory::desc({k, n}, type, memory::format_tag::any);
}

// bf16 where oneDNN has a bf16 matmul at all; f32 (holding bf16-rounded values) otherwise.
Type element_type(const dnnl::engine& engine) {
  try {
    describe_matmul(engine, kTileRows, 64, 64, any_weights(64, 64, Type::bf16));
    return Type::bf16;
  } catch (const dnnl::error&) {
    return Type::f32;
  }
}

memory::desc weights_layout(const dnnl::engine& engine, int64_t k, int64_t n, Type type) {
  const memory::desc wanted = describe_matmul(engine, kTileRows, k, n, any_weights(k, n, type)).weights_desc();
  if (wanted.data.format_kind == dnnl_blocked && wanted.data.extra.flags == 0) return wanted;
  return memory::desc({k, n}, type, memory::format_tag::ab);
}

// In a blocked layout the offset of (k, n) is a sum of a part that depends on k and one that depends on n.
std::vector<int64_t> axis_offsets(const memory::desc& layout, int axis) {
  const auto& blocking = layout.data.format_desc.blocking;
  std::vector<int64_t> offsets(static_cast<size_t>(layout.dims()[static_cast<size_t>(axis)]));
  for (size_t i = 0; i < offsets.size(); ++i) {
    int64_t position = static_cast<int64_t>(i);
    int64_t inner_stride = 1;
    for (int b = blocking.inner_nblks - 1; b >= 0; --b) {
      const int64_t block = blocking.inner_blks[b];
      if (blocking.inner_idxs[b] == axis) {
        offsets[i] += position % block * inner_stride;
        position /= block;
      }
      inner_stride *= block;
    }
    offsets[i] += position * blocking.strides[axis];
  }
  return offsets;
}

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

struct PackedPanels final : OnednnMatmul::Packed {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  Type type = Type::f32;
  Panels full;  // the first rows / kPanelRows panels
  Panels tail;  // the last one when kPanelRows does not divide rows
  size_t panel_bytes = 0;
  size_t scratchpad_bytes = 0;
  std::unique_ptr<std::byte, Free> data;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Primitive>> primitives;  // few: tile heights × panel widths × strides of y

  int64_t num_panels() const { return (rows + OnednnMatmul::kPanelRows - 1) / OnednnMatmul::kPanelRows; }
  int64_t panel_rows(int64_t panel) const {
    return std::min(OnednnMatmul::kPanelRows, rows - panel * OnednnMatmul::kPanelRows);
  }
  const Panels& panels(int64_t n) const { return n == OnednnMatmul::kPanelRows ? full : tail; }
  size_t element_bytes() const { return type == Type::bf16 ? 2 : 4; }

  const Primitive& primitive(int64_t m, int64_t n, int64_t y_stride) const {
    const std::scoped_lock lock(mutex);
    for (const auto& known : primitives) {
      if (known->m == m && known->n == n && known->y_stride == y_stride) return *known;
    }
    const auto made = describe_matmul(engine, m, cols, y_stride, panels(n).layout);
    primitives.push_back(
        std::make_unique<Primitive>(Primitive{m, n, y_stride, dnnl::matmul(made), made.src_desc(), made.weights_desc(),
                                              made.dst_desc(), made.scratchpad_desc()}));
    return *primitives.back();
  }
};

bool holds_pairs(const Panels& panels) {
  if (panels.k_offsets.size() % 2 != 0) return false;
  for (size_t k = 0; k < panels.k_offsets.size(); k += 2) {
    if (panels.k_offsets[k] % 2 != 0 || panels.k_offsets[k + 1] != panels.k_offsets[k] + 1) return false;
  }
  return std::all_of(panels.n_offsets.begin(), panels.n_offsets.end(), [](int64_t offset) { return offset % 2 == 0; });
}

void lay_out(PackedPanels& packed, int64_t n, Panels& panels) {
  panels.layout = weights_layout(packed.engine, packed.cols, n, packed.type);
  panels.k_offsets = axis_offsets(panels.layout, 0);
  panels.n_offsets = axis_offsets(panels.layout, 1);
  panels.pairs = holds_pairs(panels);
  for (int64_t m = kTileRows; m >= kMinTileRows; m /= 2) {
    const auto made = describe_matmul(packed.engine, m, packed.cols, n, panels.layout);
    packed.scratchpad_bytes = std::max(packed.scratchpad_bytes, made.scratchpad_desc().get_size());
  }
}

// The shapes, without the memory.
std::unique_ptr<PackedPanels> lay_out(int64_t rows_n, int64_t cols_k) {
  auto packed = std::make_unique<PackedPanels>();
  packed->rows = rows_n;
  packed->cols = cols_k;
  packed->type = element_type(packed->engine);
  const int64_t tail = rows_n % OnednnMatmul::kPanelRows;
  if (rows_n >= OnednnMatmul::kPanelRows) {
    lay_out(*packed, OnednnMatmul::kPanelRows, packed->full);
    packed->panel_bytes = align_up(packed->full.layout.get_size());
    packed->bytes = packed->panel_bytes * static_cast<size_t>(rows_n / OnednnMatmul::kPanelRows);
  }
  if (tail > 0) {
    lay_out(*packed, tail, packed->tail);
    packed->bytes += align_up(packed->tail.layout.get_size());
  }
  return packed;
}

// Rows of x are cut into tiles of 256, then one each of 128, 64, 32 as the rest needs, then one of 32 partly empty:
// four heights in all, so few primitives are ever made.
struct Tile {
  int64_t begin = 0;
  int64_t rows = 0;    // real rows
  int64_t height = 0;  // rows the primitive works on
};

std::vector<Tile> cut_rows(int64_t m) {
  std::vector<Tile> tiles;
  int64_t height = kTileRows;
  for (int64_t begin = 0; begin < m;) {
    while (height > kMinTileRows && m - begin < height) height /= 2;
    const int64_t rows = std::min(height, m - begin);
    tiles.push_back({begin, rows, height});
    begin += rows;
  }
  return tiles;
}

// Where a worker's part of the scratch keeps what.
struct ScratchLayout {
  size_t x = 0;           // the converted tile, [kTileRows, K]
  size_t y = 0;           // the result of a partly empty tile, [kMinTileRows, kPanelRows]
  size_t scratchpad = 0;  // oneDNN's
  size_t bytes = 0;
};

ScratchLayout scratch_layout(const PackedPanels& packed) {
  ScratchLayout layout;
  layout.y = align_up(static_cast<size_t>(kTileRows * packed.cols) * packed.element_bytes());
  layout.scratchpad = layout.y + align_up(static_cast<size_t>(kMinTileRows * OnednnMatmul::kPanelRows) * sizeof(float));
  layout.bytes = layout.scratchpad + align_up(packed.scratchpad_bytes);
  return layout;
}

struct Work {
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  std::byte* scratch = nullptr;  // this worker's
};

void convert_tile(const PackedPanels& packed, const Work& work, const Tile& tile) {
  const size_t row_bytes = static_cast<size_t>(packed.cols) * packed.element_bytes();
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float* from = work.x + (tile.begin + row) * work.x_stride;
    std::byte* to = work.scratch + static_cast<size_t>(row) * row_bytes;
    if (packed.type == Type::bf16) {
      onednn::round_to_bf16(from, reinterpret_cast<uint16_t*>(to), packed.cols);
    } else {
      onednn::round_in_f32(from, reinterpret_cast<float*>(to), packed.cols);
    }
  }
  std::memset(work.scratch + static_cast<size_t>(tile.rows) * row_bytes, 0,
              static_cast<size_t>(tile.height - tile.rows) * row_bytes);
}

void multiply(const PackedPanels& packed, const Work& work, const Tile& tile, int64_t panel,
              const dnnl::stream& stream) {
  const ScratchLayout layout = scratch_layout(packed);
  const int64_t n = packed.panel_rows(panel);
  const bool padded = tile.rows < tile.height;
  const Primitive& op = packed.primitive(tile.height, n, padded ? n : work.y_stride);
  float* y = work.y + tile.begin * work.y_stride + panel * OnednnMatmul::kPanelRows;
  float* y_padded = reinterpret_cast<float*>(work.scratch + layout.y);
  // Another stride of y may want a larger scratchpad than the ones asked about when the matrix was laid out.
  std::unique_ptr<std::byte, Free> larger;
  void* scratchpad = work.scratch + layout.scratchpad;
  if (op.scratchpad.get_size() > packed.scratchpad_bytes) {
    larger.reset(static_cast<std::byte*>(std::aligned_alloc(kAlign, align_up(op.scratchpad.get_size()))));
    EI_CHECK(larger != nullptr);
    scratchpad = larger.get();
  }
  std::byte* weights = packed.data.get() + packed.panel_bytes * static_cast<size_t>(panel);
  op.primitive.execute(stream, {{DNNL_ARG_SRC, memory(op.src, packed.engine, work.scratch + layout.x)},
                                {DNNL_ARG_WEIGHTS, memory(op.weights, packed.engine, weights)},
                                {DNNL_ARG_DST, memory(op.dst, packed.engine, padded ? y_padded : y)},
                                {DNNL_ARG_SCRATCHPAD, memory(op.scratchpad, packed.engine, scratchpad)}});
  if (!padded) return;
  for (int64_t row = 0; row < tile.rows; ++row) {
    std::copy_n(y_padded + row * n, n, y + row * work.y_stride);
  }
}

// Rows [begin, end) of one panel: up to 16 rows of one k lie side by side in the blocked layouts, so they go in
// together. With unit = 2 an Element is a pair of neighbouring k.
template <int unit, typename Element>
void place_rows(const Panels& panels, const Element* rows, int64_t cols, int64_t begin, int64_t end, Element* to) {
  for (int64_t k = 0; k < cols; ++k) {
    Element* column = to + panels.k_offsets[static_cast<size_t>(k * unit)] / unit;
    for (int64_t n = begin; n < end; ++n) {
      column[panels.n_offsets[static_cast<size_t>(n)] / unit] = rows[(n - begin) * cols + k];
    }
  }
}

}  // namespace

bool OnednnMatmul::built() { return true; }

bool OnednnMatmul::available() {
  try {
#if defined(__x86_64__)
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
    if (isa != dnnl::cpu_isa::avx512_core_bf16 && isa != dnnl::cpu_isa::avx512_core_amx) return false;
#endif
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto made = describe_matmul(engine, kTileRows, 512, kPanelRows, any_weights(512, kPanelRows, Type::bf16));
    return std::string(made.impl_info_str()).find("ref") == std::string::npos;
  } catch (const dnnl::error&) {
    return false;
  }
}

std::string OnednnMatmul::describe() {
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto made =
        describe_matmul(engine, kTileRows, 512, kPanelRows, any_weights(512, kPanelRows, element_type(engine)));
    const dnnl_version_t* version = dnnl::version();
    return str_format("oneDNN %d.%d.%d %s", version->major, version->minor, version->patch, made.impl_info_str());
  } catch (const dnnl::error& error) {
    return str_format("oneDNN (unusable: %s)", error.what());
  }
}

size_t OnednnMatmul::packed_bytes(int64_t rows_n, int64_t cols_k) {
  try {
    const SingleThreaded single;
    return lay_out(rows_n, cols_k)->bytes;
  } catch (const dnnl::error&) {
    return 0;
  }
}

Result<std::unique_ptr<OnednnMatmul::Packed>> OnednnMatmul::allocate(int64_t rows_n, int64_t cols_k) {
  if (rows_n <= 0 || cols_k <= 0) {
    return make_error(ErrorKind::kModel, "cannot pack an empty matrix: %lld x %lld", static_cast<long long>(rows_n),
                      static_cast<long long>(cols_k));
  }
  try {
    const SingleThreaded single;
    auto packed = lay_out(rows_n, cols_k);
    packed->data.reset(static_cast<std::byte*>(std::aligned_alloc(kAlign, packed->bytes)));
    if (packed->data == nullptr) {
      return make_error(ErrorKind::kMemory, "no memory for a packed copy of a weight: %zu bytes; use EI_DENSE=ggml",
                        packed->bytes);
    }
    std::memset(packed->data.get(), 0, packed->bytes);  // the padding inside blocks stays zero for good
    return std::unique_ptr<Packed>(std::move(packed));
  } catch (const dnnl::error& error) {
    return make_error(ErrorKind::kDevice, "oneDNN cannot multiply by a %lld x %lld matrix: %s; use EI_DENSE=ggml",
                      static_cast<long long>(rows_n), static_cast<long long>(cols_k), error.what());
  }
}

Result<std::unique_ptr<OnednnMatmul::Packed>> OnednnMatmul::pack(int64_t rows_n, int64_t cols_k,
                                                                 const RowSource& source) {
  EI_ASSIGN_OR_RETURN(auto packed, allocate(rows_n, cols_k));
  repack(*packed, 0, rows_n, source);
  return packed;
}

void OnednnMatmul::repack(Packed& base, int64_t begin, int64_t end, const RowSource& source) {
  auto& packed = static_cast<PackedPanels&>(base);
  EI_CHECK_LE(0, begin);
  EI_CHECK_LE(end, packed.rows);
  std::vector<float> rows(static_cast<size_t>(kPackRows * packed.cols));
  std::vector<uint32_t> rounded(packed.type == Type::bf16 ? rows.size() / 2 : 0);  // bf16 pairs
  for (int64_t row = begin; row < end;) {
    const int64_t panel = row / kPanelRows;
    const int64_t stop = std::min({end, (row / kPackRows + 1) * kPackRows, (panel + 1) * kPanelRows});
    source(row, stop, rows.data());
    const Panels& panels = packed.panels(packed.panel_rows(panel));
    std::byte* to = packed.data.get() + packed.panel_bytes * static_cast<size_t>(panel);
    const int64_t first = row - panel * kPanelRows;
    const int64_t last = stop - panel * kPanelRows;
    const int64_t count = (stop - row) * packed.cols;
    if (packed.type == Type::bf16) {
      auto* elements = reinterpret_cast<uint16_t*>(rounded.data());
      onednn::round_to_bf16(rows.data(), elements, count);
      if (panels.pairs) {
        place_rows<2>(panels, rounded.data(), packed.cols / 2, first, last, reinterpret_cast<uint32_t*>(to));
      } else {
        place_rows<1>(panels, elements, packed.cols, first, last, reinterpret_cast<uint16_t*>(to));
      }
    } else {
      onednn::round_in_f32(rows.data(), rows.data(), count);
      place_rows<1>(panels, rows.data(), packed.cols, first, last, reinterpret_cast<float*>(to));
    }
    row = stop;
  }
}

size_t OnednnMatmul::scratch_bytes(const Packed& packed, int64_t, int workers) {
  return scratch_layout(static_cast<const PackedPanels&>(packed)).bytes * static_cast<size_t>(workers);
}

void OnednnMatmul::run(const Packed& base, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t m,
                       void* scratch, Worker worker, WorkQueue& queue) {
  const auto& packed = static_cast<const PackedPanels&>(base);
  const Work work{x, x_stride, y, y_stride,
                  static_cast<std::byte*>(scratch) + scratch_layout(packed).bytes * static_cast<size_t>(worker.index)};
  const std::vector<Tile> tiles = cut_rows(m);
  if (tiles.empty()) return;
  // A piece is one tile × one group of panels, tile by tile: enough pieces to balance, and a worker that gets the next
  // group of the same tile has its x converted already.
  const auto num_tiles = static_cast<int64_t>(tiles.size());
  const int64_t num_panels = packed.num_panels();
  const int64_t groups =
      worker.count == 1 ? 1 : std::clamp((4 * worker.count + num_tiles - 1) / num_tiles, int64_t{1}, num_panels);
  int64_t converted = -1;
  try {
    const SingleThreaded single;
    const dnnl::stream stream(packed.engine);
    for (int64_t piece = queue.take(); piece < num_tiles * groups; piece = queue.take()) {
      const int64_t index = piece / groups;
      const Tile& tile = tiles[static_cast<size_t>(index)];
      if (index != converted) convert_tile(packed, work, tile);
      converted = index;
      const Range range = even_share(num_panels, {static_cast<int>(piece % groups), static_cast<int>(groups)});
      for (int64_t panel = range.begin; panel < range.end; ++panel) multiply(packed, work, tile, panel, stream);
    }
  } catch (const dnnl::error&) {
    // The same shapes were described when the matrix was laid out: only exhausted memory is left.
    EI_CHECK(!"oneDNN failed to make or run a matmul it had accepted");
  }
}

#endif

}  // namespace ei
