#include "gpu/attention_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/reference/attention_scalar.h"
#include "plan/planned_slots.h"

namespace ei {

using kernels::AttentionParams;
using kernels::AttentionShape;
using kernels::cuda::DecodeParams;
using kernels::cuda::DeviceKv;
using kernels::cuda::DeviceKvHead;
using kernels::cuda::DevicePlan;
using kernels::cuda::DeviceTraits;
using kernels::cuda::KvLayout;
using kernels::cuda::PrefillParams;

namespace {

// The contract of attention.h with softcap and log-sum, row by row in double; keys and values as floats [slots, dim].
void attend_rows(const AttentionParams& params, const std::vector<std::vector<float>>& keys,
                 const std::vector<std::vector<float>>& values, float softcap, int64_t token, float* log_sum) {
  const int64_t kv_heads = static_cast<int64_t>(params.kv.heads.size());
  const int64_t group = params.num_heads / kv_heads;
  const int64_t dim = params.kv.head_dim;
  const int64_t position = params.first_position + token;
  for (int64_t head = 0; head < params.num_heads; ++head) {
    const KvHeadView& kv = params.kv.heads[static_cast<size_t>(head / group)];
    const float* q = params.q + token * params.q_stride + head * dim;
    double total = 0;
    std::vector<double> sum(static_cast<size_t>(dim), 0.0);
    const auto use = [&](int64_t slot) {
      const int64_t at = kv.position(slot);
      if (at > position || (params.window > 0 && at <= position - params.window)) return;
      const float* key = keys[static_cast<size_t>(head / group)].data() + slot * dim;
      const float* value = values[static_cast<size_t>(head / group)].data() + slot * dim;
      double score = 0;
      for (int64_t d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * static_cast<double>(key[d]);
      score *= static_cast<double>(params.scale);
      if (softcap > 0) score = static_cast<double>(softcap) * std::tanh(score / static_cast<double>(softcap));
      const double weight = std::exp(score);  // scores of the tests stay far below 700
      total += weight;
      for (int64_t d = 0; d < dim; ++d) sum[static_cast<size_t>(d)] += weight * static_cast<double>(value[d]);
    };
    if (params.plan != nullptr) {
      for_each_planned_slot(*params.plan, head / group, kv.length, position, use);
    } else {
      for (int64_t slot = 0; slot < kv.length; ++slot) use(slot);
    }
    float* out = params.out + token * params.out_stride + head * dim;
    for (int64_t d = 0; d < dim; ++d)
      out[d] = total > 0 ? static_cast<float>(sum[static_cast<size_t>(d)] / total) : 0.0f;
    log_sum[token * params.num_heads + head] = static_cast<float>(std::log(total));
  }
}

size_t element_bytes(DType type) { return dtype_bytes(type); }

}  // namespace

AttentionCase::AttentionCase(const AttentionShape& shape, uint64_t seed)
    : shape_(shape), seed_(seed), random_(seed + 1), input_(shape, seed) {
  upload();
}

// Rows behind the length stay NaN, as in the host's pages.
void AttentionCase::upload() {
  const KvLayout layout{shape_.head_dim, 2};
  std::vector<DeviceKvHead> heads;
  for (const KvHeadView& view : input_.view().heads) {
    std::vector<const void*> table;
    std::vector<float>& keys = keys_.emplace_back();
    std::vector<float>& values = values_.emplace_back();
    for (int64_t first = 0; first < view.length; first += shape_.page_slots) {
      std::vector<uint8_t> page(static_cast<size_t>(layout.page_bytes(shape_.page_slots)), 0xff);
      auto* elements = reinterpret_cast<uint16_t*>(page.data());
      for (int64_t slot = 0; slot < std::min<int64_t>(shape_.page_slots, view.length - first); ++slot) {
        for (int32_t d = 0; d < shape_.head_dim; ++d) {
          const auto index = static_cast<size_t>(slot * shape_.head_dim + d);
          const auto number = static_cast<size_t>(first / shape_.page_slots);
          elements[layout.element_offset(slot, d, false)] = static_cast<const uint16_t*>(view.key_pages[number])[index];
          elements[layout.element_offset(slot, d, true)] =
              static_cast<const uint16_t*>(view.value_pages[number])[index];
          keys.push_back(load_element(view.key_pages[number], shape_.key_type, static_cast<int64_t>(index)));
          values.push_back(load_element(view.value_pages[number], shape_.key_type, static_cast<int64_t>(index)));
        }
      }
      pages_.push_back(std::make_unique<DeviceArray<uint8_t>>(page));
      table.push_back(pages_.back()->data());
    }
    tables_.push_back(std::make_unique<DeviceArray<const void*>>(table));
    positions_.push_back(std::make_unique<DeviceArray<int32_t>>(
        std::vector<int32_t>(view.listed_positions, view.listed_positions + view.listed)));
    DeviceKvHead head;
    head.pages = tables_.back()->data();
    head.listed_positions = positions_.back()->data();
    head.length = static_cast<int32_t>(view.length);
    head.listed = static_cast<int32_t>(view.listed);
    head.tail_position = view.tail_position;
    heads.push_back(head);
  }
  heads_ = std::make_unique<DeviceArray<DeviceKvHead>>(heads);
}

DeviceTraits AttentionCase::traits(const GpuCall& call) const {
  auto found = kernels::cuda::device_traits(0);
  EXPECT_TRUE(found.ok());
  found->set = call.set;
  return *found;
}

DeviceKv AttentionCase::device_kv() const {
  return {shape_.key_type, shape_.head_dim, shape_.page_slots, shape_.kv_heads, heads_->data()};
}

BlockPlan AttentionCase::random_plan(const GpuCall& call) {
  BlockPlan plan;
  plan.grid = {call.segment, call.block};
  plan.kv_heads = shape_.kv_heads;
  plan.first_segment = static_cast<int32_t>((shape_.context - shape_.tokens) / call.segment);
  plan.num_segments = static_cast<int32_t>((shape_.context - 1) / call.segment) - plan.first_segment + 1;
  for (int32_t i = 0; i < plan.num_segments; ++i)
    plan.dense.push_back(call.dense_segments && random_.below(2) == 0 ? 1 : 0);
  plan.offsets.push_back(0);
  for (int32_t head = 0; head < plan.kv_heads; ++head) {
    for (int32_t i = 0; i < plan.num_segments; ++i) {
      const int32_t before = (plan.first_segment + i) * plan.grid.blocks_per_segment();
      const int64_t share = random_.below(4);  // of 3: none, some, most, all blocks
      for (int32_t block = 0; block < before; ++block) {
        if (random_.below(3) < share) plan.blocks.push_back(block);
      }
      plan.offsets.push_back(static_cast<int64_t>(plan.blocks.size()));
    }
  }
  return plan;
}

std::vector<float> AttentionCase::queries(const GpuCall& call) const {
  std::vector<float> q(static_cast<size_t>(shape_.tokens * input_.width()));
  std::vector<float> unused(q.size());
  const AttentionParams params = const_cast<kernels::RandomAttention&>(input_).params(unused.data());
  for (size_t i = 0; i < q.size(); ++i) {
    // The kernels round f32 queries to the type of the cache.
    uint16_t rounded = 0;
    store_element(&rounded, shape_.key_type, 0, params.q[i]);
    q[i] = load_element(&rounded, shape_.key_type, 0);
  }
  EXPECT_TRUE(call.q_type == DType::kF32 || call.q_type == shape_.key_type);
  return q;
}

AttentionCase::Expected AttentionCase::expect(const GpuCall& call, const std::vector<float>& q, const BlockPlan* plan) {
  Expected want;
  want.out.resize(q.size());
  want.log_sum.resize(static_cast<size_t>(shape_.tokens * shape_.kv_heads * shape_.group));
  AttentionParams params = input_.params(want.out.data());
  params.q = q.data();
  params.plan = plan;
  std::vector<std::thread> threads;
  constexpr int64_t kThreads = 16;
  for (int64_t first = 0; first < kThreads; ++first) {
    threads.emplace_back([&, first] {
      for (int64_t token = first; token < shape_.tokens; token += kThreads)
        attend_rows(params, keys_, values_, call.softcap, token, want.log_sum.data());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return want;
}

double AttentionCase::oracle_error() {
  const std::vector<float> q = queries({.q_type = DType::kF32});
  const Expected ours = expect({}, q, nullptr);
  std::vector<float> reference(q.size());
  AttentionParams params = input_.params(reference.data());
  params.q = q.data();
  kernels::run_attention(kernels::scalar_attention(), params, 1);
  double worst = 0;
  for (size_t i = 0; i < q.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(ours.out[i]) - static_cast<double>(reference[i])));
  return worst;
}

GpuOutcome AttentionCase::compare(const GpuCall& call, const Expected& want, const DeviceArray<uint8_t>& out,
                                  const DeviceArray<float>& log_sum) const {
  const std::vector<uint8_t> got = out.read();
  const std::vector<float> got_log_sum = log_sum.read();
  GpuOutcome outcome;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < want.out.size(); ++i) {
    const double expected = static_cast<double>(want.out[i]);
    const double error =
        static_cast<double>(load_element(got.data(), call.out_type, static_cast<int64_t>(i))) - expected;
    outcome.worst = std::abs(error) <= outcome.worst ? outcome.worst : std::abs(error);  // keeps a NaN
    difference += error * error;
    norm += expected * expected;
  }
  outcome.relative = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  for (size_t i = 0; i < want.log_sum.size(); ++i) {
    if (got_log_sum[i] == want.log_sum[i]) continue;  // both minus infinity
    const double error = std::abs(static_cast<double>(got_log_sum[i]) - static_cast<double>(want.log_sum[i]));
    outcome.worst_log_sum = error <= outcome.worst_log_sum ? outcome.worst_log_sum : error;
  }
  return outcome;
}

GpuOutcome AttentionCase::prefill(const GpuCall& call) {
  const std::vector<float> q = queries(call);
  BlockPlan plan;
  if (call.segment > 0) plan = random_plan(call);
  const Expected want = expect(call, q, call.segment > 0 ? &plan : nullptr);

  std::vector<uint8_t> q_bytes(q.size() * element_bytes(call.q_type));
  for (size_t i = 0; i < q.size(); ++i) store_element(q_bytes.data(), call.q_type, static_cast<int64_t>(i), q[i]);
  const DeviceArray<uint8_t> device_q(q_bytes);
  const DeviceArray<uint8_t> out(q.size() * element_bytes(call.out_type));
  const DeviceArray<float> log_sum(want.log_sum.size());
  const DeviceArray<uint8_t> workspace(kernels::cuda::prefill_workspace_bytes());
  const DeviceArray<uint8_t> dense(plan.dense);
  const DeviceArray<int64_t> offsets(plan.offsets);
  const DeviceArray<int32_t> blocks(plan.blocks);
  const DeviceArray<int32_t> order(static_cast<size_t>(plan.kv_heads * plan.num_segments));
  DevicePlan device_plan{call.segment, call.block,     plan.first_segment, plan.num_segments,
                         dense.data(), offsets.data(), blocks.data(),      nullptr};
  if (call.ordered) {
    EXPECT_TRUE(kernels::cuda::order_lists(device_plan, shape_.kv_heads, order.data(), nullptr).ok());
    device_plan.order = order.data();
  }
  PrefillParams params;
  params.q = device_q.data();
  params.out = out.data();
  params.log_sum = log_sum.data();
  params.q_type = call.q_type;
  params.out_type = call.out_type;
  params.q_stride = params.out_stride = input_.width();
  params.tokens = shape_.tokens;
  params.num_heads = shape_.kv_heads * shape_.group;
  params.first_position = static_cast<int32_t>(shape_.context - shape_.tokens);
  params.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  params.softcap = call.softcap;
  params.window = shape_.window;
  params.plan = call.segment > 0 ? &device_plan : nullptr;
  params.kv = device_kv();
  params.workspace = workspace.data();
  EXPECT_TRUE(kernels::cuda::launch_prefill(traits(call), params, nullptr).ok());
  check_cuda(cudaDeviceSynchronize());
  return compare(call, want, out, log_sum);
}

GpuOutcome AttentionCase::decode(const GpuCall& call) {
  const std::vector<float> q = queries(call);
  const Expected want = expect(call, q, nullptr);
  std::vector<uint8_t> q_bytes(q.size() * element_bytes(call.q_type));
  for (size_t i = 0; i < q.size(); ++i) store_element(q_bytes.data(), call.q_type, static_cast<int64_t>(i), q[i]);
  const DeviceArray<uint8_t> device_q(q_bytes);
  DeviceArray<uint8_t> out(q.size() * element_bytes(call.out_type));
  DeviceArray<float> log_sum(want.log_sum.size());
  DecodeParams params;
  params.q = device_q.data();
  params.out = out.data();
  params.log_sum = log_sum.data();
  params.q_type = call.q_type;
  params.out_type = call.out_type;
  params.q_stride = params.out_stride = input_.width();
  params.tokens = shape_.tokens;
  params.num_heads = shape_.kv_heads * shape_.group;
  params.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  params.softcap = call.softcap;
  params.window = shape_.window;
  params.kv = device_kv();
  DeviceArray<uint8_t> workspace(kernels::cuda::decode_workspace_bytes(traits(call), params));
  workspace.clear();
  params.workspace = workspace.data();
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second call finds the workspace as the first left it
    out.poison();
    log_sum.poison();
    EXPECT_TRUE(kernels::cuda::launch_decode(traits(call), params, nullptr).ok());
    check_cuda(cudaDeviceSynchronize());
  }
  return compare(call, want, out, log_sum);
}

std::string AttentionCase::describe(const GpuCall& call) const {
  const AttentionShape& s = shape_;
  return std::string(call.set == kernels::cuda::KernelSet::kHopper ? "hopper" : "portable") +
         " seed=" + std::to_string(seed_) + " dim=" + std::to_string(s.head_dim) +
         " kv_heads=" + std::to_string(s.kv_heads) + " group=" + std::to_string(s.group) +
         " tokens=" + std::to_string(s.tokens) + " context=" + std::to_string(s.context) +
         " page=" + std::to_string(s.page_slots) + " window=" + std::to_string(s.window) + " " +
         dtype_name(s.key_type) + (s.compacted ? " compacted" : "") + " segment=" + std::to_string(call.segment) +
         " block=" + std::to_string(call.block) + " softcap=" + std::to_string(call.softcap) +
         " q=" + dtype_name(call.q_type) + " out=" + dtype_name(call.out_type);
}

}  // namespace ei
