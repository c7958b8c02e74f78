// Which weights ggml multiplies by several rows as by each alone. Its kernels for one row and for many are others, and
// which of them add in the same order is a matter of the type, the CPU and ggml's build; so it is tried out.
#include <cstring>
#include <random>
#include <vector>

#include "backend/ggml_device.h"

namespace ei {

namespace {
constexpr int64_t kTrialRows = 9;
constexpr int64_t kTrialWeights = 64;
constexpr int64_t kTrialSeed = 24;
constexpr int64_t kCounts[] = {2, 3, 4, 5, 8, 9};
}  // namespace

bool GgmlDevice::rows_alike(const ggml_tensor& weight) {
  const std::lock_guard lock(alike_mutex_);
  ggml_backend_buffer_type_t form = weight.buffer != nullptr ? ggml_backend_buffer_get_type(weight.buffer) : nullptr;
  const std::tuple key(static_cast<int>(weight.type), weight.ne[0], form);
  if (const auto known = alike_.find(key); known != alike_.end()) return known->second;

  const int64_t cols = weight.ne[0];
  const int64_t wide = std::min(kTrialWeights, weight.ne[1]);
  constexpr size_t kNodes = kTrialRows + std::size(kCounts);
  ggml_context* context = ggml_init(
      {ggml_tensor_overhead() * (2 * kNodes + 1) + ggml_graph_overhead_custom(kNodes, false) + 4096, nullptr, true});
  if (context == nullptr) return false;
  ggml_cgraph* graph = ggml_new_graph_custom(context, kNodes, /*grads=*/false);
  ggml_tensor* part = ggml_new_tensor_2d(context, weight.type, cols, wide);
  part->data = weight.data;
  part->buffer = weight.buffer;
  part->extra = weight.extra;

  std::vector<float> x(static_cast<size_t>(kTrialRows * cols));
  std::mt19937 random(kTrialSeed);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  std::vector<std::vector<float>> products;
  products.reserve(kNodes);
  const auto multiply = [&](int64_t first, int64_t rows) {
    std::vector<float>& out = products.emplace_back(static_cast<size_t>(rows * wide));
    ggml_tensor* input = ggml_new_tensor_2d(context, GGML_TYPE_F32, cols, rows);
    input->data = x.data() + first * cols;
    ggml_tensor* product = ggml_mul_mat(context, part, input);
    product->data = out.data();
    product->flags |= GGML_TENSOR_FLAG_COMPUTE;
    ggml_graph_add_node(graph, product);
  };
  for (int64_t row = 0; row < kTrialRows; ++row) multiply(row, 1);
  for (const int64_t rows : kCounts) multiply(0, rows);
  Watch watch;
  const Status ran = compute(graph, watch);
  ggml_free(context);
  if (!ran.ok()) return false;  // and tried again the next time
  bool alike = true;
  for (size_t i = 0; i < std::size(kCounts); ++i)
    for (int64_t row = 0; row < kCounts[i]; ++row) {
      const float* among = products[kTrialRows + i].data() + row * wide;
      alike = alike && std::memcmp(among, products[static_cast<size_t>(row)].data(),
                                   static_cast<size_t>(wide) * sizeof(float)) == 0;
    }
  return alike_[key] = alike;
}

}  // namespace ei
