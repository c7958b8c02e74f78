#include "backend/bf16_matmul.h"

#include <algorithm>
#include <vector>

#include "backend/host_memory.h"
#include "base/check.h"
#include "kernels/products/gemm.h"

namespace ei {
namespace {

constexpr int64_t kRowsAtOnce = 16;

struct Bf16Panels final : DenseProvider::Packed {
  Buffer memory;
  uint16_t* panels() const { return static_cast<uint16_t*>(memory.data()); }
};

class Bf16Matmul final : public DenseProvider {
 public:
  explicit Bf16Matmul(const kernels::GemmKernel& kernel) : kernel_(kernel) {}

  std::string describe() const override { return std::string(kernel_.name) + " kernels"; }
  std::string_view numbers() const override { return kernel_.numbers; }
  int64_t unpack_tokens() const override { return 128; }

  size_t packed_bytes(int64_t rows_n, int64_t cols_k) const override {
    return static_cast<size_t>(kernel_.packed_columns(rows_n, cols_k)) * sizeof(uint16_t);
  }

  Result<std::unique_ptr<Packed>> allocate(int64_t rows_n, int64_t cols_k) const override {
    if (rows_n <= 0 || cols_k <= 0) {
      return make_error(ErrorKind::kModel, "cannot pack an empty matrix: %lld x %lld", static_cast<long long>(rows_n),
                        static_cast<long long>(cols_k));
    }
    auto packed = std::make_unique<Bf16Panels>();
    packed->rows = rows_n;
    packed->cols = cols_k;
    packed->bytes = packed_bytes(rows_n, cols_k);
    EI_ASSIGN_OR_RETURN(packed->memory, allocate_host(packed->bytes));
    return std::unique_ptr<Packed>(std::move(packed));
  }

  void repack(Packed& base, int64_t begin, int64_t end, const RowSource& source) const override {
    const auto& packed = static_cast<const Bf16Panels&>(base);
    EI_CHECK_EQ(begin % kernel_.column_panel, 0);
    EI_CHECK(end <= packed.rows && (end == packed.rows || end % kernel_.column_panel == 0));
    std::vector<float> rows(static_cast<size_t>(kRowsAtOnce * packed.cols));
    for (int64_t first = begin; first < end; first += kRowsAtOnce) {
      const int64_t last = std::min(first + kRowsAtOnce, end);
      source(first, last, rows.data());
      for (int64_t row = first; row < last; row += kernel_.column_panel) {
        kernel_.pack_columns(rows.data() + (row - first) * packed.cols, packed.cols,
                             std::min(kernel_.column_panel, last - row), packed.cols,
                             packed.panels() + row * kernel_.depth(packed.cols));
      }
    }
  }

  size_t scratch_bytes(const Packed& packed, int64_t m, int) const override {
    return static_cast<size_t>(kernel_.packed_rows(m, packed.cols)) * sizeof(uint16_t);
  }

  void prepare(const Product& product, WorkQueue& queue) const override {
    kernels::gemm_pack(kernel_, product.x, static_cast<uint16_t*>(product.scratch), queue);
  }

  void multiply(const Product& product, Worker, WorkQueue& queue) const override {
    kernels::gemm(kernel_,
                  {.x = static_cast<const uint16_t*>(product.scratch),
                   .w = static_cast<const Bf16Panels&>(product.weight).panels(),
                   .k = product.x.cols,
                   .y = product.y},
                  queue);
  }

 private:
  const kernels::GemmKernel& kernel_;
};

}  // namespace

bool bf16_matmul_fast(std::string_view isa) { return kernels::choose_gemm(isa) != nullptr; }

Result<std::unique_ptr<DenseProvider>> create_bf16_matmul(std::string_view isa) {
  const kernels::GemmKernel* kernel = kernels::choose_gemm(isa);
  if (kernel == nullptr) {
    return make_error(
        ErrorKind::kUsage,
        "EI_DENSE=bf16: this CPU (or EI_CPU_ISA) multiplies no bf16 (BFMMLA, AMX-BF16, AVX512-BF16), nor fp16 "
        "vectors (ARMv8.2), nor bytes (AVX512-VNNI)");
  }
  return std::unique_ptr<DenseProvider>(std::make_unique<Bf16Matmul>(*kernel));
}

}  // namespace ei
