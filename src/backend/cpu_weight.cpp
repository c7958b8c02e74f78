#include "backend/cpu_weight.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/file_pages.h"

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
bool repack(const GgmlDevice& device, CpuWeight& weight, std::span<const HostTensor> parts, int64_t first_row,
            ggml_backend_buffer_type_t type) {
  ggml_tensor* tensor = new_tensor(weight, parts.front(), rows_of(parts));
  const size_t bytes = ggml_backend_buft_get_alloc_size(type, tensor);
  const GgmlDevice::Place place = device.place(type, bytes);
  if (place.buffer == nullptr) return false;
  weight.buffers.push_back(place.buffer);
  if (ggml_backend_tensor_alloc(place.buffer.get(), tensor, place.data) != GGML_STATUS_SUCCESS) return false;
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
  if (context != nullptr) ggml_free(context);
}

Result<std::unique_ptr<CpuWeight>> load_cpu_matrix(const GgmlDevice& device, std::span<const HostTensor> parts,
                                                   Stacking stacking) {
  auto weight = std::make_unique<CpuWeight>();
  weight->cols = parts.front().cols;
  weight->rows = rows_of(parts);
  int64_t begin = 0;
  for (const HostTensor& part : parts) {
    if (part.scale != 1) weight->scaled.push_back({begin, part.rows, part.scale});
    begin += part.rows;
  }
  weight->context = ggml_init({ggml_tensor_overhead() * (parts.size() + 1), nullptr, /*no_alloc=*/true});
  int64_t first_row = 0;
  while (!parts.empty()) {
    const std::span<const HostTensor> stack = stacking == Stacking::kStacked ? alike(parts) : parts.first(1);
    const auto type = static_cast<ggml_type>(stack.front().type);
    if (ggml_backend_buffer_type_t repacked = device.repacked_type(type, rows_of(stack), weight->cols)) {
      if (!repack(device, *weight, stack, first_row, repacked)) {
        return make_error(ErrorKind::kMemory, "out of memory for the weights (%zu KiB for tensor '%s')",
                          row_bytes(stack.front()) * static_cast<size_t>(rows_of(stack)) >> 10,
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

namespace {

// ggml's repacked forms are its own affair: whether it is the one that is known here is seen in the first four rows.
bool interleaved_by_eight(const ggml_tensor& tensor, const HostTensor& first) {
  constexpr int64_t kBlock = 34;  // of the file: an f16 scale, 32 numbers
  if (first.rows < 4) return false;
  const int64_t blocks = tensor.ne[0] / 32;
  const auto* packed = static_cast<const std::byte*>(tensor.data);
  const auto* rows = static_cast<const std::byte*>(first.data);
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t row = 0; row < 4; ++row) {
      const std::byte* from = rows + (row * blocks + block) * kBlock;
      const std::byte* to = packed + block * 4 * kBlock;
      if (std::memcmp(to + 2 * row, from, 2) != 0) return false;
      for (int64_t part = 0; part < 4; ++part)
        if (std::memcmp(to + 8 + 32 * part + 8 * row, from + 2 + 8 * part, 8) != 0) return false;
    }
  }
  return true;
}

}  // namespace

// Of the types that ggml has no repacked kernels for, Q4_1 is the one that it multiplies slowly by a few rows, and Q8_0
// on x86; of those that it repacks, Q8_0 gains most.
kernels::FewRowsForm few_rows_form(const GgmlDevice& device, const CpuWeight& weight,
                                   std::span<const HostTensor> parts) {
  using Form = kernels::FewRowsForm;
  const auto all = [&](ggml_type type, bool repacked) {
    return std::all_of(weight.parts.begin(), weight.parts.end(), [&](const WeightPart& part) {
      return part.tensor->type == type && (part.tensor->buffer != nullptr) == repacked && part.rows % 4 == 0;
    });
  };
  if (all(GGML_TYPE_Q4_1, /*repacked=*/false)) return Form::kQ4_1;
  // Only where ggml adds as our kernel does: a row of an answer is multiplied alone and among others.
  if (all(GGML_TYPE_Q8_0, /*repacked=*/false) && device.built_for("AVX2")) return Form::kQ8_0;
  const bool known = all(GGML_TYPE_Q8_0, /*repacked=*/true) && weight.parts.size() == 1 &&
                     interleaved_by_eight(*weight.parts.front().tensor, parts.front());
  return known ? Form::kQ8Interleaved : Form::kNone;
}

FileRows::FileRows(std::span<const HostTensor> parts, const std::vector<WeightPart>& in_use) {
  int64_t first = 0;
  for (const HostTensor& part : parts) {
    const bool in_place = std::any_of(in_use.begin(), in_use.end(),
                                      [&](const WeightPart& used) { return used.tensor->data == part.data; });
    parts_.push_back({.tensor = part, .first_row = first, .released = !part.mapping.empty() && !in_place});
    first += part.rows;
  }
}

void FileRows::read(int64_t begin, int64_t end, float* to) const {
  for (const Part& part : parts_) {
    const HostTensor& tensor = part.tensor;
    const int64_t until = std::min(end, part.first_row + tensor.rows);
    for (int64_t row = std::max(begin, part.first_row); row < until; ++row) {
      const auto* data =
          static_cast<const std::byte*>(tensor.data) + row_bytes(tensor) * static_cast<size_t>(row - part.first_row);
      float* out = to + (row - begin) * tensor.cols;
      if (tensor.type == GGML_TYPE_F32) {
        std::memcpy(out, data, row_bytes(tensor));
      } else {
        ggml_get_type_traits(static_cast<ggml_type>(tensor.type))->to_float(data, out, tensor.cols);
      }
    }
  }
}

void FileRows::release(int64_t begin, int64_t end) const {
  for (const Part& part : parts_) {
    const int64_t from = std::max(begin, part.first_row);
    const int64_t until = std::min(end, part.first_row + part.tensor.rows);
    if (!part.released || from >= until) continue;
    const size_t row = row_bytes(part.tensor);
    release_file_pages(
        {static_cast<const std::byte*>(part.tensor.data) + row * static_cast<size_t>(from - part.first_row),
         row * static_cast<size_t>(until - from)},
        part.tensor.mapping);
  }
}

Status prepare_dense(const DenseProvider& provider, std::span<const HostTensor> parts, int64_t& budget,
                     CpuWeight& weight) {
  FileRows rows(parts, weight.parts);
  const auto bytes = static_cast<int64_t>(provider.packed_bytes(weight.rows, weight.cols));
  if (bytes > budget) {
    weight.unpack = std::move(rows);
    return {};
  }
  EI_ASSIGN_OR_RETURN(weight.packed,
                      provider.pack(weight.rows, weight.cols,
                                    [&](int64_t begin, int64_t end, float* to) { rows.read(begin, end, to); }));
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
