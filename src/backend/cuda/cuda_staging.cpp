#include "backend/cuda/cuda_staging.h"

#include <algorithm>

#include "backend/cuda/cuda_memory.h"
#include "kernels/cuda/device_rows.h"

namespace ei {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

Result<CudaStaging::Piece> CudaStaging::take(size_t bytes) {
  const size_t room = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  while (current_ < blocks_.size() && blocks_[current_].used + room > blocks_[current_].host.bytes()) ++current_;
  if (current_ == blocks_.size()) {
    Block block;
    const size_t size = std::max(kBlockBytes, room);
    EI_ASSIGN_OR_RETURN(block.host, allocate_pinned(size));
    EI_ASSIGN_OR_RETURN(block.device, allocate_device(size));
    blocks_.push_back(std::move(block));
  }
  Block& block = blocks_[current_];
  const Piece piece{.host = static_cast<std::byte*>(block.host.data()) + block.used,
                    .device = static_cast<std::byte*>(block.device.data()) + block.used,
                    .bytes = bytes};
  block.used += room;
  return piece;
}

Status CudaStaging::send(const Piece& piece, cudaStream_t stream) {
  if (piece.bytes == 0) return {};
  return kernels::cuda::cuda_status(
      cudaMemcpyAsync(piece.device, piece.host, piece.bytes, cudaMemcpyHostToDevice, stream), "sending");
}

Status CudaStaging::send_all(cudaStream_t stream) {
  for (const Block& block : blocks_) {
    EI_RETURN_IF_ERROR(
        send({static_cast<std::byte*>(block.host.data()), static_cast<std::byte*>(block.device.data()), block.used},
             stream));
  }
  return {};
}

void CudaStaging::reset() {
  for (Block& block : blocks_) block.used = 0;
  current_ = 0;
}

Result<void*> CudaRoom::grow(Buffer& memory, size_t bytes, bool on_host) {
  if (memory.bytes() < bytes) {
    const size_t wanted = std::max(bytes, memory.bytes() + memory.bytes() / 2);
    EI_ASSIGN_OR_RETURN(Buffer larger, on_host ? allocate_pinned(wanted) : allocate_device(wanted));
    if (memory.bytes() > 0) retired_.push_back(std::move(memory));
    memory = std::move(larger);
  }
  return memory.data();
}

}  // namespace ei
