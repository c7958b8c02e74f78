// Is the first way to multiply that cuBLASLt's heuristic names the fastest one? Times the first sixteen for the prompt
// products of an 8B shape, bf16 in, sums in f32.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "product_algorithms: %s failed\n", what);
  std::exit(1);
}

__global__ void fill(__nv_bfloat16* to, size_t count, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t{256} + threadIdx.x; i < count; i += size_t{256} * gridDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + seed;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    to[i] = __float2bfloat16(static_cast<float>(x) * (2.0f / 4294967296.0f) - 1.0f);
  }
}

constexpr size_t kWorkspace = size_t{32} << 20;

void time_shape(cublasLtHandle_t handle, int64_t n, int64_t m, int64_t k, cudaDataType_t out, void* workspace) {
  void* w;
  void* x;
  void* y;
  check(cudaMalloc(&w, n * k * 2) == cudaSuccess && cudaMalloc(&x, m * k * 2) == cudaSuccess, "cudaMalloc");
  check(cudaMalloc(&y, n * m * 4) == cudaSuccess, "cudaMalloc");
  fill<<<1024, 256>>>(static_cast<__nv_bfloat16*>(w), n * k, 1);
  fill<<<1024, 256>>>(static_cast<__nv_bfloat16*>(x), m * k, 2);
  cublasLtMatmulDesc_t operation;
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) == 0, "descriptor");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  cublasLtMatrixLayout_t of_w, of_x, of_y;
  cublasLtMatrixLayoutCreate(&of_w, CUDA_R_16BF, k, n, k);
  cublasLtMatrixLayoutCreate(&of_x, CUDA_R_16BF, k, m, k);
  cublasLtMatrixLayoutCreate(&of_y, out, n, m, n);
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                       sizeof kWorkspace);
  cublasLtMatmulHeuristicResult_t ways[16];
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, operation, of_w, of_x, of_y, of_y, preference, 16, ways, &found) == 0,
        "heuristic");
  const float one = 1;
  const float zero = 0;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<std::vector<float>> times(found);
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < found; ++i) {
      cudaEventRecord(begin);
      for (int repeat = 0; repeat < 4; ++repeat)
        check(cublasLtMatmul(handle, operation, &one, w, of_w, x, of_x, &zero, y, of_y, y, of_y, &ways[i].algo,
                             workspace, kWorkspace, nullptr) == 0,
              "product");
      cudaEventRecord(end);
      check(cudaEventSynchronize(end) == cudaSuccess, "kernel");
      float ms;
      cudaEventElapsedTime(&ms, begin, end);
      if (round > 0) times[i].push_back(ms / 4);
    }
  }
  std::printf("%lld x %lld x %lld, %s:", static_cast<long long>(m), static_cast<long long>(n),
              static_cast<long long>(k), out == CUDA_R_32F ? "f32" : "bf16");
  for (std::vector<float>& of_way : times) {
    std::sort(of_way.begin(), of_way.end());
    std::printf(" %.0f", 2e-9 * static_cast<double>(n * m * k) / of_way[of_way.size() / 2]);
  }
  std::printf(" TFLOP/s\n");
  for (void* memory : {w, x, y}) cudaFree(memory);
}

}  // namespace

int main() {
  cublasLtHandle_t handle;
  check(cublasLtCreate(&handle) == 0, "cublasLtCreate");
  void* workspace;
  check(cudaMalloc(&workspace, kWorkspace) == cudaSuccess, "cudaMalloc");
  for (const int64_t m : {4096, 8192}) {
    time_shape(handle, 6144, m, 4096, CUDA_R_32F, workspace);    // q, k, v
    time_shape(handle, 4096, m, 4096, CUDA_R_32F, workspace);    // behind attention
    time_shape(handle, 28672, m, 4096, CUDA_R_16BF, workspace);  // gate and up
    time_shape(handle, 4096, m, 14336, CUDA_R_32F, workspace);   // down
  }
}
