#include "backend/dense_provider.h"

#include <algorithm>
#include <array>

#include "backend/bf16_matmul.h"
#include "backend/onednn_matmul.h"

namespace ei {

Result<std::unique_ptr<DenseProvider::Packed>> DenseProvider::pack(int64_t rows_n, int64_t cols_k,
                                                                   const RowSource& source) const {
  EI_ASSIGN_OR_RETURN(auto packed, allocate(rows_n, cols_k));
  repack(*packed, 0, rows_n, source);
  return packed;
}

int64_t DenseProvider::slice_rows(int64_t rows_n, int64_t cols_k, int64_t whole) {
  constexpr int64_t kSliceWeights = int64_t{2} << 20;  // 4 MiB in bf16
  constexpr int64_t kMostSlices = 32;                  // two nodes of a graph each
  const int64_t wanted = std::clamp<int64_t>(rows_n * cols_k / kSliceWeights, 1, kMostSlices);
  // Equal slices share their memory, so a few less of them are as good.
  for (int64_t slices = wanted; slices > wanted / 2; --slices) {
    if (rows_n % (slices * whole) == 0) return rows_n / slices;
  }
  const int64_t rows = (rows_n + wanted - 1) / wanted;
  return std::min((rows + whole - 1) / whole * whole, rows_n);
}

void DenseProvider::prepare(const Product&, WorkQueue&) const {}

std::span<const DenseEntry> dense_providers() {
  static constexpr std::array<DenseEntry, 2> kProviders{{
      {"bf16", create_bf16_matmul, bf16_matmul_fast},
      {"onednn", create_onednn_matmul, onednn_matmul_fast},
  }};
  return kProviders;
}

Result<std::unique_ptr<DenseProvider>> create_dense_provider(std::string_view name, std::string_view isa) {
  if (name.empty()) name = bf16_matmul_fast(isa) ? "bf16" : "ggml";
  if (name == "ggml") return std::unique_ptr<DenseProvider>();
  std::string known = "ggml";
  for (const DenseEntry& entry : dense_providers()) {
    if (entry.name == name) return entry.create(isa);
    known += ", " + std::string(entry.name);
  }
  return make_error(ErrorKind::kUsage, "unknown EI_DENSE '%s' (known: %s)", std::string(name).c_str(), known.c_str());
}

}  // namespace ei
