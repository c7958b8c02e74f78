#include "backend/cpu_weight.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ei {

namespace {

size_t row_bytes(const HostTensor& tensor) { return ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.cols); }

// The first parts that have one type, so that they can be stacked into one tensor.
std::span<const HostTensor> alike(std::span<const HostTensor> parts) {
  size_t count = 1;
  while (count < parts.size() && parts[count].type == parts[0].type) ++count;
  return parts.first(count);
}

int64_t rows_of(std::span<const HostTensor> parts) {
  int64_t rows = 0;
  for (const HostTensor& part : parts) rows += part.rows;
  return rows;
}

ggml_tensor* new_tensor(CpuWeight& weight, const HostTensor& like, int64_t rows) {
  return ggml_new_tensor_2d(weight.context, static_cast<ggml_type>(like.type), like.cols, rows);
}

// Copies the stacked rows into ggml's repacked form, as rows `first_row`... of the weight. False when the memory is not
// there.
bool repack(CpuWeight& weight, std::span<const HostTensor> parts, int64_t first_row, ggml_backend_buffer_type_t type) {
  ggml_tensor* tensor = new_tensor(weight, parts.front(), rows_of(parts));
  const size_t bytes = ggml_backend_buft_get_alloc_size(type, tensor);
  ggml_backend_buffer_t buffer = GgmlDevice::allocate(type, bytes);
  if (buffer == nullptr) return false;
  weight.buffers.push_back(buffer);
  if (ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer)) != GGML_STATUS_SUCCESS) {
    return false;
  }
  if (parts.size() == 1) {
    if (!GgmlDevice::fill(tensor, parts.front().data)) return false;
  } else {
    std::vector<std::byte> stacked(ggml_nbytes(tensor));
    size_t offset = 0;
    for (const HostTensor& part : parts) {
      const size_t part_bytes = row_bytes(part) * static_cast<size_t>(part.rows);
      std::memcpy(stacked.data() + offset, part.data, part_bytes);
      offset += part_bytes;
    }
    EI_CHECK_EQ(offset, stacked.size());
    if (!GgmlDevice::fill(tensor, stacked.data())) return false;
  }
  weight.parts.push_back({tensor, first_row, tensor->ne[1]});
  weight.held_bytes += static_cast<int64_t>(bytes);
  return true;
}

}  // namespace

CpuWeight::~CpuWeight() {
  for (ggml_backend_buffer_t buffer : buffers) ggml_backend_buffer_free(buffer);
  if (context != nullptr) ggml_free(context);
}

Result<std::unique_ptr<CpuWeight>> load_cpu_matrix(const GgmlDevice& device, std::span<const HostTensor> parts,
                                                   Stacking stacking) {
  auto weight = std::make_unique<CpuWeight>();
  weight->cols = parts.front().cols;
  weight->rows = rows_of(parts);
  weight->context = ggml_init({ggml_tensor_overhead() * (parts.size() + 1), nullptr, /*no_alloc=*/true});
  int64_t first_row = 0;
  while (!parts.empty()) {
    const std::span<const HostTensor> stack = stacking == Stacking::kStacked ? alike(parts) : parts.first(1);
    const auto type = static_cast<ggml_type>(stack.front().type);
    if (ggml_backend_buffer_type_t repacked = device.repacked_type(type, rows_of(stack), weight->cols)) {
      if (!repack(*weight, stack, first_row, repacked)) {
        return make_error(ErrorKind::kMemory, "out of memory for the weights (at tensor '%s')",
                          std::string(stack.front().name).c_str());
      }
      first_row += rows_of(stack);
    } else {
      for (const HostTensor& part : stack) {
        ggml_tensor* tensor = new_tensor(*weight, part, part.rows);
        tensor->data = const_cast<void*>(part.data);
        weight->parts.push_back({tensor, first_row, part.rows});
        first_row += part.rows;
      }
    }
    parts = parts.subspan(stack.size());
  }
  return weight;
}

Status prepare_dense(const DenseProvider& provider, std::span<const HostTensor> parts, int64_t& budget,
                     CpuWeight& weight) {
  DenseProvider::RowSource rows = [sources = std::vector<HostTensor>(parts.begin(), parts.end())](
                                      int64_t begin, int64_t end, float* to) {
    int64_t first = 0;
    for (const HostTensor& part : sources) {
      const int64_t from = std::max(begin, first);
      const int64_t until = std::min(end, first + part.rows);
      const ggml_to_float_t to_float = ggml_get_type_traits(static_cast<ggml_type>(part.type))->to_float;
      for (int64_t row = from; row < until; ++row) {
        const auto* data =
            static_cast<const std::byte*>(part.data) + row_bytes(part) * static_cast<size_t>(row - first);
        float* out = to + (row - begin) * part.cols;
        if (part.type == GGML_TYPE_F32) {
          std::memcpy(out, data, row_bytes(part));
        } else {
          to_float(data, out, part.cols);
        }
      }
      first += part.rows;
    }
  };
  const auto bytes = static_cast<int64_t>(provider.packed_bytes(weight.rows, weight.cols));
  if (bytes > budget) {
    weight.unpack = std::move(rows);
    return {};
  }
  EI_ASSIGN_OR_RETURN(weight.packed, provider.pack(weight.rows, weight.cols, rows));
  weight.held_bytes += bytes;
  budget -= bytes;
  return {};
}

Result<std::unique_ptr<CpuWeight>> load_cpu_table(const HostTensor& table) {
  auto weight = std::make_unique<CpuWeight>();
  weight->rows = table.rows;
  weight->cols = table.cols;
  weight->table = table;
  return weight;
}

Result<std::unique_ptr<CpuWeight>> load_cpu_vector(std::span<const HostTensor> parts) {
  auto weight = std::make_unique<CpuWeight>();
  weight->rows = 1;
  for (const HostTensor& part : parts) {
    const auto old = weight->vector.size();
    const auto count = static_cast<size_t>(part.rows * part.cols);
    weight->vector.resize(old + count);
    if (part.type == GGML_TYPE_F32) {
      std::memcpy(weight->vector.data() + old, part.data, count * sizeof(float));
    } else {
      const ggml_to_float_t to_float = ggml_get_type_traits(static_cast<ggml_type>(part.type))->to_float;
      if (to_float == nullptr) {
        return make_error(ErrorKind::kModel, "tensor '%s' has a type that cannot be read as numbers",
                          std::string(part.name).c_str());
      }
      to_float(part.data, weight->vector.data() + old, static_cast<int64_t>(count));
    }
  }
  weight->cols = static_cast<int64_t>(weight->vector.size());
  weight->held_bytes = weight->cols * static_cast<int64_t>(sizeof(float));
  return weight;
}

}  // namespace ei
