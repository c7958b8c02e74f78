// What touches the KV store: appending, attention. What compressions measure: cuda_stream_slots.cpp.
#include <algorithm>
#include <cstring>

#include "backend/cuda/cuda_stream.h"
#include "base/check.h"
#include "kernels/attention/cuda/attention_any.h"
#include "kernels/rowwise/cuda/rope_cuda.h"

namespace ei {

using kernels::cuda::cuda_status;
using kernels::cuda::DeviceKvHead;
using kernels::cuda::DevicePages;
using kernels::cuda::DevicePlan;
using kernels::cuda::DeviceRows;

namespace {

constexpr int64_t kDecodeTokens = 16;  // more rows than that are a prompt's

bool fits_pieces(const DeviceRows& rows) {
  return rows.stride % 8 == 0 && reinterpret_cast<uintptr_t>(rows.data) % 16 == 0;
}

// Are the last `tokens` slots of every head the query rows themselves?
bool rows_are_last(const kernels::AttentionParams& params) {
  return std::all_of(params.kv.heads.begin(), params.kv.heads.end(), [&](const KvHeadView& head) {
    return head.length - head.listed >= params.tokens &&
           head.position(head.length - 1) == params.first_position + params.tokens - 1;
  });
}

}  // namespace

DevicePages CudaStream::pages_of(const KvPageShape& shape) const {
  return DevicePages::of(shape, blocked_pages(device_, shape));
}

void CudaStream::rotate_append(const RotateAppendParams& params) {
  if (!open()) return;
  if (phase_ == Phase::kPrompt) keep_pace();
  note(append(params));
}

Result<RopeTable> CudaStream::with_angles(RopeTable table, int64_t tokens) {
  const int32_t half = table.dims / 2;
  const auto count = static_cast<size_t>(tokens * half);
  Angles& made = angles_[table.rope];
  EI_ASSIGN_OR_RETURN(void* memory, made.memory.device(2 * count * sizeof(float)));
  auto* cos = static_cast<float*>(memory);
  table.cos = cos;
  table.sin = cos + count;
  if (made.first_position == table.first_position && made.tokens == tokens) return table;
  const Rope& rope = *table.rope;
  kernels::cuda::DeviceAngles angles{.turn = rope_turn(rope, table.dims),
                                     .frequency_scale = rope.frequency_scale,
                                     .ext_factor = rope.ext_factor,
                                     .tokens = tokens,
                                     .dims = table.dims,
                                     .cos = cos,
                                     .sin = cos + count};
  angles.first_position = static_cast<const int32_t*>(stage(&table.first_position, sizeof(int32_t)));
  if (!rope.factors.empty())
    angles.factors = static_cast<const float*>(stage(rope.factors.data(), static_cast<size_t>(half) * sizeof(float)));
  if (!open()) return table;
  submit([=, this] { return kernels::cuda::launch_angles(angles, stream_); }, table.rope, angles.first_position,
         angles.factors, tokens, table.dims, cos);
  made.first_position = table.first_position;
  made.tokens = tokens;
  return table;
}

Status CudaStream::append(const RotateAppendParams& params) {
  RopeTable rope = params.rope;
  if (rope.cos == nullptr) {
    EI_ASSIGN_OR_RETURN(rope, with_angles(rope, params.q.rows));
  }
  const KvPageShape& shape = params.append.shape;
  const int64_t kv_heads = params.k.cols / shape.head_dim;
  std::vector<std::vector<void*>> pages(static_cast<size_t>(kv_heads));
  std::vector<int32_t> first_slots(static_cast<size_t>(kv_heads), 0);
  size_t most = 1;
  for (const KvAppend::Run& run : params.append.runs) {
    std::vector<void*>& table = pages[static_cast<size_t>(run.kv_head)];
    if (table.empty()) {
      EI_CHECK_EQ(run.token, 0);
      first_slots[static_cast<size_t>(run.kv_head)] = run.slot;
    } else {  // behind a full page
      EI_CHECK_EQ(run.slot, 0);
    }
    table.push_back(run.page);
    most = std::max(most, table.size());
  }
  const auto table_size = kv_heads * static_cast<int64_t>(most);
  EI_ASSIGN_OR_RETURN(const CudaStaging::Piece piece, staging_.take(static_cast<size_t>(table_size) * sizeof(void*) +
                                                                    static_cast<size_t>(kv_heads) * sizeof(int32_t)));
  CudaPacker packer(piece);
  const auto table = packer.take<void*>(table_size);
  const auto firsts = packer.take<int32_t>(kv_heads);
  for (size_t h = 0; h < pages.size(); ++h) {
    std::copy(pages[h].begin(), pages[h].end(), table.host + h * most);
    firsts.host[h] = first_slots[h];
  }
  EI_RETURN_IF_ERROR(send(piece));
  const auto f32 = [](Matrix matrix) {
    return DeviceRows{matrix.data, DType::kF32, matrix.rows, matrix.cols, matrix.stride};
  };
  const kernels::cuda::RotateAppend rotate{.q = f32(params.q),
                                           .k = f32(params.k),
                                           .v = f32(params.v),
                                           .q_gain = vector_of(params.q_norm),
                                           .k_gain = vector_of(params.k_norm),
                                           .eps = params.norm_eps,
                                           .cos = rope.cos,
                                           .sin = rope.sin,
                                           .dims = rope.dims,
                                           .interleaved = rope.interleaved,
                                           .pages = pages_of(shape),
                                           .first_slots = firsts.device,
                                           .table = table.device,
                                           .pages_per_head = static_cast<int32_t>(most)};
  submit([=, this] { return kernels::cuda::launch_rotate_append(rotate, stream_); }, rotate.q, rotate.k, rotate.v,
         rotate.q_gain, rotate.k_gain, rotate.eps, rotate.cos, rotate.sin, rotate.dims, int32_t{rotate.interleaved},
         rotate.first_slots, rotate.table, rotate.pages_per_head);
  return {};
}

// The plan is filled when the stream gets there, so its lists are sent then, from memory that has room for the longest
// that can be. Segments are numbered from the one of the first row on, whatever the plan begins with.
Result<DevicePlan> CudaStream::send_plan(const kernels::AttentionParams& params) {
  const SegmentGrid grid = params.plan->grid;
  const auto kv_heads = static_cast<int64_t>(params.kv.heads.size());
  const int32_t first = params.first_position / grid.segment;
  const auto segments = static_cast<int32_t>((params.first_position + params.tokens - 1) / grid.segment) - first + 1;
  int64_t most = 0;
  for (int64_t i = 0; i < segments; ++i) most += kv_heads * (first + i) * grid.blocks_per_segment();
  const int64_t lists = kv_heads * segments;
  const size_t bytes = static_cast<size_t>(lists + 1) * sizeof(int64_t) + static_cast<size_t>(most) * sizeof(int32_t) +
                       static_cast<size_t>(segments);
  EI_ASSIGN_OR_RETURN(void* pinned, plan_.pinned(bytes));
  EI_ASSIGN_OR_RETURN(void* memory, plan_.device(bytes));
  EI_ASSIGN_OR_RETURN(void* order, plan_order_.device(static_cast<size_t>(lists) * sizeof(int32_t)));
  const CudaStaging::Piece piece{static_cast<std::byte*>(pinned), static_cast<std::byte*>(memory), bytes};
  CudaPacker packer(piece);
  const auto offsets = packer.take<int64_t>(lists + 1);
  const auto blocks = packer.take<int32_t>(most);
  const auto dense = packer.take<uint8_t>(segments);
  host([plan = params.plan, first, segments, kv_heads, most, offsets, blocks, dense] {
    const int32_t skipped = first - plan->first_segment;
    EI_CHECK(skipped >= 0 && skipped + segments <= plan->num_segments && plan->kv_heads == kv_heads);
    int64_t used = 0;
    for (int64_t h = 0; h < kv_heads; ++h) {
      for (int64_t i = 0; i < segments; ++i) {
        const auto list = static_cast<size_t>(h * plan->num_segments + skipped + i);
        offsets.host[h * segments + i] = used;
        const int64_t count = plan->offsets[list + 1] - plan->offsets[list];
        EI_CHECK_LE(used + count, most);
        std::copy_n(plan->blocks.begin() + plan->offsets[list], count, blocks.host + used);
        used += count;
      }
    }
    offsets.host[kv_heads * segments] = used;
    std::copy_n(plan->dense.begin() + skipped, segments, dense.host);
  });
  EI_RETURN_IF_ERROR(CudaStaging::send(piece, stream_));
  DevicePlan plan{.segment = grid.segment,
                  .block = grid.block,
                  .first_segment = first,
                  .num_segments = segments,
                  .dense = dense.device,
                  .offsets = offsets.device,
                  .blocks = blocks.device};
  if (grid.block % kernels::cuda::kBlockKeys == 0) {
    EI_RETURN_IF_ERROR(
        kernels::cuda::order_lists(plan, static_cast<int32_t>(kv_heads), static_cast<int32_t*>(order), stream_));
    plan.order = static_cast<const int32_t*>(order);
  }
  return plan;
}

void CudaStream::attention(const kernels::AttentionParams& params) {
  if (!open() || params.tokens == 0) return;
  const bool timed = phase_ == Phase::kPrompt;
  if (timed) begin_clock(&times_.attention_s);
  // A plan is filled on the host between the operations before it and this one.
  at_once_ = params.plan != nullptr;
  if (at_once_) run_recorded();
  note(attend(params));
  at_once_ = false;
  if (timed) end_clock();
}

Status CudaStream::decode(const kernels::AttentionParams& params, const DeviceRows& q, const DeviceRows& out) {
  const Positions positions = params.window > 0 ? Positions::kSent : Positions::kLeftOut;
  EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, send_heads(params.kv, nullptr, positions));
  const auto kv_heads = static_cast<int32_t>(params.kv.heads.size());
  kernels::cuda::DecodeParams decode{.q = q.data,
                                     .out = out.data,
                                     .q_type = q.type,
                                     .out_type = out.type,
                                     .q_stride = q.stride,
                                     .out_stride = out.stride,
                                     .tokens = params.tokens,
                                     .num_heads = params.num_heads,
                                     .scale = params.scale,
                                     .window = params.window,
                                     .kv = {.type = params.kv.key_type,
                                            .head_dim = params.kv.head_dim,
                                            .page_slots = params.kv.page_slots,
                                            .kv_heads = kv_heads,
                                            .heads = heads}};
  const size_t bytes = kernels::cuda::decode_workspace_bytes(device_.traits(), decode);
  EI_ASSIGN_OR_RETURN(decode.workspace, decode_room_.device(bytes));
  if (decode.workspace != decode_zeroed_) {  // before anything that is recorded
    EI_RETURN_IF_ERROR(
        cuda_status(cudaMemsetAsync(decode.workspace, 0, decode_room_.device_bytes(), stream_), "attention"));
    decode_zeroed_ = decode.workspace;
  }
  submit([=, this] { return kernels::cuda::launch_decode(device_.traits(), decode, stream_); }, q, out, decode.tokens,
         decode.num_heads, decode.scale, decode.window, kv_heads, heads, decode.workspace);
  return {};
}

Status CudaStream::attend(const kernels::AttentionParams& params) {
  const int64_t width = int64_t{params.num_heads} * params.kv.head_dim;
  const DeviceRows q = rows_of({const_cast<float*>(params.q), params.tokens, width, params.q_stride});
  const DeviceRows out = for_products({params.out, params.tokens, width, params.out_stride});
  const DevicePages pages = pages_of(params.kv);
  const bool fast = pages.blocked && fits_pieces(q) && fits_pieces(out);
  if (fast && phase_ == Phase::kGeneration && params.plan == nullptr && params.tokens <= kDecodeTokens &&
      rows_are_last(params))
    return decode(params, q, out);
  EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, readable_heads(params.kv));
  DevicePlan plan;
  if (params.plan != nullptr && params.plan == chosen_.plan) {
    plan = chosen_.lists;
  } else if (params.plan != nullptr) {
    EI_ASSIGN_OR_RETURN(plan, send_plan(params));
  }
  const auto kv_heads = static_cast<int32_t>(params.kv.heads.size());
  const bool in_blocks = params.plan == nullptr || plan.block % kernels::cuda::kBlockKeys == 0;
  if (!fast || !in_blocks) {
    const kernels::cuda::AnyAttention any{.q = q,
                                          .out = out,
                                          .num_heads = params.num_heads,
                                          .kv_heads = kv_heads,
                                          .first_position = params.first_position,
                                          .scale = params.scale,
                                          .window = params.window,
                                          .planned = params.plan != nullptr,
                                          .plan = plan,
                                          .pages = pages,
                                          .heads = heads};
    submit([=, this] { return kernels::cuda::launch_attention_any(any, stream_); }, q, out, any.num_heads, kv_heads,
           any.first_position, any.scale, any.window, heads);
    return {};
  }
  const kernels::cuda::DeviceKv kv{.type = host_type(params.kv.key_type),
                                   .head_dim = params.kv.head_dim,
                                   .page_slots = params.kv.page_slots,
                                   .kv_heads = kv_heads,
                                   .heads = heads};
  EI_ASSIGN_OR_RETURN(void* workspace, prefill_room_.device(kernels::cuda::prefill_workspace_bytes()));
  const kernels::cuda::PrefillParams prefill{.q = q.data,
                                             .out = out.data,
                                             .q_type = q.type,
                                             .out_type = out.type,
                                             .q_stride = q.stride,
                                             .out_stride = out.stride,
                                             .tokens = params.tokens,
                                             .num_heads = params.num_heads,
                                             .first_position = params.first_position,
                                             .scale = params.scale,
                                             .window = params.window,
                                             .kv = kv,
                                             .workspace = workspace};
  const bool planned = params.plan != nullptr;
  submit(
      [=, this] {
        kernels::cuda::PrefillParams call = prefill;
        if (planned) call.plan = &plan;
        return kernels::cuda::launch_prefill(device_.traits(), call, stream_);
      },
      q, out, prefill.num_heads, prefill.first_position, prefill.scale, prefill.window, kv_heads, heads, workspace);
  return {};
}

}  // namespace ei
