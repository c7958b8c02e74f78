// GgmlStream: every step of a layer as the nodes that libllama builds for it without flash attention. Slow over long
// texts, and rounds as libllama does: the logits of a text are libllama's, which says of a difference whether the model
// is read wrongly or a kernel rounds otherwise. What belongs to the sparse methods alone is computed as on the CPU
// backend.
#pragma once

#include "backend/cpu_stream.h"

namespace ei {

class GgmlStream : public CpuStream {
 public:
  GgmlStream(GgmlDevice& device, std::string isa, const CancelToken* cancel)
      : CpuStream(device, nullptr, std::move(isa), cancel, kMaxNodes) {}

  void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) override;
  void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) override;
  void rotate_append(const RotateAppendParams& params) override;
  void attention(const kernels::AttentionParams& params) override;
  void attention_each(std::span<const kernels::AttentionParams> calls) override {
    for (const kernels::AttentionParams& call : calls) attention(call);
  }
  void activate(Activation kind, Matrix gate, Matrix up, Matrix out) override;
  void softcap(Matrix x, float cap) override;

 protected:
  // Products of ggml may round by the number of rows: none is cut.
  int64_t rows_at_once(int64_t rows, int64_t) const override { return rows; }
  int64_t rows_together(const CpuWeight&) const override { return 1; }
  bool tokens_together(const CpuWeight&) const override { return true; }  // as libllama does

 private:
  ggml_tensor* tensor(Matrix matrix) const;                     // [cols, rows]
  ggml_tensor* heads(Matrix matrix, int64_t head_dim) const;    // [head_dim, heads, rows]
  ggml_tensor* vector(const float* data, int64_t count) const;  // [count]
  void put(ggml_tensor* node, const ggml_tensor* where);        // records it, its result in the memory of `where`
  void norm(ggml_tensor* x, const Weight& gain, float eps, ggml_tensor* y);

  Buffer attention_memory_;
  double attention_began_ = 0;
  double within_attention_ = 0;  // of the copies around it, already in Times::attention_s
};

}  // namespace ei
