#include "backend/cuda/cuda_products.h"

#include "backend/cuda/cuda_memory.h"
#include "base/check.h"

namespace ei {

using kernels::cuda::DeviceRows;
using kernels::cuda::Fp8Rows;

// The matrices as cuBLASLt sees them, column-major: D [rows of W, rows of x] = W^T x.
struct CudaProducts::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

void CudaProducts::PlanDeleter::operator()(Plan* plan) const {
  if (plan->operation != nullptr) cublasLtMatmulDescDestroy(plan->operation);
  for (cublasLtMatrixLayout_t layout : {plan->weight, plan->x, plan->y})
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  delete plan;
}

namespace {

constexpr size_t kMostPlans = 4096;  // a prompt's last chunk has any length

constexpr int kFp8 = -8;  // in a key, beside the DTypes

cudaDataType_t type_of(int type) {
  if (type == kFp8) return CUDA_R_8F_E4M3;
  return type == static_cast<int>(DType::kF32) ? CUDA_R_32F : CUDA_R_16BF;
}

// The largest power of two, up to 256, that divides an address.
uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

Error failed(const char* what, cublasStatus_t status) {
  return make_error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::kMemory : ErrorKind::kDevice,
                    "the GPU failed (%s: %s)", what, cublasLtGetStatusString(status));
}

#define EI_TRY_LT(expression)                                                          \
  do {                                                                                 \
    if (const cublasStatus_t ei_code = (expression); ei_code != CUBLAS_STATUS_SUCCESS) \
      return failed("product", ei_code);                                               \
  } while (false)

}  // namespace

Result<CudaProducts::Plan*> CudaProducts::plan_for(const Key& key) {
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();
  const auto& [in_type, out_type, n, m, k, ld_w, ld_x, ld_y, align_w, align_x, align_y, biased] = key;
  if (workspace_.bytes() == 0) {
    EI_ASSIGN_OR_RETURN(workspace_, allocate_device(kWorkspaceBytes));
  }
  std::unique_ptr<Plan, PlanDeleter> plan(new Plan());
  const auto in = type_of(in_type);
  EI_TRY_LT(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  EI_TRY_LT(
      cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  if (biased) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    EI_TRY_LT(
        cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  }
  if (in_type == kFp8) {
    const int8_t fast = 1;
    const cublasLtMatmulMatrixScale_t by_rows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    for (const auto side : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      EI_TRY_LT(cublasLtMatmulDescSetAttribute(plan->operation, side, &by_rows, sizeof by_rows));
    const void* some = workspace_.data();  // no way is found without scales
    for (const auto side : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
      EI_TRY_LT(cublasLtMatmulDescSetAttribute(plan->operation, side, &some, sizeof some));
    EI_TRY_LT(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
  }
  const auto columns = [](int64_t value) { return static_cast<uint64_t>(value); };
  EI_TRY_LT(cublasLtMatrixLayoutCreate(&plan->weight, in, columns(k), columns(n), ld_w));
  EI_TRY_LT(cublasLtMatrixLayoutCreate(&plan->x, in, columns(k), columns(m), ld_x));
  EI_TRY_LT(cublasLtMatrixLayoutCreate(&plan->y, type_of(out_type), columns(n), columns(m), ld_y));

  cublasLtMatmulPreference_t preference = nullptr;
  EI_TRY_LT(cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(&cublasLtMatmulPreferenceDestroy)>
      owner(preference, cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  EI_TRY_LT(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  EI_TRY_LT(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_w));
  EI_TRY_LT(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_x));
  EI_TRY_LT(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_y));
  EI_TRY_LT(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_y));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  EI_TRY_LT(cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation, plan->weight, plan->x, plan->y, plan->y,
                                           preference, 1, &best, &found));
  if (found == 0) return failed("no way to multiply", CUBLAS_STATUS_NOT_SUPPORTED);
  plan->algorithm = best.algo;
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(key, std::move(plan)).first->second.get();
}

Status CudaProducts::multiply(const DeviceRows& weight, const DeviceRows& x, const DeviceRows& y, const float* bias,
                              cudaStream_t stream, Into into) {
  EI_CHECK(into == Into::kWritten || (bias == nullptr && y.type == DType::kF32));
  EI_CHECK(weight.type == x.type && (bias == nullptr || y.type == DType::kF32));
  if (x.rows == 0 || weight.rows == 0) return {};
  const Key key{static_cast<int>(x.type),
                static_cast<int>(y.type),
                weight.rows,
                x.rows,
                x.cols,
                weight.stride,
                x.stride,
                y.stride,
                alignment_of(weight.data),
                alignment_of(x.data),
                alignment_of(y.data),
                bias != nullptr};
  EI_ASSIGN_OR_RETURN(Plan * plan, plan_for(key));
  if (bias != nullptr) {
    EI_TRY_LT(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  }
  return run(*plan, weight.data, x.data, y.data, stream, into);
}

Status CudaProducts::multiply(const Fp8Rows& weight, const Fp8Rows& x, const DeviceRows& y, cudaStream_t stream,
                              Into into) {
  if (x.rows == 0 || weight.rows == 0) return {};
  const Key key{kFp8,
                static_cast<int>(y.type),
                weight.rows,
                x.rows,
                x.cols,
                weight.cols,
                x.cols,
                y.stride,
                alignment_of(weight.codes),
                alignment_of(x.codes),
                alignment_of(y.data),
                false};
  EI_ASSIGN_OR_RETURN(Plan * plan, plan_for(key));
  const float* scales[] = {weight.scales, x.scales};
  EI_TRY_LT(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scales[0],
                                           sizeof scales[0]));
  EI_TRY_LT(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scales[1],
                                           sizeof scales[1]));
  return run(*plan, weight.codes, x.codes, y.data, stream, into);
}

Status CudaProducts::run(const Plan& plan, const void* weight, const void* x, void* y, cudaStream_t stream, Into into) {
  const float one = 1;
  const float kept = into == Into::kAdded ? 1 : 0;  // of what is there
  EI_TRY_LT(cublasLtMatmul(handle_, plan.operation, &one, weight, plan.weight, x, plan.x, &kept, y, plan.y, y, plan.y,
                           &plan.algorithm, workspace_.data(), workspace_.bytes(), stream));
  return {};
}

}  // namespace ei
