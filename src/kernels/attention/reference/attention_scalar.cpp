#include "kernels/attention/reference/attention_scalar.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "plan/planned_slots.h"

namespace ei::kernels {
namespace {

// One row of out: softmax(scores) V, built key by key.
struct SoftmaxSum {
  double max = -std::numeric_limits<double>::infinity();
  double total = 0;
  std::vector<double> out;  // [head_dim]

  void add(double score, const float* value) {
    if (score > max) {
      const double correction = std::exp(max - score);
      total *= correction;
      for (double& element : out) element *= correction;
      max = score;
    }
    const double weight = std::exp(score - max);
    total += weight;
    for (size_t d = 0; d < out.size(); ++d) out[d] += weight * static_cast<double>(value[d]);
  }
};

void load_row(const void* const* pages, DType type, const KvView& kv, int64_t slot, float* to) {
  const void* page = pages[slot / kv.page_slots];
  const int64_t begin = (slot % kv.page_slots) * kv.head_dim;
  for (int64_t d = 0; d < kv.head_dim; ++d) to[d] = load_element(page, type, begin + d);
}

void attend_token(const AttentionParams& params, int64_t kv_head, int64_t token) {
  const KvView& kv = params.kv;
  const KvHeadView& head = kv.heads[static_cast<size_t>(kv_head)];
  const int64_t group = params.num_heads / static_cast<int64_t>(kv.heads.size());
  const int64_t dim = kv.head_dim;
  const int64_t position = params.first_position + token;
  const float* q = params.q + token * params.q_stride + kv_head * group * dim;
  float* out = params.out + token * params.out_stride + kv_head * group * dim;

  std::vector<SoftmaxSum> rows(static_cast<size_t>(group));
  for (SoftmaxSum& row : rows) row.out.assign(static_cast<size_t>(dim), 0.0);
  std::vector<float> key(static_cast<size_t>(dim));
  std::vector<float> value(static_cast<size_t>(dim));
  const auto use = [&](int64_t slot) {
    const int64_t at = head.position(slot);
    if (at > position || (params.window > 0 && at <= position - params.window)) return;
    load_row(head.key_pages, kv.key_type, kv, slot, key.data());
    load_row(head.value_pages, kv.value_type, kv, slot, value.data());
    for (int64_t g = 0; g < group; ++g) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d)
        dot += static_cast<double>(q[g * dim + d]) * static_cast<double>(key[static_cast<size_t>(d)]);
      rows[static_cast<size_t>(g)].add(static_cast<double>(params.scale) * dot, value.data());
    }
  };
  if (params.plan != nullptr) {
    EI_CHECK(head.listed == 0 && head.tail_position == 0);  // a plan speaks of slots that are positions
    for_each_planned_slot(*params.plan, kv_head, head.length, position, use);
  } else {
    for (int64_t slot = 0; slot < head.length; ++slot) use(slot);
  }
  for (int64_t g = 0; g < group; ++g) {
    const SoftmaxSum& row = rows[static_cast<size_t>(g)];
    const double inverse = row.total > 0 ? 1.0 / row.total : 0.0;
    for (int64_t d = 0; d < dim; ++d) out[g * dim + d] = static_cast<float>(row.out[static_cast<size_t>(d)] * inverse);
  }
}

void run(const AttentionParams& params, void* /*scratch*/, WorkQueue& queue, Worker /*worker*/) {
  const int64_t kv_heads = static_cast<int64_t>(params.kv.heads.size());
  const int64_t pieces = params.tokens * kv_heads;
  for (int64_t piece = queue.take(); piece < pieces; piece = queue.take())
    attend_token(params, piece % kv_heads, piece / kv_heads);
}

bool usable() { return true; }
bool accepts(DType, DType) { return true; }
size_t scratch_bytes(const AttentionParams&, int) { return kScratchHeader; }

}  // namespace

const AttentionVariant& scalar_attention() {
  static constexpr AttentionVariant kVariant{
      .name = "scalar", .usable = usable, .accepts = accepts, .scratch_bytes = scratch_bytes, .run = run};
  return kVariant;
}

}  // namespace ei::kernels
