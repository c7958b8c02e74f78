// Attention on several workers.
#include <gtest/gtest.h>

#include "kernels/attention/reference/attention_scalar.h"
#include "support/attention_runs.h"

namespace ei::kernels {
namespace {

TEST(Attention, DoesNotDependOnTheNumberOfWorkers) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kQ8_0}) {
    for (const int64_t tokens : {1, 4, 60}) {
      AttentionShape shape{.kv_heads = 2, .group = 3, .tokens = tokens, .context = 2500};
      shape.key_type = shape.value_type = type;
      RandomAttention input(shape, 61);
      for (const AttentionVariant* variant : usable_variants(shape)) {
        if (variant == &scalar_attention() && tokens > 4) continue;  // one row at a time: nothing to divide differently
        const std::vector<float> alone = result_of(*variant, input, 1);
        for (const int workers : {2, 3}) EXPECT_TRUE(result_of(*variant, input, workers) == alone) << variant->name;
      }
    }
  }
}

}  // namespace
}  // namespace ei::kernels
