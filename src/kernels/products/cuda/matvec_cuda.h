// One row of activations times a matrix, for generation: every weight is read once, so bytes are all that counts.
// Matrices in bf16, or kept in codes of four, five or eight bits.
#pragma once

#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {

// A type of weights in a file, by ggml's number. Where codes are indices of neighbours, `grid` is the table of these on
// the GPU (backend/cuda/cuda_grids.h); asking what is known of a type needs none.
struct FileType {
  uint32_t ggml = 0;
  const int8_t* grid = nullptr;
};

// How weights of a type are kept beside their bf16 form: in nibbles, nibbles and a fifth bit, or bytes.
enum class Codes : uint8_t { kNone, kNibbles, kFives, kBytes };
struct CodeForm {
  Codes codes = Codes::kNone;
  int32_t block = 32;  // weights that share a scale

  // Of `weights` weights; bytes have a half as their scale, the others two, scale and offset, and 32 fives a word of
  // their fifth bits behind them.
  constexpr int64_t code_bytes(int64_t weights) const { return codes == Codes::kBytes ? weights : weights / 2; }
  constexpr int64_t scale_bytes(int64_t weights) const {
    const int64_t each = codes == Codes::kBytes ? 2 : codes == Codes::kNibbles ? 4 : 8;
    return weights / block * each;
  }
};
CodeForm code_form(uint32_t ggml_type);

// Rows of codes: `codes` [rows, cols], and `scales` [rows, cols / block], both 16-byte aligned.
struct DeviceCodes {
  CodeForm form;
  void* codes = nullptr;
  void* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};
// Splits `count` weights as the file holds them, from weight `first` of the matrix on, into codes and scales.
Status launch_split_codes(const FileType& from_type, const void* from, int64_t first, int64_t count,
                          const DeviceCodes& to, void* stream);

// Rows [first, first + rows) of codes to bf16, [rows, cols].
Status launch_decode_codes(const DeviceCodes& from, int64_t first, int64_t rows, void* out, void* stream);

// Do the kernels below read such an x? One row, 16-byte aligned.
bool matvec_reads(const DeviceRows& x);
// And rows of so many weights?
bool matvec_takes(DType type, int64_t cols);
bool matvec_takes(const CodeForm& form, int64_t cols);
// y [1, weight.rows] = x [1, weight.cols] W^T (+ bias). x is f32 or bf16, y f32.
Status launch_matvec(const DeviceRows& weight, const DeviceRows& x, float* y, const float* bias, void* stream);
Status launch_matvec(const DeviceCodes& weight, const DeviceRows& x, float* y, const float* bias, void* stream);

}  // namespace ei::kernels::cuda
