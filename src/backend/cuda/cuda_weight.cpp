#include "backend/cuda/cuda_weight.h"

#include <ggml.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/cuda_grids.h"
#include "kernels/products/cuda/dequantise_cuda.h"

namespace ei {

using kernels::cuda::cuda_status;
using kernels::cuda::DeviceCodes;
using kernels::cuda::FileType;

namespace {

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

int64_t bytes_of(const DeviceCodes& codes) {
  const int64_t weights = codes.rows * codes.cols;
  return aligned(codes.form.code_bytes(weights)) + aligned(codes.form.scale_bytes(weights));
}

// Room for the codes of all parts, or of none: where the memory is not there, generation reads bf16. Says where those
// of each part go.
std::vector<DeviceCodes> place_codes(std::span<const HostTensor> parts, CudaWeight& weight) {
  std::vector<DeviceCodes> whole;  // neighbours of one form together
  int64_t bytes = 0;
  for (const HostTensor& part : parts) {
    if (code_bytes(part) == 0) return {};
    const kernels::cuda::CodeForm form = kernels::cuda::code_form(part.type);
    if (whole.empty() || whole.back().form.codes != form.codes || whole.back().form.block != form.block)
      whole.push_back({.form = form, .cols = part.cols});
    whole.back().rows += part.rows;
  }
  for (const DeviceCodes& codes : whole) bytes += bytes_of(codes);
  Result<Buffer> memory = allocate_device(static_cast<size_t>(bytes));
  if (!memory.ok()) return {};
  weight.code_memory = std::move(memory).value();
  auto* at = static_cast<std::byte*>(weight.code_memory.data());
  for (DeviceCodes& codes : whole) {
    codes.codes = at;
    codes.scales = at + aligned(codes.form.code_bytes(codes.rows * codes.cols));
    at += bytes_of(codes);
  }
  weight.codes = whole;
  std::vector<DeviceCodes> of_parts;
  auto of = whole.begin();
  int64_t row = 0;
  for (const HostTensor& part : parts) {
    if (row == of->rows) {
      ++of;
      row = 0;
    }
    DeviceCodes codes = *of;
    codes.rows = part.rows;
    codes.codes = static_cast<std::byte*>(of->codes) + of->form.code_bytes(row * of->cols);
    codes.scales = static_cast<std::byte*>(of->scales) + of->form.scale_bytes(row * of->cols);
    of_parts.push_back(codes);
    row += part.rows;
  }
  return of_parts;
}

}  // namespace

int64_t code_bytes(const HostTensor& tensor) {
  const kernels::cuda::CodeForm form = kernels::cuda::code_form(tensor.type);
  if (tensor.scale != 1 || !kernels::cuda::matvec_takes(form, tensor.cols)) return 0;
  const int64_t weights = tensor.rows * tensor.cols;
  return aligned(form.code_bytes(weights)) + aligned(form.scale_bytes(weights));
}

DType matrix_type(std::span<const HostTensor> parts) {
  const bool wide =
      std::any_of(parts.begin(), parts.end(), [](const HostTensor& part) { return part.type == GGML_TYPE_F32; });
  return wide ? DType::kF32 : DType::kBF16;
}

Result<CudaWeightLoader::Slice*> CudaWeightLoader::next_slice() {
  Slice& slice = slices_[next_];
  next_ = (next_ + 1) % slices_.size();
  if (slice.sent == nullptr) {
    EI_ASSIGN_OR_RETURN(slice.pinned, allocate_pinned(kSliceBytes));
    EI_ASSIGN_OR_RETURN(slice.device, allocate_device(kSliceBytes));
    EI_RETURN_IF_ERROR(cuda_status(cudaEventCreateWithFlags(&slice.sent, cudaEventDisableTiming), "loading weights"));
  }
  EI_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(slice.sent), "loading weights"));
  return &slice;
}

Result<FileType> CudaWeightLoader::file_type(uint32_t ggml_type) {
  Buffer& memory = grids_[ggml_type];
  if (memory.bytes() == 0) {
    const std::vector<int8_t> grid = weight_grid(ggml_type);
    if (grid.empty()) return FileType{ggml_type};
    EI_ASSIGN_OR_RETURN(Buffer made, allocate_device(grid.size()));
    EI_RETURN_IF_ERROR(
        cuda_status(cudaMemcpyAsync(made.data(), grid.data(), grid.size(), cudaMemcpyHostToDevice, cudaStreamPerThread),
                    "loading weights"));
    EI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "loading weights"));
    memory = std::move(made);
  }
  return FileType{ggml_type, static_cast<const int8_t*>(memory.data())};
}

Status CudaWeightLoader::send(const HostTensor& part, DType type, std::byte* to, const DeviceCodes* codes) {
  const auto ggml_id = static_cast<ggml_type>(part.type);
  const bool there = kernels::cuda::dequantises(part.type);
  const ggml_to_float_t to_float = ggml_get_type_traits(ggml_id)->to_float;
  if (!there && to_float == nullptr) {
    return make_error(ErrorKind::kModel, "tensor '%s' has a type that cannot be read as numbers",
                      std::string(part.name).c_str());
  }
  EI_ASSIGN_OR_RETURN(const FileType type_sent, file_type(there ? part.type : static_cast<uint32_t>(GGML_TYPE_F32)));
  // Slices are of whole blocks, not of whole rows: a row may be of any size.
  const int64_t block = ggml_blck_size(ggml_id);
  const auto block_bytes = static_cast<int64_t>(ggml_type_size(ggml_id));
  const int64_t blocks = part.rows * part.cols / block;
  const int64_t sent_bytes = there ? block_bytes : block * static_cast<int64_t>(sizeof(float));
  const int64_t at_once = static_cast<int64_t>(kSliceBytes) / sent_bytes;
  for (int64_t first = 0; first < blocks; first += at_once) {
    const int64_t count = std::min(at_once, blocks - first);
    EI_ASSIGN_OR_RETURN(Slice * slice, next_slice());
    const auto* from = static_cast<const std::byte*>(part.data) + first * block_bytes;
    const auto bytes = static_cast<size_t>(count * sent_bytes);
    if (there) {
      std::memcpy(slice->pinned.data(), from, bytes);
    } else {
      to_float(from, static_cast<float*>(slice->pinned.data()), count * block);
    }
    EI_RETURN_IF_ERROR(cuda_status(
        cudaMemcpyAsync(slice->device.data(), slice->pinned.data(), bytes, cudaMemcpyHostToDevice, cudaStreamPerThread),
        "loading weights"));
    if (to != nullptr) {
      EI_RETURN_IF_ERROR(kernels::cuda::launch_dequantise(
          type_sent, slice->device.data(), count * block, part.scale, type,
          to + static_cast<size_t>(first * block) * dtype_bytes(type), cudaStreamPerThread));
    }
    if (codes != nullptr) {
      EI_RETURN_IF_ERROR(kernels::cuda::launch_split_codes(type_sent, slice->device.data(), first * block,
                                                           count * block, *codes, cudaStreamPerThread));
    }
    EI_RETURN_IF_ERROR(cuda_status(cudaEventRecord(slice->sent, cudaStreamPerThread), "loading weights"));
  }
  return {};
}

Result<std::unique_ptr<CudaWeight>> CudaWeightLoader::matrix(std::span<const HostTensor> parts, Forms forms) {
  const std::scoped_lock lock(mutex_);
  auto weight = std::make_unique<CudaWeight>();
  weight->type = matrix_type(parts);
  weight->cols = parts.front().cols;
  for (const HostTensor& part : parts) weight->rows += part.rows;
  std::vector<DeviceCodes> codes;
  if (forms != Forms::kDecoded) codes = place_codes(parts, *weight);
  const bool alone = parts.size() == 1 && parts.front().scale == 1;
  if (alone) weight->memory = held_[parts.front().data].lock();
  const bool there = weight->memory != nullptr;
  if (there && codes.empty()) return weight;
  if (!there && (codes.empty() || forms != Forms::kCodes)) {
    const auto bytes = static_cast<size_t>(weight->rows * weight->cols) * dtype_bytes(weight->type);
    EI_ASSIGN_OR_RETURN(Buffer memory, allocate_device(bytes));
    weight->memory = std::make_shared<const Buffer>(std::move(memory));
    if (alone) held_[parts.front().data] = weight->memory;
  }
  // What is there already is written once more.
  auto* to = weight->memory != nullptr ? static_cast<std::byte*>(weight->memory->data()) : nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    const HostTensor& part = parts[i];
    EI_RETURN_IF_ERROR(send(part, weight->type, to, codes.empty() ? nullptr : &codes[i]));
    if (to != nullptr) to += static_cast<size_t>(part.rows * part.cols) * dtype_bytes(weight->type);
  }
  EI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "loading weights"));
  return weight;
}

Status CudaWeightLoader::add_fp8(CudaWeight& weight) {
  if (weight.type != DType::kBF16 || weight.memory == nullptr || !kernels::cuda::fp8_takes(weight.cols)) return {};
  const auto bytes = static_cast<size_t>(kernels::cuda::fp8_bytes(weight.rows, weight.cols));
  EI_ASSIGN_OR_RETURN(weight.fp8_memory, allocate_device(bytes));
  EI_RETURN_IF_ERROR(kernels::cuda::launch_to_fp8(weight.device(), weight.fp8(), cudaStreamPerThread));
  return cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "loading weights");
}

Result<std::unique_ptr<CudaWeight>> CudaWeightLoader::vector(std::span<const HostTensor> parts) {
  const std::scoped_lock lock(mutex_);
  auto weight = std::make_unique<CudaWeight>();
  weight->type = DType::kF32;
  weight->rows = 1;
  for (const HostTensor& part : parts) weight->cols += part.rows * part.cols;
  EI_ASSIGN_OR_RETURN(Buffer memory, allocate_device(static_cast<size_t>(weight->cols) * sizeof(float)));
  auto* to = static_cast<std::byte*>(memory.data());
  for (const HostTensor& part : parts) {
    EI_RETURN_IF_ERROR(send(part, DType::kF32, to, nullptr));
    to += static_cast<size_t>(part.rows * part.cols) * sizeof(float);
  }
  EI_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "loading weights"));
  weight->memory = std::make_shared<const Buffer>(std::move(memory));
  return weight;
}

}  // namespace ei
