// A weight matrix on the CPU. For ggml: repacked where it has faster kernels for the type, otherwise read in place from
// the model file. For prompts through a dense provider also: a packed bf16 copy, or the means to unpack it per chunk.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/dense_provider.h"
#include "backend/ggml_device.h"
#include "kernels/products/few_rows.h"

namespace ei {

// Rows [first_row, first_row + rows) of the stacked matrix as one ggml tensor.
struct WeightPart {
  ggml_tensor* tensor = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
};

// The products of these rows are multiplied by `scale`.
struct ScaledRows {
  int64_t first_row = 0;
  int64_t rows = 0;
  float scale = 1;
};

// The rows of a stacked matrix as the model file has them, decoded on demand.
class FileRows {
 public:
  FileRows(std::span<const HostTensor> parts, const std::vector<WeightPart>& in_use);
  // Rows [begin, end) as floats, densely. Safe from several threads.
  void read(int64_t begin, int64_t end, float* to) const;
  // Gives the memory of these rows back where nothing but read() looks at the file.
  void release(int64_t begin, int64_t end) const;

 private:
  struct Part {
    HostTensor tensor;
    int64_t first_row = 0;
    bool released = false;
  };
  std::vector<Part> parts_;
};

struct CpuWeight : Weight {
  ~CpuWeight() override;
  std::vector<WeightPart> parts;                           // for matmul
  std::vector<ScaledRows> scaled;                          // behind it; empty for nearly all models
  kernels::FewRowsForm few = kernels::FewRowsForm::kNone;  // in a form that kernels/products/few_rows.h reads?
  std::vector<float> vector;                               // for norms and biases
  HostTensor table;                                        // for embed: rows stay in the model file
  std::unique_ptr<DenseProvider::Packed> packed;           // for prompts through a provider, when it fitted the budget
  std::optional<FileRows> unpack;                          // otherwise: its rows on demand; empty without a provider
  int64_t held_bytes = 0;                                  // memory beyond the model file's mapping
  ggml_context* context = nullptr;                         // owns the tensors' headers
  std::vector<std::shared_ptr<void>> buffers;              // own the repacked copies, some with other weights
};

// Parts of one type become one tensor with kStacked, and stay the tensors of the file, as libllama has them, without.
enum class Stacking : uint8_t { kStacked, kApart };
Result<std::unique_ptr<CpuWeight>> load_cpu_matrix(const GgmlDevice& device, std::span<const HostTensor> parts,
                                                   Stacking stacking);
// The form in which all of the weight's parts lie, or kNone.
kernels::FewRowsForm few_rows_form(const GgmlDevice& device, const CpuWeight& weight,
                                   std::span<const HostTensor> parts);
// Gives the weight its form for the provider: packed while `budget` bytes last (what it takes is subtracted), otherwise
// unpackable.
Status prepare_dense(const DenseProvider& provider, std::span<const HostTensor> parts, int64_t& budget,
                     CpuWeight& weight);
Result<std::unique_ptr<CpuWeight>> load_cpu_table(const HostTensor& table);
Result<std::unique_ptr<CpuWeight>> load_cpu_vector(std::span<const HostTensor> parts);

}  // namespace ei
