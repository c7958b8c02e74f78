#include <algorithm>

#include "kernels/cuda/elements.cuh"
#include "kernels/products/cuda/matvec_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMostShared = 96 * 1024;

// x in shared memory: a lane reads kEach neighbours at a time, and the lanes of a warp must not meet in a bank. So
// groups of four lie lane by lane.
template <int kEach>
__device__ int64_t place_of(int64_t i) {
  constexpr int kStep = 32 * kEach;
  return ((i / kStep * (kEach / 4) + i % kEach / 4) * 32 + i % kStep / kEach) * 4 + i % 4;
}
template <int kEach>
__device__ float4 four_of(const float* x, int64_t step, int group) {
  return reinterpret_cast<const float4*>(x)[(step * (kEach / 4) + group) * 32 + threadIdx.x % 32];
}

__device__ float dot4(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// Each form: what a lane loads at once, and its product with x.
struct Narrow {  // bf16
  static constexpr int kEach = 8;
  const uint4* weights;
  int64_t per_row;  // of these
  struct Held {
    uint4 bits;
  };
  __device__ Held load(int64_t row, int64_t piece) const { return {__ldcs(weights + row * per_row + piece)}; }
  __device__ float dot(const Held& held, const float* x, int64_t step) const {
    const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&held.bits);
    float sum = 0;
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const float2 low = __bfloat1622float2(pairs[2 * group]);
      const float2 high = __bfloat1622float2(pairs[2 * group + 1]);
      sum += dot4({low.x, low.y, high.x, high.y}, four_of<kEach>(x, step, group));
    }
    return sum;
  }
};

template <int kBlock>
struct Bytes {
  static constexpr int kEach = 16;
  const uint4* codes;
  const __half* scales;
  int64_t per_row;
  struct Held {
    uint4 bits;
    __half scale;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * per_row + piece;
    return {__ldcs(codes + at), scales[at * kEach / kBlock]};
  }
  __device__ float dot(const Held& held, const float* x, int64_t step) const {
    const auto* bytes = reinterpret_cast<const char4*>(&held.bits);
    float sum = 0;
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      const char4 four = bytes[group];
      sum += dot4({static_cast<float>(four.x), static_cast<float>(four.y), static_cast<float>(four.z),
                   static_cast<float>(four.w)},
                  four_of<kEach>(x, step, group));
    }
    return sum * __half2float(held.scale);
  }
};

struct Nibbles {
  static constexpr int kEach = 32;
  const uint4* codes;  // of a block: weights 0 to 15 in the low halves of its bytes, 16 to 31 in the high ones
  const __half2* scales;
  int64_t per_row;
  struct Held {
    uint4 bits;
    __half2 scale;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * per_row + piece;
    return {__ldcs(codes + at), scales[at]};
  }
  __device__ float dot(const Held& held, const float* x, int64_t step) const {
    const uint32_t* words = &held.bits.x;
    float sum = 0;
    float plain = 0;
#pragma unroll
    for (int group = 0; group < 8; ++group) {
      const uint32_t word = words[group % 4] >> (group < 4 ? 0 : 4);
      const float4 four = four_of<kEach>(x, step, group);
      sum += dot4({static_cast<float>(word & 15), static_cast<float>(word >> 8 & 15),
                   static_cast<float>(word >> 16 & 15), static_cast<float>(word >> 24 & 15)},
                  four);
      plain += four.x + four.y + four.z + four.w;
    }
    const float2 scale = __half22float2(held.scale);
    return sum * scale.x + plain * scale.y;
  }
};

// A warp takes one row at a time.
template <typename Form, typename From>
__global__ void __launch_bounds__(kWarps * 32)
    matvec_kernel(Form form, int64_t rows, int64_t cols, const From* x, float* y, const float* bias) {
  extern __shared__ float shared_x[];
  constexpr int kStep = 32 * Form::kEach;
  const int64_t steps = (cols + kStep - 1) / kStep;
  for (int64_t i = threadIdx.x; i < steps * kStep; i += blockDim.x)
    shared_x[place_of<Form::kEach>(i)] = i < cols ? to_float(x[i]) : 0.0f;
  __syncthreads();
  const int64_t pieces = cols / Form::kEach;
  const auto lane = static_cast<int64_t>(threadIdx.x % 32);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    float sum = 0;
    int64_t step = 0;
    constexpr int kAhead = 4;  // loads in flight
    for (; (step + kAhead) * 32 <= pieces; step += kAhead) {
      typename Form::Held held[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) held[i] = form.load(row, (step + i) * 32 + lane);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum += form.dot(held[i], shared_x, step + i);
    }
    for (; step < steps; ++step) {
      const int64_t piece = step * 32 + lane;
      if (piece < pieces) sum += form.dot(form.load(row, piece), shared_x, step);
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum + (bias != nullptr ? bias[row] : 0.0f);
  }
}

template <typename Form>
Status launch(const Form& form, int64_t rows, int64_t cols, const DeviceRows& x, float* y, const float* bias,
              void* stream) {
  EI_CHECK(x.rows == 1 && x.cols == cols);
  constexpr int64_t kMostBlocks = 132 * 8;
  constexpr int64_t kStep = 32 * Form::kEach;
  const auto blocks = static_cast<unsigned>(std::min((rows + kWarps - 1) / kWarps, kMostBlocks));
  const size_t shared = static_cast<size_t>((cols + kStep - 1) / kStep * kStep) * sizeof(float);
  cudaError_t allowed = cudaSuccess;
  with_row_type(x.type, [&](auto from) {
    auto* kernel = matvec_kernel<Form, decltype(from)>;
    static const cudaError_t asked =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared);
    allowed = asked;
    kernel<<<blocks, kWarps * 32, shared, static_cast<cudaStream_t>(stream)>>>(
        form, rows, cols, static_cast<const decltype(from)*>(x.data), y, bias);
  });
  EI_RETURN_IF_ERROR(cuda_status(allowed, "matvec"));
  return launched("matvec");
}

bool takes(int64_t each, int64_t cols) {
  const int64_t step = 32 * each;
  return cols % each == 0 && (cols + step - 1) / step * step * static_cast<int64_t>(sizeof(float)) <= kMostShared;
}

}  // namespace

bool matvec_takes(DType type, int64_t cols) { return type == DType::kBF16 && takes(Narrow::kEach, cols); }

bool matvec_takes(const CodeForm& form, int64_t cols) {
  if (form.codes == Codes::kNone) return false;
  return takes(form.codes == Codes::kNibbles ? Nibbles::kEach : Bytes<32>::kEach, cols) && cols % form.block == 0;
}

Status launch_matvec(const DeviceRows& weight, const DeviceRows& x, float* y, const float* bias, void* stream) {
  EI_CHECK(matvec_takes(weight.type, weight.cols) && weight.stride == weight.cols);
  const Narrow form{static_cast<const uint4*>(weight.data), weight.cols / Narrow::kEach};
  return launch(form, weight.rows, weight.cols, x, y, bias, stream);
}

Status launch_matvec(const DeviceCodes& weight, const DeviceRows& x, float* y, const float* bias, void* stream) {
  EI_CHECK(matvec_takes(weight.form, weight.cols));
  const auto* codes = static_cast<const uint4*>(weight.codes);
  if (weight.form.codes == Codes::kNibbles) {
    const Nibbles form{codes, static_cast<const __half2*>(weight.scales), weight.cols / Nibbles::kEach};
    return launch(form, weight.rows, weight.cols, x, y, bias, stream);
  }
  const auto* scales = static_cast<const __half*>(weight.scales);
  if (weight.form.block == 16)
    return launch(Bytes<16>{codes, scales, weight.cols / 16}, weight.rows, weight.cols, x, y, bias, stream);
  return launch(Bytes<32>{codes, scales, weight.cols / 16}, weight.rows, weight.cols, x, y, bias, stream);
}

}  // namespace ei::kernels::cuda
