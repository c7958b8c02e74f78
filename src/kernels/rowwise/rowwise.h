// Row-by-row operations of a transformer layer: norms, rotation, activation, residual sums. Each call covers a range of
// rows so that workers share a matrix. Plain loops (cpu/rowwise_loops.h) that the compiler vectorises, once for each
// instruction set worth it; the widest that this CPU has is taken. The reference backend has the obvious twins.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/workers.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace ei::kernels {

// One head of one token: normalise (when gain is not null), then rotate the pairs by cos/sin [dims / 2].
struct RotateHead {
  const float* gain = nullptr;  // [head_dim]
  float eps = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
  int32_t dims = 0;
  int32_t head_dim = 0;
  bool interleaved = false;
};

// For one instruction set; all variants give the same bits. `rows` are those this call is for.
struct RowwiseVariant {
  std::string_view name;
  bool (*usable)();  // does this CPU have it?
  // y = x / sqrt(mean(x^2) + eps) * gain          x, y: [rows, cols]
  void (*rms_norm)(Matrix x, const float* gain, float eps, Matrix y, Range rows);
  // sum += x; with a gain also y = rms_norm(sum)  x, sum, y: [rows, cols]
  void (*add_rms_norm)(Matrix x, Matrix sum, const float* gain, float eps, Matrix y, Range rows);
  // out = silu(gate) * up, or gelu(gate) * up in the tanh form. GELU's argument and value are rounded to half
  // precision: llama.cpp reads it from a table of halves, and what people know of a GELU model is what that table
  // gives.
  void (*silu_multiply)(Matrix gate, Matrix up, Matrix out, Range rows);
  void (*gelu_multiply)(Matrix gate, Matrix up, Matrix out, Range rows);
  void (*add_bias)(const float* bias, Matrix y, Range rows);
  void (*softcap)(Matrix x, float cap, Range rows);
  void (*rotate_head)(const RotateHead& params, float* head);
  void (*convert_row)(const float* from, void* to, DType type, int64_t count);  // f32 -> KV element type
};
// Those of this architecture, the widest first; the last one runs anywhere.
std::span<const RowwiseVariant* const> rowwise_variants();
// The widest that this CPU has; `isa` (EI_CPU_ISA, may be empty) leaves out what is wider than it.
const RowwiseVariant& choose_rowwise(std::string_view isa);

}  // namespace ei::kernels
