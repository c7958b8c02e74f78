// The GPU this process computes on: what it is, and the library handle that all streams share.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "plan/kv_view.h"

namespace ei {

class CudaDevice {
 public:
  // kDevice, in one line, where there is no driver, no GPU, or too old a one.
  // `wanted`: which attention kernels to take: "portable" or "plain" (slow, for comparisons); anything else: the
  // fastest.
  static Result<std::unique_ptr<CudaDevice>> create(std::string_view wanted = "");
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const std::string& name() const { return name_; }
  const kernels::cuda::DeviceTraits& traits() const { return traits_; }
  bool plain() const { return plain_; }
  int64_t total_bytes() const { return total_bytes_; }
  cublasLtHandle_t products() const { return products_; }

 private:
  CudaDevice() = default;

  std::string name_;
  kernels::cuda::DeviceTraits traits_;
  bool plain_ = false;
  int64_t total_bytes_ = 0;
  cublasLtHandle_t products_ = nullptr;
};

// Do pages of this shape lie in blocks of 8 keys, as the attention kernels want them?
bool blocked_pages(const CudaDevice& device, const KvPageShape& shape);

}  // namespace ei
