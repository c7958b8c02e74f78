// The inputs of the golden cases, made from integers: the same bits on every machine. Keys follow topics that change
// from block to block, queries topics that change from segment to segment, both over a sink in the first block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "golden/manifest.h"
#include "plan/kv_view.h"

namespace ei::golden {

struct Shape {
  int64_t tokens = 0;
  int32_t head_dim = 0;
  int32_t num_heads = 0;
  int32_t kv_heads = 0;
  int32_t group() const { return num_heads / kv_heads; }
};
Shape shape_of(const Json& golden_case);

// One layer of one case, as stored by the generator.
struct Inputs {
  Shape shape;
  std::vector<float> q;  // [num_heads, tokens, head_dim]
  std::vector<float> k;  // [kv_heads, tokens, head_dim]
  std::vector<float> v;  // [kv_heads, tokens, head_dim]
};
Inputs generate(const Json& golden_case, int32_t layer);

// FNV-1a-64 over the bytes of the floats, as 16 hexadecimal digits.
std::string checksum(const std::vector<float>& values);

// The same layer as kernels read it: queries by token, keys and values in pages.
class KernelInputs {
 public:
  KernelInputs(const Inputs& inputs, DType kv_type);
  KernelInputs(const KernelInputs&) = delete;
  KernelInputs& operator=(const KernelInputs&) = delete;

  const Shape& shape() const { return shape_; }
  const float* q(int64_t token) const { return q_.data() + token * q_stride(); }  // [tokens, num_heads, head_dim]
  int64_t q_stride() const { return int64_t{shape_.num_heads} * shape_.head_dim; }
  const KvView& kv() const { return view_; }

 private:
  Shape shape_;
  std::vector<float> q_;
  std::vector<std::byte> k_;
  std::vector<std::byte> v_;
  std::vector<std::vector<const void*>> pages_;
  std::vector<KvHeadView> heads_;
  KvView view_;
};

}  // namespace ei::golden
