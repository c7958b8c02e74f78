// One row of activations times a matrix, for generation: every weight is read once, so bytes are all that counts.
// Matrices in bf16, or kept in the file's four, six or eight bits.
#pragma once

#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {

// How weights of a ggml type are kept beside their bf16 form.
enum class Codes : uint8_t { kNone, kNibbles, kBytes };
struct CodeForm {
  Codes codes = Codes::kNone;
  int32_t block = 32;  // weights that share a scale

  // Of `weights` weights, scales included (two halves a block of nibbles: scale and offset).
  int64_t code_bytes(int64_t weights) const { return codes == Codes::kNibbles ? weights / 2 : weights; }
  int64_t scale_bytes(int64_t weights) const { return weights / block * (codes == Codes::kNibbles ? 4 : 2); }
};
CodeForm code_form(uint32_t ggml_type);

// Rows of codes: `codes` [rows, cols], then `scales` [rows, cols / block], both 16-byte aligned.
struct DeviceCodes {
  CodeForm form;
  void* codes = nullptr;
  void* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};
// Splits `count` weights as the file holds them, from weight `first` of the matrix on, into codes and scales.
Status launch_split_codes(uint32_t ggml_type, const void* from, int64_t first, int64_t count, const DeviceCodes& to,
                          void* stream);

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
