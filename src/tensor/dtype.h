// Element types of activations and of the KV cache. Weight types are ggml's, described in gguf/tensor_type.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ei {

// kF8: E4M3 with a power of two for every row, of KV caches on a GPU alone (kernels/pages/cuda/fp8_layout.h).
enum class DType : uint8_t { kF32, kF16, kBF16, kF8 };

constexpr size_t dtype_bytes(DType type) { return type == DType::kF32 ? 4 : type == DType::kF8 ? 1 : 2; }
// How hosts see rows of a type: what has scales of its own comes and goes as f16, which holds it exactly.
constexpr DType host_type(DType type) { return type == DType::kF8 ? DType::kF16 : type; }
const char* dtype_name(DType type);  // "f32", "f16", "bf16", "fp8"
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
void store_element(void* data, DType type, int64_t index, float value);

}  // namespace ei
