#include "backend/cpu_backend.h"

#include <sched.h>

#include <cstring>
#include <thread>

#include "backend/cpu_stream.h"
#include "backend/cpu_weight.h"
#include "backend/ggml_device.h"
#include "backend/host_memory.h"

namespace ei {

namespace {

// The cores this process may use, which in a container is fewer than the machine has.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

class CpuBackend : public Backend {
 public:
  CpuBackend(std::unique_ptr<GgmlDevice> device, BackendOptions options)
      : device_(std::move(device)), options_(std::move(options)) {}

  std::string_view name() const override { return "cpu"; }

  std::string describe() const override {
    const DType type = default_kv_type();
    return str_format("cpu: %d threads, attention %s, dense maths ggml", device_->threads(),
                      std::string(kernels::choose_attention(type, type, options_.isa)->name).c_str());
  }

  // bf16 where a variant multiplies it as it is; f16 keeps more bits everywhere else.
  DType default_kv_type() const override {
    const std::string_view isa = kernels::choose_attention(DType::kBF16, DType::kBF16, options_.isa)->name;
    const std::string_view other = kernels::choose_attention(DType::kF16, DType::kF16, options_.isa)->name;
    return isa != other ? DType::kBF16 : DType::kF16;
  }

  Result<Buffer> allocate(size_t bytes) const override { return allocate_host(bytes); }
  Status copy_in(void* to, const void* from, size_t bytes) const override { return copy_within(to, from, bytes); }
  Status copy_out(void* to, const void* from, size_t bytes) const override { return copy_within(to, from, bytes); }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
    return {};
  }
  void discard(void* data, size_t bytes) const override { discard_host(data, bytes); }

  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, load_cpu_matrix(*device_, parts));
    return weight;
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
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>(*device_, options_.isa, cancel));
  }

 private:
  std::unique_ptr<GgmlDevice> device_;
  BackendOptions options_;
};

}  // namespace

Result<std::unique_ptr<Backend>> create_cpu_backend(const BackendOptions& options) {
  if (kernels::choose_attention(DType::kF32, DType::kF32, options.isa) == nullptr) {
    std::string known;
    for (const kernels::AttentionVariant* variant : kernels::attention_variants()) {
      known += (known.empty() ? "" : ", ") + std::string(variant->name);
    }
    return make_error(ErrorKind::kUsage, "unknown EI_CPU_ISA '%s'; this build has: %s", options.isa.c_str(),
                      known.c_str());
  }
  EI_ASSIGN_OR_RETURN(auto device, GgmlDevice::create(options.threads > 0 ? options.threads : usable_cores()));
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(std::move(device), options));
}

}  // namespace ei
