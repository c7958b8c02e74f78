// The heads of a layer as kernels read them: where their pages lie, or those of their copy in f16.
#include <algorithm>

#include "backend/cuda/cuda_stream.h"
#include "kernels/pages/cuda/widen_cuda.h"

namespace ei {

using kernels::cuda::DeviceKvHead;
using kernels::cuda::DevicePages;

namespace {

constexpr int64_t kTableStep = 32;  // pages
constexpr size_t kPageAlignment = 256;

}  // namespace

Result<const DeviceKvHead*> CudaStream::readable_heads(const KvView& kv) {
  // The operations of one layer of a prompt see the same heads.
  const bool repeats = phase_ == Phase::kPrompt && !kv.heads.empty();
  if (repeats && sent_heads_.heads == kv.heads.data() && sent_heads_.length == kv.heads.front().length)
    return sent_heads_.sent;
  EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, kv.key_type == DType::kF8 ? widened_heads(kv) : send_heads(kv));
  if (repeats) sent_heads_ = {kv.heads.data(), kv.heads.front().length, heads};
  return heads;
}

Result<const DeviceKvHead*> CudaStream::widened_heads(const KvView& kv) {
  const DevicePages pages = pages_of(kv);
  const KvPageLayout layout =
      pages.blocked ? KvPageLayout{.bytes = static_cast<size_t>(pages.layout().page_bytes(pages.shape.slots))}
                    : plain_page(pages.shape);
  const auto page_bytes = static_cast<int64_t>((layout.bytes + kPageAlignment - 1) / kPageAlignment * kPageAlignment);
  const auto kv_heads = static_cast<int64_t>(kv.heads.size());
  int64_t longest = 0;
  for (const KvHeadView& head : kv.heads) longest = std::max(longest, head.length);
  const auto head_bytes = [&](int64_t slots) { return (slots + kv.page_slots - 1) / kv.page_slots * page_bytes; };
  CopiedPages copy{.page_bytes = page_bytes};
  copy.head_bytes = head_bytes(longest);
  const bool prompt = phase_ == Phase::kPrompt;
  if (prompt && wide_room_.device_bytes() < static_cast<size_t>(kv_heads * copy.head_bytes))  // once for all chunks
    EI_RETURN_IF_ERROR(alone(wide_room_, static_cast<size_t>(kv_heads * head_bytes(longest + prompt_tokens_))));
  EI_ASSIGN_OR_RETURN(void* memory, wide_room_.device(static_cast<size_t>(kv_heads * copy.head_bytes)));
  copy.memory = static_cast<std::byte*>(memory);
  EI_ASSIGN_OR_RETURN(const DeviceKvHead* narrow, send_heads(kv));
  EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, send_heads(kv, &copy));
  if (together()) graph_.refuse();  // its size changes with the length
  const kernels::cuda::WidenPages widen{.heads = narrow,
                                        .kv_heads = static_cast<int32_t>(kv_heads),
                                        .longest = longest,
                                        .to = pages,
                                        .memory = memory,
                                        .head_bytes = copy.head_bytes,
                                        .page_bytes = copy.page_bytes};
  submit([=, this] { return kernels::cuda::launch_widen(widen, stream_); });
  return heads;
}

Result<const DeviceKvHead*> CudaStream::send_heads(const KvView& kv, const CopiedPages* copied, Positions sent) {
  const auto pages_for = [&](const KvHeadView& head) { return (head.length + kv.page_slots - 1) / kv.page_slots; };
  // With room to grow: the tables of the next tokens lie at the same places.
  const auto room_for = [&](const KvHeadView& head) { return (pages_for(head) / kTableStep + 1) * kTableStep; };
  const auto listed_of = [&](const KvHeadView& head) {
    return sent == Positions::kSent ? std::min(head.listed, head.length) : 0;
  };
  int64_t pages = 0;
  int64_t listed = 0;
  for (const KvHeadView& head : kv.heads) {
    pages += room_for(head);
    listed += listed_of(head);
  }
  EI_ASSIGN_OR_RETURN(const CudaStaging::Piece piece, staging_.take(kv.heads.size() * sizeof(DeviceKvHead) +
                                                                    static_cast<size_t>(pages) * sizeof(void*) +
                                                                    static_cast<size_t>(listed) * sizeof(int32_t)));
  CudaPacker packer(piece);
  const auto heads = packer.take<DeviceKvHead>(static_cast<int64_t>(kv.heads.size()));
  const auto tables = packer.take<const void*>(pages);
  const auto positions = packer.take<int32_t>(listed);
  int64_t page = 0;
  int64_t position = 0;
  for (size_t h = 0; h < kv.heads.size(); ++h) {
    const KvHeadView& head = kv.heads[h];
    std::copy_n(head.key_pages, pages_for(head), tables.host + page);
    for (int64_t i = 0; copied != nullptr && i < pages_for(head); ++i)
      tables.host[page + i] = copied->memory + static_cast<int64_t>(h) * copied->head_bytes + i * copied->page_bytes;
    std::copy_n(head.listed_positions, listed_of(head), positions.host + position);
    heads.host[h] = {.pages = tables.device + page,
                     .listed_positions = listed_of(head) > 0 ? positions.device + position : nullptr,
                     .length = static_cast<int32_t>(head.length),
                     .listed = static_cast<int32_t>(listed_of(head)),
                     .tail_position = head.tail_position};
    page += room_for(head);
    position += listed_of(head);
  }
  EI_RETURN_IF_ERROR(send(piece));
  return const_cast<const DeviceKvHead*>(heads.device);
}

}  // namespace ei
