// Element types of activations and of the KV cache. Weight types are ggml's, described in gguf/tensor_type.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ei {

// kF8: E4M3 with a power of two for every row, of KV caches on a GPU alone (kernels/pages/cuda/fp8_layout.h).
enum class DType : uint8_t { kF32, kF16, kBF16, kQ8_0, kF8 };
inline constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kF8};
inline constexpr DType kHostDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0};  // that hosts see

// q8_0, of the KV cache alone: blocks of 32 elements, as ggml lays them out. A row is whole blocks.
inline constexpr int64_t kQ8Elements = 32;
struct Q8Block {
  uint16_t scale;  // f16
  int8_t codes[kQ8Elements];
};
static_assert(sizeof(Q8Block) == 34);

// Of one element; q8_0 has no such thing.
constexpr size_t dtype_bytes(DType type) { return type == DType::kF32 ? 4 : type == DType::kF8 ? 1 : 2; }
// Of `count` elements, for q8_0 a multiple of kQ8Elements.
constexpr size_t dtype_row_bytes(DType type, int64_t count) {
  return type == DType::kQ8_0 ? static_cast<size_t>(count / kQ8Elements) * sizeof(Q8Block)
                              : static_cast<size_t>(count) * dtype_bytes(type);
}
// How hosts see rows of a type: what has scales of its own comes and goes as f16, which holds it exactly.
constexpr DType host_type(DType type) { return type == DType::kF8 ? DType::kF16 : type; }
const char* dtype_name(DType type);  // "f32", "f16", "bf16", "q8_0", "fp8"
std::optional<DType> dtype_from_name(std::string_view name);

// Scalar conversions, round to nearest even. The kernels have vector twins; these are their specification.
uint16_t f32_to_bf16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float f16_to_f32(uint16_t bits);
uint8_t f32_to_e4m3(float value);  // beyond 448: 448
float e4m3_to_f32(uint8_t code);

// One element of a typed array, as float.
float load_element(const void* data, DType type, int64_t index);
// `count` elements from `first` on; of q8_0 both are whole blocks.
void load_row(const void* data, DType type, int64_t first, int64_t count, float* to);
// Not of q8_0, whose elements share a scale.
void store_element(void* data, DType type, int64_t index, float value);
// `count` elements; of q8_0 whole blocks: scale = largest / 127, codes rounded to nearest even.
void store_row(const float* from, void* to, DType type, int64_t count);

}  // namespace ei
