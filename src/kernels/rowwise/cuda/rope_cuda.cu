#include <cuda_runtime_api.h>

#include "kernels/cuda/device_rows.h"
#include "kernels/rowwise/cuda/rope_cuda.h"

namespace ei::kernels::cuda {
namespace {

// One thread for one pair of one token: it makes the steps of the pairs before it once more.
__global__ void angles_kernel(DeviceAngles params) {
  const int32_t half = params.dims / 2;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= params.tokens * half) return;
  const auto pair = static_cast<int32_t>(index % half);
  auto angle = static_cast<float>(*params.first_position + static_cast<int32_t>(index / half));
  for (int32_t i = 0; i < pair; ++i) angle = __fmul_rn(angle, params.turn.step);
  const float extrapolated = params.factors == nullptr ? angle : __fdiv_rn(angle, params.factors[pair]);
  const float interpolated = __fmul_rn(params.frequency_scale, extrapolated);
  float mixed = interpolated;
  if (params.turn.mixes) {
    const float ramp = (static_cast<float>(pair) - params.turn.low) / fmaxf(0.001f, params.turn.high - params.turn.low);
    const float mix = (1.0f - fminf(1.0f, fmaxf(0.0f, ramp))) * params.ext_factor;
    mixed = __fadd_rn(__fmul_rn(interpolated, 1.0f - mix), __fmul_rn(extrapolated, mix));
  }
  float sine = 0;
  float cosine = 0;
  sincosf(mixed, &sine, &cosine);
  params.cos[index] = cosine * params.turn.magnitude;
  params.sin[index] = sine * params.turn.magnitude;
}

}  // namespace

Status launch_angles(const DeviceAngles& params, void* stream) {
  const int64_t count = params.tokens * (params.dims / 2);
  if (count == 0) return {};
  constexpr int64_t kThreads = 128;
  angles_kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(params);
  return launched("angles");
}

}  // namespace ei::kernels::cuda
