// CpuStream: records a session's operations as nodes of one ggml graph (matrix products are ggml's nodes, everything
// else custom nodes that call our kernels) and runs them all at synchronize(), on the one pool of the device.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu_weight.h"
#include "backend/ggml_device.h"
#include "base/cancel.h"
#include "kernels/products/few_rows.h"
#include "kernels/rowwise/rowwise.h"

namespace ei {

class CpuStream : public Stream {
 public:
  CpuStream(GgmlDevice& device, const DenseProvider* dense, std::string isa, const CancelToken* cancel)
      : CpuStream(device, dense, std::move(isa), cancel, kMaxNodes) {}
  ~CpuStream() override;

  void enter(Phase phase, int64_t tokens) override {
    phase_ = phase;
    phase_tokens_ = tokens;
  }
  void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) override;
  void matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) override;
  void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) override;
  void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) override;
  void rotate_append(const RotateAppendParams& params) override;
  void attention(const kernels::AttentionParams& wanted) override;
  void attention_each(std::span<const kernels::AttentionParams> calls) override;
  void activate(Activation kind, Matrix gate, Matrix up, Matrix out) override;
  void softcap(Matrix x, float cap) override;
  void copy(Matrix from, Matrix to) override;
  void block_extremes(const kernels::BlockExtremesParams& params) override;
  void query_midrange(const kernels::QueryMidrangeParams& params) override;
  void block_scores(const kernels::BlockScoreParams& params) override;
  void block_entropy(const kernels::BlockEntropyParams& params) override;
  void row_scores(const kernels::RowScoreParams& params) override;
  void pack_keys(const kernels::PackKeysParams& wanted) override;
  void peak_scores(const kernels::PeakScoreParams& wanted, std::span<const uint8_t> segments) override;
  void select_blocks(const kernels::SelectBlocksParams& params) override;
  void window_scores(const kernels::WindowScoreParams& params) override;
  void attention_sums(const kernels::AttentionSumParams& params) override;
  void host(std::function<void()> job) override;
  void host_each(int64_t count, std::function<void(int64_t)> job) override;
  Result<Matrix> scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) override;
  Result<float*> shared(const ScratchSlot& slot, int64_t count) override;
  const void* stage(const void* data, size_t bytes) override;
  Status synchronize() override;
  Status read(Matrix from, float* to) override;
  Times times() const override { return times_; }

 protected:
  using Job = std::function<void(Worker)>;
  // Adds a node that every worker enters once; nodes run in the order they were added, with a barrier between them.
  void add(Job job, double* seconds);
  void add_rows(int64_t rows, std::function<void(Range)> job);
  void add_node(ggml_tensor* node);
  // How many of `rows` rows one node multiplies by `weights` weights.
  virtual int64_t rows_at_once(int64_t rows, int64_t weights) const;
  // ggml multiplies a row alone by another kernel than several together, and rounds otherwise. A prompt's rows come in
  // multiples of this many, so that its cut changes nothing.
  virtual int64_t rows_together(const CpuWeight& weight) const;
  // The same for generated tokens of several sessions: may they be multiplied together?
  virtual bool tokens_together(const CpuWeight& weight) const;
  // Writes these rows of K and V into the store.
  void append_rows(const RotateAppendParams& params, Range rows) const;
  // `memory` with at least `bytes` bytes; what it held before stays until the next synchronize(). Null when there is
  // none.
  void* grow(Buffer& memory, size_t bytes);
  ggml_context* context() const { return context_; }  // of the nodes recorded since the last synchronize()
  void book_attention(double seconds) { times_.attention_s += seconds; }
  // A chunk needs up to 280 nodes a layer when large weights are unpacked, about 20 otherwise.
  static constexpr size_t kMaxNodes = 65536;
  CpuStream(GgmlDevice& device, const DenseProvider* dense, std::string isa, const CancelToken* cancel,
            size_t most_nodes);

 private:
  using QueueJob = std::function<void(WorkQueue&)>;
  struct Op {
    Job job;
    double* seconds = nullptr;      // where worker 0's time goes
    CancelToken* broken = nullptr;  // raised when the job ran out of memory
  };

  static void run_op(ggml_tensor* node, int index, int count, void* op);
  void add_queue(QueueJob job, double* seconds);
  void matmul_packed(const DenseProvider::Packed& packed, Matrix x, Matrix y);
  void matmul_unpacked(const CpuWeight& weight, Matrix x, Matrix y);
  void matmul_ggml(const CpuWeight& weight, Matrix x, Matrix y);
  void multiply_ggml(const CpuWeight& weight, Matrix x, Matrix y);
  void multiply_together(const WeightPart& part, Matrix x, Matrix y);
  void add_product(const WeightPart& part, Matrix x, Matrix y);
  const kernels::FewRowsKernel* few_kernel(const CpuWeight& weight, int64_t rows) const;
  void matmul_few(const kernels::FewRowsKernel& kernel, const CpuWeight& weight, Matrix x, Matrix y);
  WorkQueue& new_queue();

  GgmlDevice& device_;
  const DenseProvider* dense_;  // null: ggml does all products
  const std::string isa_;
  const kernels::RowwiseVariant& rowwise_;
  const kernels::FewRowsKernel* few_q4_;  // null: ggml multiplies all generated tokens by such weights
  const kernels::FewRowsKernel* few_q8_;
  const kernels::FewRowsKernel* few_interleaved_;
  const CancelToken* cancel_;
  const size_t most_nodes_;
  Phase phase_ = Phase::kPrompt;
  int64_t phase_tokens_ = std::numeric_limits<int64_t>::max();
  std::unique_ptr<std::byte[]> arena_;  // much of it is never touched
  ggml_context* context_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  std::deque<Op> ops_;
  std::deque<WorkQueue> queues_;
  std::deque<std::vector<std::byte>> staged_;
  std::map<int, Buffer> scratch_;
  std::map<int, std::vector<float>> shared_;
  Buffer profile_scratch_;
  Buffer attention_scratch_;
  Buffer dense_scratch_;
  Buffer rest_scratch_;      // rows of x and y, filled up to rows_together()
  Buffer together_scratch_;  // rows of x and y, for weights that want them without anything in between
  Buffer window_room_;       // large and seldom needed: given back behind a run, unless it is small
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<DenseProvider::Packed>>
      unpacked_;                 // slices of weights, by shape, refilled per use
  std::vector<Buffer> retired_;  // grown out of, still named by recorded nodes
  Times times_;
  double matmul_own_s_ = 0;  // products through the provider; part of Times::matmul_s already
  Status failed_;            // the first error of a call that could not report it itself
  CancelToken broken_;       // by a job that ran out of memory: what it left is not to be read
};

}  // namespace ei
