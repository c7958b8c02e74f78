#include <algorithm>

#include "kernels/cuda/elements.cuh"
#include "kernels/rowwise/cuda/rowwise_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Rows {
  explicit Rows(const DeviceRows& rows) : data(static_cast<T*>(rows.data)), stride(rows.stride) {}
  T* data;
  int64_t stride;
  __device__ T* row(int64_t index) const { return data + index * stride; }
};

__device__ inline float4 load_four(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ inline float4 load_four(const __nv_bfloat16* from) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  return make_float4(__uint_as_float(words.x << 16), __uint_as_float(words.x & 0xffff0000u),
                     __uint_as_float(words.y << 16), __uint_as_float(words.y & 0xffff0000u));
}
__device__ inline void store_four(float* to, float4 value) { *reinterpret_cast<float4*>(to) = value; }
__device__ inline void store_four(__nv_bfloat16* to, float4 value) {
  __nv_bfloat162 pairs[2] = {__floats2bfloat162_rn(value.x, value.y), __floats2bfloat162_rn(value.z, value.w)};
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(pairs);
}

// Do all rows begin where four elements may be read at once?
bool in_fours(const DeviceRows& rows) {
  const auto four = 4 * dtype_bytes(rows.type);
  return rows.cols % 4 == 0 && rows.stride % 4 == 0 && reinterpret_cast<uintptr_t>(rows.data) % four == 0;
}

// Threads of a block for each of `rows` rows of `cols`: a few rows have the GPU to themselves.
unsigned threads_for(int64_t rows, int64_t cols) {
  constexpr int64_t kFewRows = 64;
  const int64_t most = rows <= kFewRows ? 1024 : kThreads;
  return static_cast<unsigned>(std::clamp<int64_t>((cols + 31) / 32 * 32, 32, most));
}

template <typename T>
__global__ void embed_kernel(Rows<T> table, const int32_t* ids, float scale, Rows<float> out, int64_t cols) {
  const T* from = table.row(ids[blockIdx.x]);
  float* to = out.row(blockIdx.x);
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) to[i] = scale * to_float(from[i]);
}

template <typename From, typename To>
__global__ void rms_norm_kernel(Rows<From> x, const float* gain, float eps, Rows<To> y, int64_t cols) {
  const From* from = x.row(blockIdx.x);
  To* to = y.row(blockIdx.x);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float value = to_float(from[i]);
    sum += value * value;
  }
  const float scale = 1.0f / sqrtf(block_sum(sum) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) to[i] = from_float<To>(to_float(from[i]) * scale * gain[i]);
}

template <typename From, typename To>
__global__ void add_rms_norm_kernel(Rows<From> x, Rows<float> total, const float* gain, float eps, Rows<To> y,
                                    int64_t cols) {
  const From* from = x.row(blockIdx.x);
  float* held = total.row(blockIdx.x);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float value = held[i] + to_float(from[i]);
    held[i] = value;
    sum += value * value;
  }
  if (gain == nullptr) return;
  To* to = y.row(blockIdx.x);
  const float scale = 1.0f / sqrtf(block_sum(sum) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) to[i] = from_float<To>(held[i] * scale * gain[i]);
}

// A row of whole fours in the registers of a block: read by wide loads, squared, and written normalised.
constexpr int kFours = 4;  // of a thread

struct HeldRow {
  float4 values[kFours];
  float sum = 0;

  __device__ static int64_t place(int k) {
    return 4 * (static_cast<int64_t>(threadIdx.x) + k * static_cast<int64_t>(blockDim.x));
  }
  // load(i): the four from column i on.
  template <typename Load>
  __device__ void take(int64_t cols, Load load) {
#pragma unroll
    for (int k = 0; k < kFours; ++k) {
      if (place(k) >= cols) break;
      const float4 value = load(place(k));
      values[k] = value;
      sum += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
    }
  }
  // By all threads of the block.
  template <typename To>
  __device__ void write(const float* gain, float eps, To* to, int64_t cols) const {
    const float scale = 1.0f / sqrtf(block_sum(sum) / static_cast<float>(cols) + eps);
#pragma unroll
    for (int k = 0; k < kFours; ++k) {
      if (place(k) >= cols) break;
      const float4 by = load_four(gain + place(k));
      const float4 value = values[k];
      store_four(to + place(k), make_float4(value.x * scale * by.x, value.y * scale * by.y, value.z * scale * by.z,
                                            value.w * scale * by.w));
    }
  }
};

template <typename From, typename To>
__global__ void add_rms_norm_fours(Rows<From> x, Rows<float> total, const float* gain, float eps, Rows<To> y,
                                   int64_t cols) {
  const From* from = x.row(blockIdx.x);
  float* held = total.row(blockIdx.x);
  HeldRow row;
  row.take(cols, [&](int64_t i) {
    const float4 more = load_four(from + i);
    float4 value = load_four(held + i);
    value = make_float4(value.x + more.x, value.y + more.y, value.z + more.z, value.w + more.w);
    store_four(held + i, value);
    return value;
  });
  if (gain != nullptr) row.write(gain, eps, y.row(blockIdx.x), cols);
}

template <typename From, typename To>
__global__ void rms_norm_fours(Rows<From> x, const float* gain, float eps, Rows<To> y, int64_t cols) {
  const From* from = x.row(blockIdx.x);
  HeldRow row;
  row.take(cols, [&](int64_t i) { return load_four(from + i); });
  row.write(gain, eps, y.row(blockIdx.x), cols);
}

__device__ float silu(float value) { return value / (1.0f + expf(-value)); }

__device__ float gelu_in_halves(float value) {
  const float g = __half2float(__float2half_rn(value));
  const float activated = 0.5f * g * (1.0f + tanhf(0.7978845608028654f * g * (1.0f + 0.044715f * g * g)));
  return __half2float(__float2half_rn(activated));
}

template <bool kGelu, typename From, typename To>
__global__ void activate_fours(Rows<From> gate, Rows<From> up, Rows<To> out, int64_t cols) {
  const int64_t i = 4 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i >= cols) return;
  const float4 g = load_four(gate.row(blockIdx.y) + i);
  const float4 u = load_four(up.row(blockIdx.y) + i);
  const auto act = [](float value) { return kGelu ? gelu_in_halves(value) : silu(value); };
  store_four(out.row(blockIdx.y) + i, make_float4(act(g.x) * u.x, act(g.y) * u.y, act(g.z) * u.z, act(g.w) * u.w));
}

template <bool kGelu, typename From, typename To>
__global__ void activate_kernel(Rows<From> gate, Rows<From> up, Rows<To> out, int64_t cols) {
  const From* g = gate.row(blockIdx.y);
  const From* u = up.row(blockIdx.y);
  To* to = out.row(blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < cols; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const float value = to_float(g[i]);
    to[i] = from_float<To>((kGelu ? gelu_in_halves(value) : silu(value)) * to_float(u[i]));
  }
}

__global__ void softcap_kernel(Rows<float> x, float cap, int64_t cols) {
  float* row = x.row(blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < cols; i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    row[i] = cap * tanhf(row[i] / cap);
}

template <typename From, typename To>
__global__ void copy_kernel(Rows<From> from, Rows<To> to, int64_t cols) {
  const From* source = from.row(blockIdx.y);
  To* target = to.row(blockIdx.y);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < cols; i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    target[i] = from_float<To>(to_float(source[i]));
}

// From the end of a row to its beginning: the numbers that a piece overwrites have been read by then.
__global__ void widen_kernel(float* data, int64_t cols, int64_t stride) {
  float* row = data + static_cast<int64_t>(blockIdx.x) * stride;
  const auto* narrow = reinterpret_cast<const __nv_bfloat16*>(row);
  for (int64_t first = (cols - 1) / kThreads * kThreads; first >= 0; first -= kThreads) {
    const int64_t i = first + threadIdx.x;
    const float value = i < cols ? to_float(narrow[i]) : 0.0f;
    __syncthreads();
    if (i < cols) row[i] = value;
    __syncthreads();
  }
}

constexpr int64_t kMostRows = 65535;  // of the grid's second dimension

// Cuts what has more rows than a grid can have, and calls launch(first, rows).
template <typename Launch>
void by_rows(int64_t rows, Launch launch) {
  for (int64_t first = 0; first < rows; first += kMostRows) launch(first, std::min(kMostRows, rows - first));
}

DeviceRows from_row(DeviceRows rows, int64_t first) {
  const auto bytes = static_cast<size_t>(first * rows.stride) * dtype_bytes(rows.type);
  rows.data = static_cast<std::byte*>(rows.data) + bytes;
  return rows;
}

dim3 grid_of(int64_t rows, int64_t cols, int64_t each) {
  return {static_cast<unsigned>((cols + each - 1) / each), static_cast<unsigned>(rows)};
}

}  // namespace

Status launch_embed(DeviceRows table, const int32_t* ids, float scale, DeviceRows out, void* stream) {
  if (out.rows == 0) return {};
  EI_CHECK(out.type == DType::kF32);
  with_row_type(table.type, [&](auto t) {
    embed_kernel<<<static_cast<unsigned>(out.rows), threads_for(out.rows, out.cols), 0,
                   static_cast<cudaStream_t>(stream)>>>(Rows<decltype(t)>(table), ids, scale, Rows<float>(out),
                                                        out.cols);
  });
  return launched("embed");
}

Status launch_rms_norm(DeviceRows x, const float* gain, float eps, DeviceRows y, void* stream) {
  if (x.rows == 0) return {};
  const unsigned threads = threads_for(x.rows, (x.cols + 3) / 4);
  const bool fours = in_fours(x) && in_fours(y) && reinterpret_cast<uintptr_t>(gain) % 16 == 0 &&
                     x.cols <= int64_t{4} * kFours * threads;
  with_row_type(x.type, [&](auto from) {
    with_row_type(y.type, [&](auto to) {
      if (fours) {
        rms_norm_fours<<<static_cast<unsigned>(x.rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(
            Rows<decltype(from)>(x), gain, eps, Rows<decltype(to)>(y), x.cols);
        return;
      }
      rms_norm_kernel<<<static_cast<unsigned>(x.rows), threads_for(x.rows, x.cols), 0,
                        static_cast<cudaStream_t>(stream)>>>(Rows<decltype(from)>(x), gain, eps, Rows<decltype(to)>(y),
                                                             x.cols);
    });
  });
  return launched("rms_norm");
}

Status launch_add_rms_norm(DeviceRows x, DeviceRows sum, const float* gain, float eps, DeviceRows y, void* stream) {
  if (x.rows == 0) return {};
  EI_CHECK(sum.type == DType::kF32);
  const unsigned threads = threads_for(x.rows, (x.cols + 3) / 4);
  const bool fours = in_fours(x) && in_fours(sum) && (gain == nullptr || in_fours(y)) &&
                     reinterpret_cast<uintptr_t>(gain) % 16 == 0 && x.cols <= int64_t{4} * kFours * threads;
  with_row_type(x.type, [&](auto from) {
    with_row_type(y.type, [&](auto to) {
      if (fours) {
        add_rms_norm_fours<<<static_cast<unsigned>(x.rows), threads, 0, static_cast<cudaStream_t>(stream)>>>(
            Rows<decltype(from)>(x), Rows<float>(sum), gain, eps, Rows<decltype(to)>(y), x.cols);
        return;
      }
      add_rms_norm_kernel<<<static_cast<unsigned>(x.rows), threads_for(x.rows, x.cols), 0,
                            static_cast<cudaStream_t>(stream)>>>(Rows<decltype(from)>(x), Rows<float>(sum), gain, eps,
                                                                 Rows<decltype(to)>(y), x.cols);
    });
  });
  return launched("add_rms_norm");
}

Status launch_activate(bool gelu, DeviceRows gate, DeviceRows up, DeviceRows out, void* stream) {
  EI_CHECK(gate.type == up.type);
  by_rows(gate.rows, [&](int64_t first, int64_t rows) {
    with_row_type(gate.type, [&](auto from) {
      with_row_type(out.type, [&](auto to) {
        using From = decltype(from);
        using To = decltype(to);
        if (in_fours(gate) && in_fours(up) && in_fours(out)) {
          auto* wide = gelu ? activate_fours<true, From, To> : activate_fours<false, From, To>;
          wide<<<grid_of(rows, gate.cols, 4 * kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
              Rows<From>(from_row(gate, first)), Rows<From>(from_row(up, first)), Rows<To>(from_row(out, first)),
              gate.cols);
          return;
        }
        auto* kernel = gelu ? activate_kernel<true, From, To> : activate_kernel<false, From, To>;
        kernel<<<grid_of(rows, gate.cols, 4 * kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            Rows<From>(from_row(gate, first)), Rows<From>(from_row(up, first)), Rows<To>(from_row(out, first)),
            gate.cols);
      });
    });
  });
  return launched("activate");
}

Status launch_softcap(DeviceRows x, float cap, void* stream) {
  EI_CHECK(x.type == DType::kF32);
  by_rows(x.rows, [&](int64_t first, int64_t rows) {
    softcap_kernel<<<grid_of(rows, x.cols, 4 * kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        Rows<float>(from_row(x, first)), cap, x.cols);
  });
  return launched("softcap");
}

Status launch_copy_rows(DeviceRows from, DeviceRows to, void* stream) {
  by_rows(from.rows, [&](int64_t first, int64_t rows) {
    with_row_type(from.type, [&](auto source) {
      with_row_type(to.type, [&](auto target) {
        copy_kernel<<<grid_of(rows, from.cols, 4 * kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            Rows<decltype(source)>(from_row(from, first)), Rows<decltype(target)>(from_row(to, first)), from.cols);
      });
    });
  });
  return launched("copy");
}

Status launch_widen_rows(float* data, int64_t rows, int64_t cols, int64_t stride, void* stream) {
  if (rows == 0 || cols == 0) return {};
  widen_kernel<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(data, cols, stride);
  return launched("widen");
}

}  // namespace ei::kernels::cuda
