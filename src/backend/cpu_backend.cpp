#include "backend/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backend/cpu_stream.h"
#include "backend/cpu_weight.h"
#include "backend/ggml_device.h"
#include "backend/ggml_stream.h"
#include "backend/host_memory.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/units.h"
#include "kernels/simd/cpu_target.h"

namespace ei {

namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(std::unique_ptr<GgmlDevice> device, std::unique_ptr<DenseProvider> dense, BackendOptions options)
      : device_(std::move(device)),
        dense_(std::move(dense)),
        options_(std::move(options)),
        packed_left_(options_.packed_budget >= 0 ? options_.packed_budget : available_memory_bytes() / 2) {}

  std::string_view name() const override { return "cpu"; }

  std::string describe(DType key_type, DType value_type, std::span<const HostTensor> matrices) const override {
    const std::string attention(kernels::choose_attention(key_type, value_type, options_.isa)->name);
    std::string dense = "ggml";
    if (std::any_of(matrices.begin(), matrices.end(), [&](const HostTensor& one) { return goes_dense({&one, 1}); })) {
      const std::lock_guard<std::mutex> lock(mutex_);
      dense = dense_->describe() + " in " + std::string(dense_->numbers()) + " for prompts";
      if (packed_bytes_ + unpacked_bytes_ > 0) {
        dense += str_format(" (%lld MiB packed, %lld MiB of weights unpacked per chunk)",
                            static_cast<long long>(packed_bytes_ >> 20), static_cast<long long>(unpacked_bytes_ >> 20));
      }
      dense += ", ggml for generation";
    }
    return str_format("cpu: %s, attention %s, dense maths %s", counted(device_->threads(), "thread").c_str(),
                      attention.c_str(), dense.c_str());
  }

  int64_t preferred_chunk() const override { return 1024; }
  bool decodes_together() const override { return true; }

  // bf16 where the faster variant multiplies it as it is; f16 keeps more bits everywhere else.
  DType default_kv_type() const override {
    const kernels::AttentionVariant* of_bf16 = kernels::choose_attention(DType::kBF16, DType::kBF16, options_.isa);
    for (const kernels::AttentionVariant* variant : kernels::attention_variants()) {
      if (variant == kernels::choose_attention(DType::kF16, DType::kF16, options_.isa)) return DType::kF16;
      if (variant == of_bf16) return DType::kBF16;
    }
    return DType::kF16;
  }
  bool holds_q8() const override { return true; }

  Result<Buffer> allocate(size_t bytes) const override { return allocate_host(bytes); }
  Status copy_in(void* to, const void* from, size_t bytes) const override { return copy_within(to, from, bytes); }
  Status copy_out(void* to, const void* from, size_t bytes) const override { return copy_within(to, from, bytes); }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
    return {};
  }
  void discard(void* data, size_t bytes) const override { discard_host(data, bytes); }

  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts, MatrixUse use) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<CpuWeight> weight, load_cpu_matrix(*device_, parts, Stacking::kStacked));
    weight->few = few_rows_form(*device_, *weight, parts);
    if (use != MatrixUse::kFewRows && goes_dense(parts)) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const int64_t before = packed_left_;
      EI_RETURN_IF_ERROR(prepare_dense(*dense_, parts, packed_left_, *weight));
      packed_bytes_ += before - packed_left_;
      if (weight->unpack) unpacked_bytes_ += 2 * weight->rows * weight->cols;
    }
    return std::unique_ptr<Weight>(std::move(weight));
  }
  int64_t packed_bytes(std::span<const HostTensor> matrices) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t total = 0;
    for (const HostTensor& matrix : matrices) {
      if (!goes_dense({&matrix, 1})) continue;
      const auto bytes = static_cast<int64_t>(dense_->packed_bytes(matrix.rows, matrix.cols));
      if (total + bytes <= packed_left_) total += bytes;
    }
    return total;
  }
  Result<std::unique_ptr<Weight>> load_table(const HostTensor& table) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, load_cpu_table(table));
    return weight;
  }
  Result<std::unique_ptr<Weight>> load_vector(std::span<const HostTensor> parts) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, load_cpu_vector(parts));
    return weight;
  }

  Result<std::unique_ptr<Stream>> new_stream(const CancelToken* cancel) const override {
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>(*device_, dense_.get(), options_.isa, cancel));
  }

 protected:
  GgmlDevice& device() const { return *device_; }
  const std::string& isa() const { return options_.isa; }

 private:
  // Whoever keeps weights in f32 wants more than bf16's eight bits; only a forced choice rounds them. Blocks of eight
  // bits are for quantised weights, which ggml multiplies so as well.
  bool goes_dense(std::span<const HostTensor> parts) const {
    if (dense_ == nullptr) return false;
    if (dense_->numbers() == "int8")
      return std::all_of(parts.begin(), parts.end(),
                         [](const HostTensor& part) { return ggml_is_quantized(static_cast<ggml_type>(part.type)); });
    return !options_.dense.empty() ||
           std::none_of(parts.begin(), parts.end(), [](const HostTensor& part) { return part.type == GGML_TYPE_F32; });
  }

  std::unique_ptr<GgmlDevice> device_;
  std::unique_ptr<const DenseProvider> dense_;  // null: ggml does all products
  const BackendOptions options_;
  mutable std::mutex mutex_;  // guards what follows, while weights are loaded
  mutable int64_t packed_left_ = 0;
  mutable int64_t packed_bytes_ = 0;
  mutable int64_t unpacked_bytes_ = 0;
};

// The same memory and weights; every step by ggml (ggml_stream.h), with libllama's cache type and batch.
class GgmlBackend : public CpuBackend {
 public:
  GgmlBackend(std::unique_ptr<GgmlDevice> device, BackendOptions options)
      : CpuBackend(std::move(device), nullptr, std::move(options)) {}
  std::string_view name() const override { return "ggml"; }
  std::string describe(DType, DType, std::span<const HostTensor>) const override {
    return "ggml: " + counted(device().threads(), "thread") +
           ", every step as libllama computes it without flash attention";
  }
  int64_t preferred_chunk() const override { return 512; }
  bool decodes_together() const override { return false; }  // ggml rounds by the number of rows
  DType default_kv_type() const override { return DType::kF16; }
  bool holds_q8() const override { return false; }
  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts, MatrixUse) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, load_cpu_matrix(device(), parts, Stacking::kApart));
    return weight;
  }
  Result<std::unique_ptr<Stream>> new_stream(const CancelToken* cancel) const override {
    return std::unique_ptr<Stream>(std::make_unique<GgmlStream>(device(), isa(), cancel));
  }
};

Status check_isa(const BackendOptions& options) {
  if (kernels::choose_attention(DType::kF32, DType::kF32, options.isa) != nullptr) return {};
  std::string known;
  for (const kernels::AttentionVariant* variant : kernels::attention_variants()) {
    known += (known.empty() ? "" : ", ") + std::string(variant->name);
  }
  return make_error(ErrorKind::kUsage, "unknown EI_CPU_ISA '%s'; this build has: %s", options.isa.c_str(),
                    known.c_str());
}

// ggml's kernels are the target's, whatever the CPU: a lesser one would end in an illegal instruction.
Status check_target() {
  if (kernels::cpu_meets_target()) return {};
  return make_error(ErrorKind::kDevice,
                    "this program was built for %s (EI_CPU_TARGET), and this CPU lacks its instructions",
                    std::string(kernels::cpu_target()).c_str());
}

int threads_of(const BackendOptions& options) { return options.threads > 0 ? options.threads : usable_cores(); }

}  // namespace

Result<std::unique_ptr<Backend>> create_cpu_backend(const BackendOptions& options) {
  EI_RETURN_IF_ERROR(check_target());
  EI_RETURN_IF_ERROR(check_isa(options));
  EI_ASSIGN_OR_RETURN(auto dense, create_dense_provider(options.dense, options.isa));
  EI_ASSIGN_OR_RETURN(auto device, GgmlDevice::create(threads_of(options), options.prompt_threads));
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(std::move(device), std::move(dense), options));
}

Result<std::unique_ptr<Backend>> create_ggml_backend(const BackendOptions& options) {
  EI_RETURN_IF_ERROR(check_target());
  EI_RETURN_IF_ERROR(check_isa(options));
  EI_ASSIGN_OR_RETURN(auto device, GgmlDevice::create(threads_of(options), options.prompt_threads));
  return std::unique_ptr<Backend>(std::make_unique<GgmlBackend>(std::move(device), options));
}

}  // namespace ei
