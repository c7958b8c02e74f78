#ifdef EI_HAVE_ONEDNN
#include "backend/onednn_panels.h"

#include <algorithm>
#include <string>

// oneDNN of Debian runs on OpenMP; only these two of its calls are needed, and clang has no omp.h without libomp.
extern "C" void omp_set_num_threads(int count);
extern "C" int omp_get_max_threads(void);

namespace ei::onednn {
namespace {

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

bool holds_pairs(const Panels& panels) {
  if (panels.k_offsets.size() % 2 != 0) return false;
  for (size_t k = 0; k < panels.k_offsets.size(); k += 2) {
    if (panels.k_offsets[k] % 2 != 0 || panels.k_offsets[k + 1] != panels.k_offsets[k] + 1) return false;
  }
  return std::all_of(panels.n_offsets.begin(), panels.n_offsets.end(), [](int64_t offset) { return offset % 2 == 0; });
}

// What oneDNN would run for rows of y that lie y_stride apart; "" when nothing will do.
std::string code_for(const PackedPanels& packed, int64_t m, int64_t y_stride, const memory::desc& weights) {
  try {
    return describe_matmul(packed.engine, m, packed.cols, y_stride, weights).impl_info_str();
  } catch (const dnnl::error&) {
    return "";
  }
}

void lay_out(PackedPanels& packed, int64_t n, Panels& panels) {
  panels.layout = weights_layout(packed.engine, packed.cols, n, packed.type);
  panels.k_offsets = axis_offsets(panels.layout, 0);
  panels.n_offsets = axis_offsets(panels.layout, 1);
  panels.pairs = holds_pairs(panels);
  for (int64_t m = kTileRows; m >= kMinTileRows; m /= 2) {
    const auto made = describe_matmul(packed.engine, m, packed.cols, n, panels.layout);
    packed.scratchpad_bytes = std::max(packed.scratchpad_bytes, made.scratchpad_desc().get_size());
    packed.writes_apart =
        packed.writes_apart && made.impl_info_str() == code_for(packed, m, n + kPanelRows, panels.layout);
  }
}

}  // namespace

SingleThreaded::SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
SingleThreaded::~SingleThreaded() { omp_set_num_threads(before_); }

const Primitive& PackedPanels::primitive(int64_t m, int64_t n, int64_t y_stride) const {
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

Type element_type(const dnnl::engine& engine) {
  try {
    describe_matmul(engine, kTileRows, 64, 64, any_weights(64, 64, Type::bf16));
    return Type::bf16;
  } catch (const dnnl::error&) {
    return Type::f32;
  }
}

std::unique_ptr<PackedPanels> lay_out(int64_t rows_n, int64_t cols_k) {
  auto packed = std::make_unique<PackedPanels>();
  packed->rows = rows_n;
  packed->cols = cols_k;
  packed->type = element_type(packed->engine);
  const int64_t tail = rows_n % kPanelRows;
  if (rows_n >= kPanelRows) {
    lay_out(*packed, kPanelRows, packed->full);
    packed->panel_bytes = align_up(packed->full.layout.get_size());
    packed->bytes = packed->panel_bytes * static_cast<size_t>(rows_n / kPanelRows);
  }
  if (tail > 0) {
    lay_out(*packed, tail, packed->tail);
    packed->bytes += align_up(packed->tail.layout.get_size());
  }
  return packed;
}

}  // namespace ei::onednn
#endif
