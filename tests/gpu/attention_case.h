// One random attention case on the GPU beside the scalar reference: pages in the device's layout, odd shapes, poisoned
// outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device_array.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "plan/block_plan.h"
#include "support/random_kv.h"

namespace ei {

// What a call asks for beside the shape of the cache.
struct GpuCall {
  kernels::cuda::KernelSet set = kernels::cuda::KernelSet::kPortable;
  DType q_type = DType::kBF16;
  DType out_type = DType::kBF16;
  float softcap = 0;
  int32_t segment = 0;  // > 0: a plan of such segments
  int32_t block = 8;
  bool ordered = false;         // longest list first
  bool dense_segments = false;  // some segments read everything
};

struct GpuOutcome {
  double worst = 0;     // largest difference of an output
  double relative = 0;  // |got - want| / |want|
  double worst_log_sum = 0;
};

class AttentionCase {
 public:
  AttentionCase(const kernels::AttentionShape& shape, uint64_t seed);

  GpuOutcome prefill(const GpuCall& call);
  GpuOutcome decode(const GpuCall& call);
  // Largest difference between this file's own reference, which knows softcap and log-sum, and the scalar variant.
  double oracle_error();
  std::string describe(const GpuCall& call) const;

 private:
  struct Expected {
    std::vector<float> out;
    std::vector<float> log_sum;
  };
  void upload();
  BlockPlan random_plan(const GpuCall& call);
  std::vector<float> queries(const GpuCall& call) const;
  Expected expect(const GpuCall& call, const std::vector<float>& q, const BlockPlan* plan);
  GpuOutcome compare(const GpuCall& call, const Expected& want, const DeviceArray<uint8_t>& out,
                     const DeviceArray<float>& log_sum) const;
  kernels::cuda::DeviceTraits traits(const GpuCall& call) const;
  kernels::cuda::DeviceKv device_kv() const;

  kernels::AttentionShape shape_;
  uint64_t seed_;
  Random random_;
  kernels::RandomAttention input_;
  std::vector<std::vector<float>> keys_;  // of every kv_head: [length, head_dim]
  std::vector<std::vector<float>> values_;
  std::vector<std::unique_ptr<DeviceArray<uint8_t>>> pages_;
  std::vector<std::unique_ptr<DeviceArray<const void*>>> tables_;
  std::vector<std::unique_ptr<DeviceArray<int32_t>>> positions_;
  std::unique_ptr<DeviceArray<kernels::cuda::DeviceKvHead>> heads_;
};

}  // namespace ei
