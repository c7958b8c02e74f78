#include "backend/onednn_matmul.h"

#ifdef EI_HAVE_ONEDNN
#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/onednn_convert.h"
#include "backend/onednn_panels.h"
#include "base/check.h"
#include "kernels/simd/cpu_target.h"
#include "kernels/simd/tile_keeper.h"
#endif

namespace ei {

#ifndef EI_HAVE_ONEDNN

bool onednn_matmul_fast(std::string_view) { return false; }
Result<std::unique_ptr<DenseProvider>> create_onednn_matmul(std::string_view) {
  return make_error(ErrorKind::kUsage, "EI_DENSE=onednn: built without oneDNN; install libdnnl-dev and rebuild");
}

#else

using namespace onednn;

namespace {

constexpr int64_t kPackRows = 16;

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
  size_t y = 0;           // a result whose rows cannot go to y at once, [rows, kPanelRows]
  size_t scratchpad = 0;  // oneDNN's
  size_t bytes = 0;
};

ScratchLayout scratch_layout(const PackedPanels& packed) {
  ScratchLayout layout;
  layout.y = align_up(static_cast<size_t>(kTileRows * packed.cols) * packed.element_bytes());
  const int64_t rows = packed.writes_apart ? kMinTileRows : kTileRows;
  layout.scratchpad = layout.y + align_up(static_cast<size_t>(rows * kPanelRows) * sizeof(float));
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
      round_to_bf16(from, reinterpret_cast<uint16_t*>(to), packed.cols);
    } else {
      round_in_f32(from, reinterpret_cast<float*>(to), packed.cols);
    }
  }
  std::memset(work.scratch + static_cast<size_t>(tile.rows) * row_bytes, 0,
              static_cast<size_t>(tile.height - tile.rows) * row_bytes);
}

void multiply_tile(const PackedPanels& packed, const Work& work, const Tile& tile, int64_t panel,
                   const dnnl::stream& stream) {
  const ScratchLayout layout = scratch_layout(packed);
  const int64_t n = packed.panel_rows(panel);
  const bool apart = tile.rows < tile.height || !packed.writes_apart;
  const Primitive& op = packed.primitive(tile.height, n, apart ? n : work.y_stride);
  float* y = work.y + tile.begin * work.y_stride + panel * kPanelRows;
  float* y_apart = reinterpret_cast<float*>(work.scratch + layout.y);
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
                                {DNNL_ARG_DST, memory(op.dst, packed.engine, apart ? y_apart : y)},
                                {DNNL_ARG_SCRATCHPAD, memory(op.scratchpad, packed.engine, scratchpad)}});
  if (!apart) return;
  for (int64_t row = 0; row < tile.rows; ++row) {
    std::copy_n(y_apart + row * n, n, y + row * work.y_stride);
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

class OnednnMatmul final : public DenseProvider {
 public:
  std::string describe() const override;
  int64_t unpack_tokens() const override { return 512; }
  int64_t whole_slice() const override { return kPanelRows; }
  size_t packed_bytes(int64_t rows_n, int64_t cols_k) const override;
  Result<std::unique_ptr<Packed>> allocate(int64_t rows_n, int64_t cols_k) const override;
  void repack(Packed& packed, int64_t begin, int64_t end, const RowSource& source) const override;
  size_t scratch_bytes(const Packed& packed, int64_t m, int workers) const override;
  void multiply(const Product& product, Worker worker, WorkQueue& queue) const override;
};

std::string OnednnMatmul::describe() const {
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

size_t OnednnMatmul::packed_bytes(int64_t rows_n, int64_t cols_k) const {
  try {
    const SingleThreaded single;
    return lay_out(rows_n, cols_k)->bytes;
  } catch (const dnnl::error&) {
    return 0;
  }
}

Result<std::unique_ptr<DenseProvider::Packed>> OnednnMatmul::allocate(int64_t rows_n, int64_t cols_k) const {
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

void OnednnMatmul::repack(Packed& base, int64_t begin, int64_t end, const RowSource& source) const {
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
      round_to_bf16(rows.data(), elements, count);
      if (panels.pairs) {
        place_rows<2>(panels, rounded.data(), packed.cols / 2, first, last, reinterpret_cast<uint32_t*>(to));
      } else {
        place_rows<1>(panels, elements, packed.cols, first, last, reinterpret_cast<uint16_t*>(to));
      }
    } else {
      round_in_f32(rows.data(), rows.data(), count);
      place_rows<1>(panels, rows.data(), packed.cols, first, last, reinterpret_cast<float*>(to));
    }
    row = stop;
  }
}

size_t OnednnMatmul::scratch_bytes(const Packed& packed, int64_t, int workers) const {
  return scratch_layout(static_cast<const PackedPanels&>(packed)).bytes * static_cast<size_t>(workers);
}

void OnednnMatmul::multiply(const Product& product, Worker worker, WorkQueue& queue) const {
  const kernels::TileKeeper keeper;  // oneDNN leaves the tiles as it needed them
  const auto& packed = static_cast<const PackedPanels&>(product.weight);
  const size_t offset = scratch_layout(packed).bytes * static_cast<size_t>(worker.index);
  const Work work{product.x.data, product.x.stride, product.y.data, product.y.stride,
                  static_cast<std::byte*>(product.scratch) + offset};
  const std::vector<Tile> tiles = cut_rows(product.x.rows);
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
      for (int64_t panel = range.begin; panel < range.end; ++panel) multiply_tile(packed, work, tile, panel, stream);
    }
  } catch (const dnnl::error&) {
    // The same shapes were described when the matrix was laid out: only exhausted memory is left.
    check_failed(__FILE__, __LINE__, "oneDNN failed on a matmul it had accepted");
  }
}

}  // namespace

bool onednn_matmul_fast(std::string_view) {
  if (!kernels::cpu_target().empty()) return false;
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

Result<std::unique_ptr<DenseProvider>> create_onednn_matmul(std::string_view) {
  if (!kernels::cpu_target().empty()) {
    return make_error(ErrorKind::kUsage, "EI_DENSE=onednn: this build is for %s, and oneDNN uses what the CPU has",
                      std::string(kernels::cpu_target()).c_str());
  }
  return std::unique_ptr<DenseProvider>(std::make_unique<OnednnMatmul>());
}

#endif

}  // namespace ei
