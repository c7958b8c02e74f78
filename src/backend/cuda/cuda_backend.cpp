#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/cuda_weight.h"
#include "kernels/block_scores/cuda/rating_cuda.h"
#include "kernels/pages/cuda/device_pages.h"
#include "kernels/window_scores/cuda/sum_scores_cuda.h"

namespace ei {
namespace {

using kernels::cuda::DevicePages;

// What a prompt's products read (BackendOptions::dense).
enum class PromptWeights : uint8_t {
  kDecoded,  // bf16, held beside the file's codes
  kFp8,      // 8 bits, as well
  kCodes,    // the file's codes alone, decoded for every product: the least memory
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<CudaDevice> device, PromptWeights prompts)
      : device_(std::move(device)), prompts_(prompts) {}

  std::string_view name() const override { return "cuda"; }
  std::string describe(DType key_type, DType value_type, std::span<const HostTensor> matrices) const override {
    const DevicePages pages = pages_of({128, 128, host_type(key_type), host_type(value_type)});
    const char* attention = !pages.blocked                                                 ? "plain"
                            : device_->traits().set == kernels::cuda::KernelSet::kPortable ? "portable"
                                                                                           : "hopper";
    const char* products = matrix_type(matrices) == DType::kF32 ? "f32"
                           : prompts_ == PromptWeights::kFp8    ? "fp8"
                           : prompts_ == PromptWeights::kCodes  ? "bf16, decoded for each"
                                                                : "bf16";
    return str_format("cuda: %s (%lld MiB), attention %s over %s and %s, products in %s", device_->name().c_str(),
                      static_cast<long long>(device_->total_bytes() >> 20), attention, dtype_name(key_type),
                      dtype_name(value_type), products);
  }
  DType default_kv_type() const override { return DType::kBF16; }
  Status takes_cache(DType key_type, DType value_type, int32_t head_dim) const override {
    if (key_type != DType::kF8 && value_type != DType::kF8) return {};
    if (key_type != value_type)
      return Error{ErrorKind::kUsage, "in fp8 are both keys and values or neither; give -ctk fp8 and -ctv fp8"};
    if (head_dim % kernels::cuda::Fp8Layout::kPiece == 0) return {};
    return make_error(ErrorKind::kUsage,
                      "a cache in fp8 needs heads of a multiple of %d elements, this model's have %d",
                      kernels::cuda::Fp8Layout::kPiece, head_dim);
  }
  int64_t layer_room(DType key_type, int64_t row, int64_t tokens) const override {
    return key_type == DType::kF8 ? 2 * tokens * row * static_cast<int64_t>(dtype_bytes(host_type(key_type))) : 0;
  }
  int64_t preferred_chunk() const override { return 4096; }
  bool scores_rows() const override { return false; }
  // Products of 8 bits take less than those with the weights, rounding the keys and reading the peaks again as much
  // more.
  double rating_cost() const override { return 1.5; }
  int64_t stream_room(const PromptShape& shape) const override {
    return CudaStream::room(shape, prompts_ == PromptWeights::kFp8, decoded_);
  }
  int64_t taken_bytes(int64_t bytes) const override {
    constexpr int64_t kPiece = int64_t{2} << 20;
    return (bytes + kPiece - 1) / kPiece * kPiece;
  }
  kernels::KeyIndexBytes key_index_bytes(const kernels::KeyIndexShape& shape, int64_t tokens,
                                         int64_t segments) const override {
    const DevicePages pages = pages_of({128, shape.head_dim, shape.key_type, shape.key_type});
    const int64_t supers = kernels::cuda::index_supers({.shape = shape, .kept_tokens = tokens});
    const bool rounded = kernels::cuda::rates_rounded(pages, shape.grid);
    return {.kept = shape.kv_heads * kernels::cuda::super_index_bytes(pages, supers),
            .passing = rounded ? kernels::cuda::RoundedKeys::bytes(shape, tokens) : 0,
            .working = kernels::cuda::rating_estimate(device_->traits(), pages, shape, tokens, segments)};
  }
  int64_t free_memory() const override { return free_device_bytes(); }

  Result<Buffer> allocate(size_t bytes) const override { return allocate_device(bytes); }
  Status copy_in(void* to, const void* from, size_t bytes) const override {
    return copy_and_wait(to, from, bytes, cudaMemcpyHostToDevice);
  }
  Status copy_out(void* to, const void* from, size_t bytes) const override {
    return copy_and_wait(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    return copy_and_wait(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void discard(void*, size_t) const override {}  // memory goes back with its slab

  KvPageLayout page_layout(const KvPageShape& shape) const override {
    const DevicePages pages = pages_of(shape);
    if (pages.narrow())
      return {.values_at = 0,
              .bytes = static_cast<size_t>(pages.codes().page_bytes(shape.slots)),
              .multiple = kernels::cuda::Fp8Layout::kPageMultiple};
    if (!pages.blocked) return plain_page(shape);
    return {.values_at = 0, .bytes = static_cast<size_t>(pages.layout().page_bytes(shape.slots))};
  }
  Status move_slots(const KvPageShape& shape, std::span<const KvMove> moves) const override {
    std::vector<kernels::cuda::PageMove> list;
    list.reserve(moves.size());
    for (const KvMove& move : moves) list.push_back({move.from, move.to, move.from_slot, move.to_slot, move.count});
    EI_RETURN_IF_ERROR(kernels::cuda::launch_move_slots(pages_of(shape), list, cudaStreamPerThread));
    return kernels::cuda::cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "moving slots");
  }
  Status keep_sums(const KeptSums& kept) const override {
    if (kept.keep.empty()) return {};
    const Result<Buffer> places = allocate_device(kept.keep.size_bytes());
    if (!places.ok()) return Backend::keep_sums(kept);  // slots have moved: sums must
    EI_RETURN_IF_ERROR(copy_in(places->data(), kept.keep.data(), kept.keep.size_bytes()));
    const kernels::cuda::KeepSums keep{.sums = kept.sums,
                                       .room = kept.room,
                                       .keep = static_cast<const int32_t*>(places->data()),
                                       .count = static_cast<int64_t>(kept.keep.size()),
                                       .rows = kept.rows,
                                       .stride = kept.stride};
    EI_RETURN_IF_ERROR(kernels::cuda::launch_keep_sums(keep, cudaStreamPerThread));
    return kernels::cuda::cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "moving sums");
  }
  Status read_slots(const KvPageShape& shape, const void* page, int64_t count, void* keys,
                    void* values) const override {
    const DevicePages pages = pages_of(shape);
    if (!pages.narrow() && !pages.blocked) return Backend::read_slots(shape, page, count, keys, values);
    std::vector<std::byte> bytes(bytes_of(pages, count));
    EI_RETURN_IF_ERROR(copy_out(bytes.data(), page, bytes.size()));
    if (pages.narrow()) {
      if (keys != nullptr) kernels::cuda::gather_fp8_rows(pages.codes(), bytes.data(), count, false, keys);
      if (values != nullptr) kernels::cuda::gather_fp8_rows(pages.codes(), bytes.data(), count, true, values);
      return {};
    }
    if (keys != nullptr) kernels::cuda::gather_rows(pages.layout(), bytes.data(), count, false, keys);
    if (values != nullptr) kernels::cuda::gather_rows(pages.layout(), bytes.data(), count, true, values);
    return {};
  }
  Status write_slots(const KvPageShape& shape, void* page, int64_t count, const void* keys,
                     const void* values) const override {
    const DevicePages pages = pages_of(shape);
    if (!pages.narrow() && !pages.blocked) return Backend::write_slots(shape, page, count, keys, values);
    std::vector<std::byte> bytes(bytes_of(pages, count));
    EI_RETURN_IF_ERROR(copy_out(bytes.data(), page, bytes.size()));  // what is not written stays
    if (pages.narrow()) {
      if (keys != nullptr) kernels::cuda::scatter_fp8_rows(pages.codes(), keys, count, false, bytes.data());
      if (values != nullptr) kernels::cuda::scatter_fp8_rows(pages.codes(), values, count, true, bytes.data());
      return copy_in(page, bytes.data(), bytes.size());
    }
    if (keys != nullptr) kernels::cuda::scatter_rows(pages.layout(), keys, count, false, bytes.data());
    if (values != nullptr) kernels::cuda::scatter_rows(pages.layout(), values, count, true, bytes.data());
    return copy_in(page, bytes.data(), bytes.size());
  }

  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts, MatrixUse use) const override {
    if (matrix_type(parts) == DType::kF32) wide_ = true;
    if (prompts_ == PromptWeights::kCodes) note_decoded(parts);
    EI_ASSIGN_OR_RETURN(std::unique_ptr<CudaWeight> weight, loader_.matrix(parts, forms_of_matrices()));
    weight->activated = use == MatrixUse::kActivated;
    if (prompts_ == PromptWeights::kFp8 && use != MatrixUse::kFewRows)
      EI_RETURN_IF_ERROR(CudaWeightLoader::add_fp8(*weight));
    return std::unique_ptr<Weight>(std::move(weight));
  }
  int64_t packed_bytes(std::span<const HostTensor>) const override { return 0; }
  Result<std::unique_ptr<Weight>> load_table(const HostTensor& table) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, loader_.matrix({&table, 1}, CudaWeightLoader::Forms::kDecoded));
    return weight;
  }
  Result<std::unique_ptr<Weight>> load_vector(std::span<const HostTensor> parts) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Weight> weight, loader_.vector(parts));
    return weight;
  }
  int64_t held_bytes(const HostTensor& tensor) const override {
    const int64_t codes = code_bytes(tensor);
    if (prompts_ == PromptWeights::kCodes && codes > 0) return codes;
    const auto element = static_cast<int64_t>(dtype_bytes(matrix_type({&tensor, 1})));
    const bool fp8 = prompts_ == PromptWeights::kFp8;
    const int64_t narrow = fp8 ? kernels::cuda::fp8_bytes(tensor.rows, tensor.cols) : 0;
    return tensor.rows * tensor.cols * element + codes + narrow;
  }

  Result<std::unique_ptr<Stream>> new_stream(const CancelToken* cancel) const override {
    EI_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, CudaStream::create(*device_, !wide_, cancel));
    return stream;
  }

 private:
  DevicePages pages_of(const KvPageShape& shape) const {
    return DevicePages::of(shape, blocked_pages(*device_, shape));
  }
  // Of the blocks that hold the first `count` slots.
  static size_t bytes_of(const DevicePages& pages, int64_t count) {
    const int64_t whole =
        (count + kernels::cuda::kBlockKeys - 1) / kernels::cuda::kBlockKeys * kernels::cuda::kBlockKeys;
    return static_cast<size_t>(pages.narrow() ? pages.codes().page_bytes(whole) : pages.layout().page_bytes(whole));
  }

  CudaWeightLoader::Forms forms_of_matrices() const {
    return prompts_ == PromptWeights::kCodes ? CudaWeightLoader::Forms::kCodes : CudaWeightLoader::Forms::kBoth;
  }

  // Larger ones are decoded piece by piece.
  void note_decoded(std::span<const HostTensor> parts) const {
    int64_t bytes = 0;
    for (const HostTensor& part : parts) bytes += part.rows * part.cols * static_cast<int64_t>(sizeof(uint16_t));
    decoded_ = std::max(decoded_.load(), std::min(bytes, CudaStream::kDecodedBytes));
  }

  std::unique_ptr<CudaDevice> device_;
  const PromptWeights prompts_;
  mutable CudaWeightLoader loader_;
  mutable std::atomic<int64_t> decoded_ = 0;  // of the largest matrix that prompts decode
  mutable std::atomic<bool> wide_ = false;    // a matrix in f32: products want f32 activations
};

}  // namespace

Status find_cuda_device() {
  EI_RETURN_IF_ERROR(CudaDevice::create());
  return {};
}

Result<std::unique_ptr<Backend>> create_cuda_backend(const BackendOptions& options) {
  EI_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::create(options.isa));
  const bool fp8 = options.dense == "fp8";
  const auto prompts = fp8                        ? PromptWeights::kFp8
                       : options.dense == "codes" ? PromptWeights::kCodes
                                                  : PromptWeights::kDecoded;
  constexpr int kHopper = 90;  // scales of rows are given to products there
  if (fp8 && device->traits().capability != kHopper)
    return make_error(ErrorKind::kDevice, "EI_DENSE=fp8 needs a GPU of compute capability 9.0, '%s' has %d.%d",
                      device->name().c_str(), device->traits().capability / 10, device->traits().capability % 10);
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(std::move(device), prompts));
}

}  // namespace ei
