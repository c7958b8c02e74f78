// Attention in half precision next to ggml's own flash attention over the same f16 cache: which is nearer to sums in
// double?
#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/reference/attention_scalar.h"
#include "support/random_kv.h"

namespace ei {
namespace {

using kernels::AttentionParams;
using kernels::AttentionVariant;

struct Shape {
  int64_t head_dim, kv_heads, group, tokens, context;
  int64_t heads() const { return kv_heads * group; }
  int64_t width() const { return heads() * head_dim; }
  int64_t cached() const { return kv_heads * context * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

struct Kind {
  const char* name;
  float query_spread;  // 6: rows with logits up to 25, few of which count
  float value_offset;  // values that do not cancel
  bool sink;           // every row leans towards the first key, whose value is small
};
constexpr Kind kKinds[] = {
    {"plain", 1.5f, 0, false}, {"peaked", 6, 0, false}, {"offset", 1.5f, 3, false}, {"sink", 1.5f, 0, true}};

// q is [tokens, heads, head_dim], keys and values are [kv_heads, context, head_dim].
struct Input {
  Shape shape;
  std::vector<float> q, keys, values;

  Input(const Shape& of, const Kind& kind, uint64_t seed) : shape(of) {
    Random random(seed);
    q.resize(static_cast<size_t>(of.tokens * of.width()));
    keys.resize(static_cast<size_t>(of.cached()));
    values.resize(keys.size());
    for (float& element : q) element = kind.query_spread * random.normal();
    for (float& element : keys) element = random.normal();
    for (float& element : values) element = kind.value_offset + random.normal();
    if (!kind.sink) return;
    const auto dim = static_cast<size_t>(of.head_dim);
    for (size_t row = 0; row < q.size(); row += dim) q[row] += 12;
    for (size_t head = 0; head < keys.size(); head += dim * static_cast<size_t>(of.context)) {
      keys[head] = 8;
      for (size_t d = 0; d < dim; ++d) values[head + d] = 0.01f;
    }
  }
};

std::vector<ggml_fp16_t> halves_of(const std::vector<float>& from) {
  std::vector<ggml_fp16_t> halves(from.size());
  ggml_fp32_to_fp16_row(from.data(), halves.data(), static_cast<int64_t>(from.size()));
  return halves;
}

// One page a kv_head.
std::vector<float> attend(const AttentionVariant& variant, const Input& input, const std::vector<ggml_fp16_t>& keys,
                          const std::vector<ggml_fp16_t>& values) {
  const Shape& shape = input.shape;
  std::vector<const void*> pages;
  std::vector<KvHeadView> heads(static_cast<size_t>(shape.kv_heads));
  for (int64_t head = 0; head < shape.kv_heads; ++head) {
    pages.push_back(keys.data() + head * shape.context * shape.head_dim);
    pages.push_back(values.data() + head * shape.context * shape.head_dim);
  }
  for (size_t head = 0; head < heads.size(); ++head)
    heads[head] = {.key_pages = &pages[2 * head], .value_pages = &pages[2 * head + 1], .length = shape.context};
  std::vector<float> out(input.q.size(), NAN);
  AttentionParams params;
  params.q = input.q.data();
  params.out = out.data();
  params.q_stride = params.out_stride = shape.width();
  params.tokens = shape.tokens;
  params.num_heads = static_cast<int32_t>(shape.heads());
  params.first_position = static_cast<int32_t>(shape.context - shape.tokens);
  params.scale = shape.scale();
  params.kv = {DType::kF16, DType::kF16, static_cast<int32_t>(shape.head_dim), static_cast<int32_t>(shape.context),
               heads};
  kernels::run_attention(variant, params, 1);
  return out;
}

std::vector<float> by_ggml(const Input& input) {
  const Shape& shape = input.shape;
  const ggml_init_params memory{.mem_size = size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false};
  const std::unique_ptr<ggml_context, void (*)(ggml_context*)> held(ggml_init(memory), ggml_free);
  ggml_context* context = held.get();
  ggml_tensor* rows = ggml_new_tensor_3d(context, GGML_TYPE_F32, shape.head_dim, shape.heads(), shape.tokens);
  std::memcpy(rows->data, input.q.data(), ggml_nbytes(rows));
  ggml_tensor* k = ggml_new_tensor_3d(context, GGML_TYPE_F16, shape.head_dim, shape.context, shape.kv_heads);
  ggml_tensor* v = ggml_new_tensor_3d(context, GGML_TYPE_F16, shape.head_dim, shape.context, shape.kv_heads);
  std::memcpy(k->data, halves_of(input.keys).data(), ggml_nbytes(k));
  std::memcpy(v->data, halves_of(input.values).data(), ggml_nbytes(v));
  ggml_tensor* mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, shape.context, shape.tokens);
  for (int64_t i = 0; i < shape.context * shape.tokens; ++i) {
    const bool seen = i % shape.context <= shape.context - shape.tokens + i / shape.context;
    static_cast<ggml_fp16_t*>(mask->data)[i] = ggml_fp32_to_fp16(seen ? 0.0f : -INFINITY);
  }
  ggml_tensor* out =
      ggml_flash_attn_ext(context, ggml_permute(context, rows, 0, 2, 1, 3), k, v, mask, shape.scale(), 0, 0);
  ggml_cgraph* graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, out);
  EXPECT_EQ(ggml_graph_compute_with_ctx(context, graph, 1), GGML_STATUS_SUCCESS);
  const auto* data = static_cast<const float*>(out->data);
  return {data, data + input.q.size()};
}

double squares(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum / static_cast<double>(a.size());
}

struct Errors {
  double ours = 0;
  double ggmls = 0;
};
// Root-mean-square differences, over some inputs, to what sums in double make of the same cache.
Errors measure(const AttentionVariant& variant, const Shape& shape, const Kind& kind) {
  constexpr uint64_t kSeeds = 3;
  Errors errors;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Input input(shape, kind, seed);
    const std::vector<ggml_fp16_t> keys = halves_of(input.keys);
    const std::vector<ggml_fp16_t> values = halves_of(input.values);
    const std::vector<float> exact = attend(kernels::scalar_attention(), input, keys, values);
    errors.ours += squares(attend(variant, input, keys, values), exact) / kSeeds;
    errors.ggmls += squares(by_ggml(input), exact) / kSeeds;
  }
  return {std::sqrt(errors.ours), std::sqrt(errors.ggmls)};
}

const AttentionVariant* half_variant() {
  const AttentionVariant* variant = kernels::choose_attention(DType::kF16, DType::kF16, "neonfp16");
  return variant != nullptr && variant->name == "neonfp16" ? variant : nullptr;
}

TEST(HalfAttention, IsAtLeastAsNearAsGgmlsOwnInHalfPrecision) {
  if (half_variant() == nullptr) GTEST_SKIP() << "this CPU has no arithmetic in half precision";
  // Below 64 rows ggml multiplies in half precision; 1 row is generation.
  for (const Shape& shape :
       {Shape{64, 16, 3, 1, 40}, Shape{64, 8, 3, 1, 517}, Shape{64, 2, 3, 1, 5000}, Shape{128, 6, 4, 1, 700},
        Shape{80, 8, 5, 1, 333}, Shape{64, 2, 3, 20, 40}, Shape{64, 1, 3, 33, 517}, Shape{64, 1, 1, 33, 3000},
        Shape{32, 2, 1, 40, 300}, Shape{40, 2, 1, 17, 130}, Shape{128, 1, 4, 9, 517}, Shape{256, 1, 2, 9, 517}}) {
    for (const Kind& kind : kKinds) {
      const Errors errors = measure(*half_variant(), shape, kind);
      EXPECT_LE(errors.ours, errors.ggmls) << kind.name << " dim " << shape.head_dim << " tokens " << shape.tokens;
    }
  }
}

TEST(HalfAttention, DiffersInLongPromptsByLessThanAUnitOfHalfPrecision) {
  if (half_variant() == nullptr) GTEST_SKIP() << "this CPU has no arithmetic in half precision";
  // From 64 rows on ggml multiplies in fp32 and is nearer than sums of halves can be.
  for (const Shape& shape : {Shape{64, 1, 3, 64, 517}, Shape{128, 1, 2, 64, 1500}}) {
    for (const Kind& kind : kKinds) {
      const double unit = std::ldexp(std::hypot(1.0, static_cast<double>(kind.value_offset)), -11);
      EXPECT_LE(measure(*half_variant(), shape, kind).ours, unit) << kind.name << " dim " << shape.head_dim;
    }
  }
}

TEST(HalfAttention, TakesWhatHalfPrecisionCannotHold) {
  if (half_variant() == nullptr) GTEST_SKIP() << "this CPU has no arithmetic in half precision";
  // Partial sums of scores beyond 65504, queries beyond it, weighted values beyond it.
  for (const int64_t tokens : {1, 20}) {
    for (const auto& [queries, keys, values] : {std::array{3e3f, 40.0f, 1.0f}, std::array{3e6f, 1.0f, 1.0f},
                                                std::array{0.01f, 1.0f, 15000.0f}, std::array{1e-9f, 1e-4f, 1e-3f}}) {
      Input input({64, 2, 3, tokens, 300}, kKinds[0], 3);
      for (float& element : input.q) element *= queries;
      for (float& element : input.keys) element *= keys;
      for (float& element : input.values) element *= values;
      const std::vector<ggml_fp16_t> k = halves_of(input.keys);
      const std::vector<ggml_fp16_t> v = halves_of(input.values);
      const std::vector<float> exact = attend(kernels::scalar_attention(), input, k, v);
      const std::vector<float> ours = attend(*half_variant(), input, k, v);
      EXPECT_LE(std::sqrt(squares(ours, exact)), 5e-4 * static_cast<double>(values))
          << queries << " " << keys << " " << values << " tokens " << tokens;
    }
  }
}

}  // namespace
}  // namespace ei
