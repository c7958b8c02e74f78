// The memory a stream takes for itself: what it will be, and rooms that grow without being there twice.
#include <algorithm>

#include "backend/cuda/cuda_stream.h"

namespace ei {

namespace {

// An allocation takes whole pieces of 2 MiB of the device's memory, small ones together. These are scratch memory of
// activations (7), workspace, angles, inputs of products, lists, ratings and their room, small rooms, and the last slab
// of the cache.
constexpr int64_t kPieceBytes = int64_t{2} << 20;
constexpr int64_t kPieces = 15;

int64_t up_to(int64_t bytes, int64_t whole) { return (bytes + whole - 1) / whole * whole; }

}  // namespace

int64_t CudaStream::room(const PromptShape& shape, bool fp8_products, int64_t decoded) {
  constexpr int64_t kAddress = sizeof(void*);
  constexpr int64_t kHead = 512;  // its description, and pages that its table has room for
  const auto block = static_cast<int64_t>(CudaStaging::kBlockBytes);
  // Until a chunk has run: of every layer a table for appending and up to two for attention, positions with each.
  int64_t staged = 3 * (shape.pages * kAddress + shape.heads * kHead) + 2 * shape.positions * 4 + shape.chunk * 4;
  staged = up_to(staged, block) * (staged > block ? 2 : 1);  // a piece is not divided
  const int64_t angles = shape.chunk * shape.angles * static_cast<int64_t>(sizeof(float));
  int64_t converted = shape.reads_parts ? shape.piece * shape.widest * static_cast<int64_t>(sizeof(uint16_t)) : 0;
  if (fp8_products) converted = std::max(converted, shape.piece * (shape.widest + kAddress));
  // What grows does so by half, beside what it was.
  return static_cast<int64_t>(CudaProducts::kWorkspaceBytes) + staged + angles + (converted + decoded) * 5 / 2 +
         kPieces * kPieceBytes;
}

Result<void*> CudaStream::alone(CudaRoom& room, size_t bytes) {
  if (room.device_bytes() < bytes && room.device_bytes() > 0) {
    EI_RETURN_IF_ERROR(kernels::cuda::cuda_status(cudaStreamSynchronize(stream_), "forward pass"));
    room = CudaRoom();
  }
  return room.device(bytes);
}

}  // namespace ei
