#include "backend/ggml_stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/check.h"
#include "base/clock.h"
#include "plan/planned_slots.h"

namespace ei {

namespace {

constexpr int64_t kSlotsTogether = 256;  // libllama rounds the slots that a call reads up to this

ggml_type type_of(DType type) {
  switch (type) {
    case DType::kF32: return GGML_TYPE_F32;
    case DType::kF16: return GGML_TYPE_F16;
    case DType::kBF16: return GGML_TYPE_BF16;
    case DType::kQ8_0:
    case DType::kF8: break;  // no session has such a cache here (Backend::holds_q8, takes_cache)
  }
  return GGML_TYPE_F32;
}

// K and V of all kv_heads side by side as libllama's cache holds them, and who sees what. `slots` is the length of the
// longest head, rounded up; what a head does not have is zero and seen by nobody.
struct Gathered {
  kernels::AttentionParams params;
  int64_t slots = 0;
  bool alike = false;           // all heads hold the same positions and no plan tells them apart: one mask for all
  std::byte* keys = nullptr;    // [kv_heads, slots, head_dim] of key_type
  std::byte* values = nullptr;  // [kv_heads, head_dim, slots] of value_type
  float* mask = nullptr;        // [alike ? 1 : heads, tokens, slots]: 0 or -infinity
  uint8_t* sees = nullptr;      // [alike ? 1 : heads, tokens]: any slot at all?
  float* products = nullptr;    // [heads, tokens, slots], then softmax of it
  float* out = nullptr;         // [heads, tokens, head_dim]
  float* q = nullptr;           // [tokens, heads, head_dim]

  int64_t kv_heads() const { return static_cast<int64_t>(params.kv.heads.size()); }
  int64_t group() const { return params.num_heads / kv_heads(); }
  int64_t masks() const { return alike ? 1 : params.num_heads; }

  // Lays the arrays out behind `memory` (null: only counts) and says how many bytes they take.
  size_t lay_out(std::byte* memory) {
    size_t used = 0;
    const auto take = [&](auto*& array, int64_t bytes) {
      if (memory != nullptr) array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(memory + used);
      used += (static_cast<size_t>(bytes) + 63) / 64 * 64;
    };
    const int64_t dim = params.kv.head_dim;
    const int64_t rows = params.num_heads * params.tokens;
    const auto size = static_cast<int64_t>(sizeof(float));
    take(keys, kv_heads() * slots * dim * static_cast<int64_t>(dtype_bytes(params.kv.key_type)));
    take(values, kv_heads() * slots * dim * static_cast<int64_t>(dtype_bytes(params.kv.value_type)));
    take(mask, masks() * params.tokens * slots * size);
    take(sees, masks() * params.tokens);
    take(products, rows * slots * size);
    take(out, rows * dim * size);
    take(q, rows * dim * size);
    return used;
  }

  // Slots [range) of every kv_head.
  void copy_slots(Range range) const {
    const KvView& kv = params.kv;
    const size_t key_bytes = dtype_bytes(kv.key_type);
    const size_t value_bytes = dtype_bytes(kv.value_type);
    const auto dim = static_cast<size_t>(kv.head_dim);
    for (int64_t h = 0; h < kv_heads(); ++h) {
      const KvHeadView& head = kv.heads[static_cast<size_t>(h)];
      for (int64_t slot = range.begin; slot < range.end; ++slot) {
        std::byte* key = keys + static_cast<size_t>(h * slots + slot) * dim * key_bytes;
        std::byte* value = values + static_cast<size_t>(h * kv.head_dim * slots + slot) * value_bytes;
        const size_t step = static_cast<size_t>(slots) * value_bytes;
        if (slot >= head.length) {
          std::memset(key, 0, dim * key_bytes);
          for (size_t d = 0; d < dim; ++d) std::memset(value + d * step, 0, value_bytes);
          continue;
        }
        const auto row = static_cast<size_t>(slot % kv.page_slots) * dim;
        const auto page = static_cast<size_t>(slot / kv.page_slots);
        std::memcpy(key, static_cast<const std::byte*>(head.key_pages[page]) + row * key_bytes, dim * key_bytes);
        const auto* from = static_cast<const std::byte*>(head.value_pages[page]) + row * value_bytes;
        for (size_t d = 0; d < dim; ++d) std::memcpy(value + d * step, from + d * value_bytes, value_bytes);
      }
    }
  }

  // Rows [range) of q and of every mask.
  void prepare_rows(Range range) const {
    const int64_t width = int64_t{params.num_heads} * params.kv.head_dim;
    for (int64_t token = range.begin; token < range.end; ++token) {
      const float factor = params.scale_queries ? params.scale : 1.0f;
      for (int64_t i = 0; i < width; ++i) q[token * width + i] = params.q[token * params.q_stride + i] * factor;
      for (int64_t m = 0; m < masks(); ++m) {
        const int64_t row = m * params.tokens + token;
        sees[row] = fill_mask(alike ? 0 : m / group(), token, mask + row * slots) ? 1 : 0;
      }
    }
  }

  bool fill_mask(int64_t kv_head, int64_t token, float* row) const {
    const KvHeadView& head = params.kv.heads[static_cast<size_t>(kv_head)];
    const int64_t position = params.first_position + token;
    std::fill_n(row, slots, -std::numeric_limits<float>::infinity());
    bool any = false;
    const auto show = [&](int64_t slot) {
      const int64_t at = head.position(slot);
      if (at > position || (params.window > 0 && at <= position - params.window)) return;
      row[slot] = 0;
      any = true;
    };
    if (params.plan != nullptr) {
      EI_CHECK(head.listed == 0 && head.tail_position == 0);  // a plan speaks of slots that are positions
      for_each_planned_slot(*params.plan, kv_head, head.length, position, show);
    } else {
      for (int64_t slot = 0; slot < head.length; ++slot) show(slot);
    }
    if (!any) std::fill_n(row, slots, 0.0f);  // a softmax of nothing is no number
    return any;
  }

  void copy_out(Range range) const {
    const int64_t dim = params.kv.head_dim;
    for (int64_t token = range.begin; token < range.end; ++token) {
      for (int64_t h = 0; h < params.num_heads; ++h) {
        float* to = params.out + token * params.out_stride + h * dim;
        if (sees[(alike ? 0 : h * params.tokens) + token] == 0) {
          std::fill_n(to, dim, 0.0f);
        } else {
          std::memcpy(to, out + (h * params.tokens + token) * dim, static_cast<size_t>(dim) * sizeof(float));
        }
      }
    }
  }
};

Gathered gather(const kernels::AttentionParams& params) {
  Gathered all{.params = params};
  const std::span<const KvHeadView> heads = params.kv.heads;
  for (const KvHeadView& head : heads) all.slots = std::max(all.slots, head.length);
  all.slots = std::max((all.slots + kSlotsTogether - 1) / kSlotsTogether, int64_t{1}) * kSlotsTogether;
  all.alike =
      params.plan == nullptr && std::all_of(heads.begin(), heads.end(), [&](const KvHeadView& head) {
        return head.listed == 0 && head.length == heads[0].length && head.tail_position == heads[0].tail_position;
      });
  return all;
}

void set_strides(ggml_tensor* tensor, size_t first, size_t second) {
  tensor->nb[1] = first;
  tensor->nb[2] = second;
  tensor->nb[3] = second * static_cast<size_t>(tensor->ne[2]);
}

}  // namespace

ggml_tensor* GgmlStream::tensor(Matrix matrix) const {
  ggml_tensor* view = ggml_new_tensor_2d(context(), GGML_TYPE_F32, matrix.cols, matrix.rows);
  view->data = matrix.data;
  const size_t row = static_cast<size_t>(matrix.stride) * sizeof(float);
  set_strides(view, row, row * static_cast<size_t>(matrix.rows));
  return view;
}

ggml_tensor* GgmlStream::heads(Matrix matrix, int64_t head_dim) const {
  ggml_tensor* view = ggml_new_tensor_3d(context(), GGML_TYPE_F32, head_dim, matrix.cols / head_dim, matrix.rows);
  view->data = matrix.data;
  set_strides(view, static_cast<size_t>(head_dim) * sizeof(float), static_cast<size_t>(matrix.stride) * sizeof(float));
  return view;
}

ggml_tensor* GgmlStream::vector(const float* data, int64_t count) const {
  return tensor({const_cast<float*>(data), 1, count, count});  // only read
}

void GgmlStream::put(ggml_tensor* node, const ggml_tensor* where) {
  node->data = where->data;
  std::copy(std::begin(where->nb), std::end(where->nb), std::begin(node->nb));
  add_node(node);
}

void GgmlStream::norm(ggml_tensor* x, const Weight& gain, float eps, ggml_tensor* y) {
  const std::vector<float>& gains = static_cast<const CpuWeight&>(gain).vector;
  ggml_tensor* normed = ggml_rms_norm(context(), x, eps);
  put(normed, y);
  put(ggml_mul(context(), normed, vector(gains.data(), static_cast<int64_t>(gains.size()))), y);
}

void GgmlStream::rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) { norm(tensor(x), gain, eps, tensor(y)); }

void GgmlStream::add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) {
  ggml_tensor* total = tensor(sum);
  put(ggml_add(context(), total, tensor(x)), total);
  if (gain != nullptr) norm(total, *gain, eps, tensor(y));
}

void GgmlStream::rotate_append(const RotateAppendParams& params) {
  EI_CHECK(params.rope.rope != nullptr);
  const Rope& rope = *params.rope.rope;
  const int64_t head_dim = params.append.shape.head_dim;
  std::vector<int32_t> positions(static_cast<size_t>(params.q.rows));
  std::iota(positions.begin(), positions.end(), params.rope.first_position);
  ggml_tensor* at = ggml_new_tensor_1d(context(), GGML_TYPE_I32, params.q.rows);
  at->data = const_cast<void*>(stage(positions.data(), positions.size() * sizeof(int32_t)));  // only read
  ggml_tensor* factors = nullptr;
  if (!rope.factors.empty()) {
    std::vector<float> padded = rope.factors;  // ggml reads one for every pair of a head, also of those it leaves alone
    padded.resize(static_cast<size_t>(head_dim / 2), 1.0f);
    factors = vector(static_cast<const float*>(stage(padded.data(), padded.size() * sizeof(float))), head_dim / 2);
  }
  for (const auto& [matrix, gain] : {std::pair{params.q, params.q_norm}, std::pair{params.k, params.k_norm}}) {
    ggml_tensor* x = heads(matrix, head_dim);
    if (gain != nullptr) norm(x, *gain, params.norm_eps, x);
    put(ggml_rope_ext(context(), x, at, factors, params.rope.dims,
                      params.rope.interleaved ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX, rope.original_context,
                      rope.base, rope.frequency_scale, rope.ext_factor, rope.attention_factor, rope.beta_fast,
                      rope.beta_slow),
        x);
  }
  add_rows(params.q.rows, [this, params](Range rows) { append_rows(params, rows); });
}

void GgmlStream::attention(const kernels::AttentionParams& params) {
  Gathered all = gather(params);
  const size_t bytes = all.lay_out(nullptr);
  auto* memory = static_cast<std::byte*>(grow(attention_memory_, bytes));
  if (memory == nullptr) return;
  all.lay_out(memory);
  add(
      [this, all](Worker worker) {
        if (worker.index == 0) attention_began_ = now_s();
        all.copy_slots(even_share(all.slots, worker));
        all.prepare_rows(even_share(all.params.tokens, worker));
      },
      &within_attention_);

  const int64_t dim = params.kv.head_dim;
  const int64_t kv_heads = all.kv_heads();
  ggml_tensor* keys = ggml_new_tensor_3d(context(), type_of(params.kv.key_type), dim, all.slots, kv_heads);
  keys->data = all.keys;
  ggml_tensor* values = ggml_new_tensor_3d(context(), type_of(params.kv.value_type), all.slots, dim, kv_heads);
  values->data = all.values;
  ggml_tensor* mask = ggml_new_tensor_3d(context(), GGML_TYPE_F32, all.slots, params.tokens, all.masks());
  mask->data = all.mask;
  const Matrix queries{all.q, params.tokens, params.num_heads * dim, params.num_heads * dim};
  ggml_tensor* products = ggml_mul_mat(context(), keys, ggml_permute(context(), heads(queries, dim), 0, 2, 1, 3));
  products->data = all.products;
  add_node(products);
  ggml_tensor* weights =
      ggml_soft_max_ext(context(), products, mask, params.scale_queries ? 1.0f : params.scale, /*max_bias=*/0.0f);
  put(weights, products);
  ggml_tensor* out = ggml_mul_mat(context(), values, weights);
  out->data = all.out;
  add_node(out);
  add(
      [this, all](Worker worker) {
        all.copy_out(even_share(all.params.tokens, worker));
        if (worker.index == 0) book_attention(now_s() - attention_began_);
      },
      &within_attention_);
}

void GgmlStream::activate(Activation kind, Matrix gate, Matrix up, Matrix out) {
  ggml_tensor* g = tensor(gate);
  ggml_tensor* u = tensor(up);
  put(kind == Activation::kSilu ? ggml_swiglu_split(context(), g, u) : ggml_geglu_split(context(), g, u), tensor(out));
}

void GgmlStream::softcap(Matrix x, float cap) {
  ggml_tensor* logits = tensor(x);
  ggml_tensor* scaled = ggml_scale(context(), logits, 1.0f / cap);
  put(scaled, logits);
  ggml_tensor* bent = ggml_tanh(context(), scaled);
  put(bent, logits);
  put(ggml_scale(context(), bent, cap), logits);
}

}  // namespace ei
