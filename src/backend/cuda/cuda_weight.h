// Weights on the GPU: matrices and tables in bf16 (f32 where the file has f32), vectors in f32. Decoded on the GPU
// where it has a kernel for the type, otherwise on the host, in slices of bounded size.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "backend/cuda/cuda_memory.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/products/cuda/fp8_cuda.h"
#include "kernels/products/cuda/matvec_cuda.h"

namespace ei {

struct CudaWeight : Weight {
  std::shared_ptr<const Buffer> memory;  // none: prompts decode `codes`, product by product
  DType type = DType::kBF16;
  bool activated = false;  // MatrixUse::kActivated
  // For generation, where every part has such a form: fewer bytes to read.
  std::vector<kernels::cuda::DeviceCodes> codes;  // of all rows, one behind the other; parts of one form are one
  Buffer code_memory;
  Buffer fp8_memory;  // for prompts, where products in 8 bits are asked for
  kernels::cuda::Fp8Rows fp8() const { return kernels::cuda::fp8_rows(fp8_memory.data(), rows, cols); }
  kernels::cuda::DeviceRows device() const {
    return {memory != nullptr ? memory->data() : nullptr, type, rows, cols, cols};
  }
  const float* vector() const { return static_cast<const float*>(memory->data()); }
};

inline const CudaWeight& on_device(const Weight& weight) { return static_cast<const CudaWeight&>(weight); }
inline const float* vector_of(const Weight* weight) {
  return weight != nullptr ? on_device(*weight).vector() : nullptr;
}

// Bytes of the codes that are kept of this tensor for generation; 0: none.
int64_t code_bytes(const HostTensor& tensor);
// f32 where a part is: whoever keeps weights in f32 wants more than bf16's eight bits.
DType matrix_type(std::span<const HostTensor> parts);

class CudaWeightLoader {
 public:
  enum class Forms : uint8_t {
    kDecoded,  // to be looked up, or multiplied by many rows
    kBoth,     // and by one row at a time: codes as well, where there are any
    kCodes,    // these alone, where there are any
  };
  Result<std::unique_ptr<CudaWeight>> matrix(std::span<const HostTensor> parts, Forms forms);
  // In one row.
  Result<std::unique_ptr<CudaWeight>> vector(std::span<const HostTensor> parts);
  // Makes the form of 8 bits of a matrix in bf16 whose rows it takes; others stay as they are.
  static Status add_fp8(CudaWeight& weight);

 private:
  static constexpr size_t kSliceBytes = size_t{8} << 20;
  // Host memory that is being sent, and where it goes when it must be decoded there.
  struct Slice {
    Buffer pinned;
    Buffer device;
    cudaEvent_t sent = nullptr;
    Slice() = default;
    Slice(const Slice&) = delete;
    Slice& operator=(const Slice&) = delete;
    ~Slice() {
      if (sent != nullptr) cudaEventDestroy(sent);
    }
  };

  Result<Slice*> next_slice();
  // With its table, where it has one, on the GPU.
  Result<kernels::cuda::FileType> file_type(uint32_t ggml_type);
  // Decodes `part` into [rows, cols] of `type` at `to`, and splits it into codes; each where it is not null.
  Status send(const HostTensor& part, DType type, std::byte* to, const kernels::cuda::DeviceCodes* codes);

  std::mutex mutex_;  // guards everything; weights are loaded one by one
  std::array<Slice, 2> slices_;
  size_t next_ = 0;
  // A table and an output matrix of one tensor are one copy.
  std::map<const void*, std::weak_ptr<const Buffer>> held_;
  std::map<uint32_t, Buffer> grids_;  // by type
};

}  // namespace ei
