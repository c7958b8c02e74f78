#include "gguf/tensor_type.h"

#include <array>
#include <cctype>

namespace ei::gguf {
namespace {

constexpr bool kNotAWeight = false;

// The ids are those of the format; the gaps are types that were removed from it. Block sizes count scales and values
// as they lie in the file.
constexpr std::array kTypes = {
    TensorType{0, "F32", 1, 4},
    TensorType{1, "F16", 1, 2},
    TensorType{2, "Q4_0", 32, 18},
    TensorType{3, "Q4_1", 32, 20},
    TensorType{6, "Q5_0", 32, 22},
    TensorType{7, "Q5_1", 32, 24},
    TensorType{8, "Q8_0", 32, 34},
    TensorType{9, "Q8_1", 32, 36, kNotAWeight},
    TensorType{10, "Q2_K", 256, 84},
    TensorType{11, "Q3_K", 256, 110},
    TensorType{12, "Q4_K", 256, 144},
    TensorType{13, "Q5_K", 256, 176},
    TensorType{14, "Q6_K", 256, 210},
    TensorType{15, "Q8_K", 256, 292, kNotAWeight},
    TensorType{16, "IQ2_XXS", 256, 66},
    TensorType{17, "IQ2_XS", 256, 74},
    TensorType{18, "IQ3_XXS", 256, 98},
    TensorType{19, "IQ1_S", 256, 50},
    TensorType{20, "IQ4_NL", 32, 18},
    TensorType{21, "IQ3_S", 256, 110},
    TensorType{22, "IQ2_S", 256, 82},
    TensorType{23, "IQ4_XS", 256, 136},
    TensorType{24, "I8", 1, 1, kNotAWeight},
    TensorType{25, "I16", 1, 2, kNotAWeight},
    TensorType{26, "I32", 1, 4, kNotAWeight},
    TensorType{27, "I64", 1, 8, kNotAWeight},
    TensorType{28, "F64", 1, 8, kNotAWeight},
    TensorType{29, "IQ1_M", 256, 56},
    TensorType{30, "BF16", 1, 2},
    TensorType{34, "TQ1_0", 256, 54},
    TensorType{35, "TQ2_0", 256, 66},
    TensorType{39, "MXFP4", 32, 17},
    TensorType{40, "NVFP4", 64, 36},
    TensorType{41, "Q1_0", 128, 18},
    TensorType{42, "Q2_0", 64, 18},
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::toupper(static_cast<unsigned char>(a[i])) != std::toupper(static_cast<unsigned char>(b[i]))) return false;
  }
  return true;
}

}  // namespace

std::span<const TensorType> tensor_types() { return kTypes; }

const TensorType* find_tensor_type(uint32_t id) {
  for (const TensorType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

const TensorType* find_tensor_type(std::string_view name) {
  for (const TensorType& type : kTypes) {
    if (equal_ignoring_case(type.name, name)) return &type;
  }
  return nullptr;
}

std::string supported_tensor_types() {
  std::string list;
  for (const TensorType& type : kTypes) {
    if (!type.loadable) continue;
    if (!list.empty()) list += ", ";
    list += type.name;
  }
  return list;
}

}  // namespace ei::gguf
