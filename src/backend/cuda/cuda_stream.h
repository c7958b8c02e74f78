// CudaStream: a session's queue on the GPU. In a prompt calls enqueue at once, in order, and return before the GPU gets
// there; those of a generated token are recorded and go together (cuda_graph.h). synchronize() waits. A call that
// fails, or a cancellation, ends the enqueuing: what follows is left out, and synchronize() says so.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_clock.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_graph.h"
#include "backend/cuda/cuda_host_jobs.h"
#include "backend/cuda/cuda_products.h"
#include "backend/cuda/cuda_staging.h"
#include "backend/cuda/cuda_weight.h"
#include "kernels/pages/cuda/device_pages.h"
#include "kernels/window_scores/cuda/slot_measures_cuda.h"

namespace ei {

class CudaStream final : public Stream {
 public:
  static constexpr int64_t kDecodedBytes = int64_t{256} << 20;  // of weights decoded for a product, at once

  // `narrow`: activations that only products read may be kept in bf16.
  static Result<std::unique_ptr<CudaStream>> create(const CudaDevice& device, bool narrow, const CancelToken* cancel);
  // What a stream takes for such a prompt (Backend::stream_room), where weights are decoded for every product in pieces
  // of up to `decoded` bytes.
  static int64_t room(const PromptShape& shape, bool fp8_products, int64_t decoded);
  ~CudaStream() override;

  void enter(Phase phase, int64_t tokens) override;
  void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) override;
  void matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) override;
  void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) override;
  void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) override;
  void rotate_append(const RotateAppendParams& params) override;
  bool makes_angles() const override { return true; }
  void attention(const kernels::AttentionParams& params) override;
  void activate(Activation kind, Matrix gate, Matrix up, Matrix out) override;
  void softcap(Matrix x, float cap) override;
  void copy(Matrix from, Matrix to) override;
  void block_extremes(const kernels::BlockExtremesParams& params) override;
  void query_midrange(const kernels::QueryMidrangeParams& params) override;
  void block_scores(const kernels::BlockScoreParams& params) override;
  void block_entropy(const kernels::BlockEntropyParams& params) override;
  void row_scores(const kernels::RowScoreParams& params) override;
  void pack_keys(const kernels::PackKeysParams& params) override;
  void peak_scores(const kernels::PeakScoreParams& params, std::span<const uint8_t> segments) override;
  void select_blocks(const kernels::SelectBlocksParams& params) override;
  void window_scores(const kernels::WindowScoreParams& params) override;
  void attention_sums(const kernels::AttentionSumParams& params) override;
  bool chooses_slots() const override { return true; }
  void rate_slots(const kernels::RateSlotsParams& params) override;
  void choose_slots(const kernels::ChooseSlotsParams& params) override;
  void spread_slots(const kernels::SpreadSlotsParams& params) override;
  void leave_out_slots(const kernels::LeaveOutSlotsParams& params) override;
  bool measures_slots() const override { return true; }
  void measure_keys(const kernels::KeyMeasureParams& params) override;
  void expect_scores(const kernels::ExpectedScoreParams& params) override;
  void sum_scores(const kernels::SumScoreParams& params) override;
  void host(std::function<void()> job) override;
  Result<Matrix> scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) override;
  Matrix part(const ScratchSlot& slot, const Matrix& memory, int64_t at, int64_t rows, int64_t cols) override;
  Result<float*> shared(const ScratchSlot& slot, int64_t count) override;
  const void* stage(const void* data, size_t bytes) override;
  Status synchronize() override;
  Status read(Matrix from, float* to) override;
  Times times() const override { return times_; }

 private:
  // Memory of a scratch slot. Where `narrow`, its rows hold bf16 from their beginning on, at the same distance.
  struct Scratch {
    Buffer memory;          // empty: rows of another one's
    float* data = nullptr;  // null: nobody's rows, or divided into parts
    int64_t rows = 0;
    int64_t cols = 0;
    bool narrow = false;
  };
  CudaStream(const CudaDevice& device, bool narrow, const CancelToken* cancel)
      : device_(device), narrow_(narrow), cancel_(cancel), products_(device.products()) {}

  bool cancelled() const { return cancel_ != nullptr && cancel_->cancelled(); }
  bool open();  // may anything more be enqueued? What is held goes first
  // `room` of so many bytes, whose contents are lost: what it was is waited for and goes first, so that it is there
  // once and no larger.
  Result<void*> alone(CudaRoom& room, size_t bytes);
  void release(Buffer& memory);  // of a scratch slot
  void note(Status status);      // the first failure is kept
  void keep_pace();              // waits until only a few layers are ahead, so that a cancellation is noticed in time
  // Enqueues `job` now, or with the token's other operations. It depends on nothing but `parts` and what these lead to.
  template <typename... Parts>
  void submit(CudaGraph::Job job, const Parts&... parts) {
    adjacent_ = false;
    if (together()) {
      graph_.add(std::move(job), parts...);
    } else {
      note(job());
    }
  }
  // An operation over sets of slots, whose numbers are copied.
  template <typename Params>
  void submit_sets(const Params& params, Status (*launch)(const Params&, void*));
  bool together() const { return phase_ == Phase::kGeneration && !at_once_; }
  Status send(const CudaStaging::Piece& piece);
  void run_recorded();
  Scratch* slot_of(const float* data);
  // A matrix as it lies there: to be read, to be written in f32, or to be written as suits a product that reads it.
  kernels::cuda::DeviceRows rows_of(Matrix matrix);
  kernels::cuda::DeviceRows wide(Matrix matrix);
  kernels::cuda::DeviceRows for_products(Matrix matrix);
  kernels::cuda::DevicePages pages_of(const KvPageShape& shape) const;
  // As kernels read them: a cache in fp8 as its copy in f16.
  kernels::cuda::DevicePages pages_of(const KvView& kv) const {
    return pages_of(KvPageShape{kv.page_slots, kv.head_dim, host_type(kv.key_type), host_type(kv.value_type)});
  }
  // The pages of a copy: page p of kv_head h at memory + h * head_bytes + p * page_bytes.
  struct CopiedPages {
    std::byte* memory = nullptr;
    int64_t head_bytes = 0;
    int64_t page_bytes = 0;
  };
  // Behind a compaction every slot has a position of its own. Decoding without a window does not ask for it, and to
  // send a tenth of a long text's for every token takes longer than to attend to it.
  enum class Positions : uint8_t { kSent, kLeftOut };
  // `copied`: pages to name instead of the store's own.
  Result<const kernels::cuda::DeviceKvHead*> send_heads(const KvView& kv, const CopiedPages* copied = nullptr,
                                                        Positions positions = Positions::kSent);
  Result<const kernels::cuda::DeviceKvHead*> widened_heads(const KvView& kv);
  // With pages_of(kv): a cache in fp8 is copied once for all operations of a layer.
  Result<const kernels::cuda::DeviceKvHead*> readable_heads(const KvView& kv);
  Result<kernels::cuda::DevicePlan> send_plan(const kernels::AttentionParams& params);
  Status decode(const kernels::AttentionParams& params, const kernels::cuda::DeviceRows& q,
                const kernels::cuda::DeviceRows& out);
  Status attend(const kernels::AttentionParams& params);
  Status append(const RotateAppendParams& params);
  // With cos and sin in device memory.
  Result<RopeTable> with_angles(RopeTable table, int64_t tokens);
  // A product of a prompt that has not been enqueued: where it is then added to a sum, that is one step with it.
  struct HeldProduct {
    const CudaWeight* weight = nullptr;
    Matrix x;
    Matrix y;
  };
  void run_held();
  // The product itself is written nowhere.
  void add_held(const HeldProduct& product, const kernels::cuda::DeviceRows& sum);
  void multiply(const CudaWeight& weight, Matrix x, Matrix y, const float* bias);
  void multiply_rows(const CudaWeight& weight, kernels::cuda::DeviceRows from, const kernels::cuda::DeviceRows& to,
                     const float* bias, CudaProducts::Into into);
  void multiply_codes(const CudaWeight& weight, kernels::cuda::DeviceRows from, const kernels::cuda::DeviceRows& to,
                      const float* bias, CudaProducts::Into into);
  kernels::cuda::DeviceRows converted(const kernels::cuda::DeviceRows& rows, DType type);
  // `running`: attention is added to these sums, and no scores are written.
  Status score_window(const kernels::WindowScoreParams& params, const kernels::AttentionSumParams* running = nullptr);
  // Of the heads of a layer; without room yet.
  Result<kernels::cuda::SlotMeasures> slot_measures(const KvView& kv);
  Status record_measure(const kernels::KeyMeasureParams& params);
  Status record_expected(const kernels::ExpectedScoreParams& params);
  Status select(const kernels::SelectBlocksParams& params);
  template <typename Work>
  void measure(double* seconds, Work work);
  void begin_clock(double* seconds) { clock_.begin(stream_, seconds, adjacent_); }
  void end_clock() {
    clock_.end(stream_);
    adjacent_ = true;
  }
  void run_job(const std::function<void()>& job);

  const CudaDevice& device_;
  const bool narrow_;
  const CancelToken* cancel_;
  cudaStream_t stream_ = nullptr;
  CudaProducts products_;
  Phase phase_ = Phase::kPrompt;
  HeldProduct held_;
  CudaGraph graph_;
  bool at_once_ = false;  // whatever the phase
  std::map<int, Scratch> scratch_;
  std::map<int, Buffer> shared_;
  CudaStaging staging_;
  CudaRoom converted_;  // input of a product
  CudaRoom decoded_;    // weights of one
  CudaRoom plan_;       // of the attention in work
  CudaRoom plan_order_;
  CudaRoom rating_room_;
  CudaRoom chosen_room_;
  struct Chosen {  // the plan whose lists select_blocks left on the device
    const BlockPlan* plan = nullptr;
    kernels::cuda::DevicePlan lists;
  };
  Chosen chosen_;
  struct SentHeads {  // of the layer in work
    const KvHeadView* heads = nullptr;
    int64_t length = 0;
    const kernels::cuda::DeviceKvHead* sent = nullptr;
  };
  SentHeads sent_heads_;
  CudaRoom wide_room_;         // one layer of a cache in fp8, in f16
  int64_t prompt_tokens_ = 0;  // of the prompt that is read
  CudaRoom window_room_;
  CudaRoom read_room_;
  struct Angles {  // of one rope, for the chunk in work
    CudaRoom memory;
    int32_t first_position = -1;
    int64_t tokens = 0;
  };
  std::map<const Rope*, Angles> angles_;
  CudaRoom prefill_room_;
  CudaRoom decode_room_;
  const void* decode_zeroed_ = nullptr;  // the memory of it that was zeroed
  std::vector<Buffer> retired_;          // grown out of, still read by what is enqueued
  bool begun_ = false;                   // since the last synchronize() something may have been enqueued
  CudaHostJobs jobs_;
  std::array<cudaEvent_t, 4> pace_{};
  size_t paced_ = 0;
  CudaClock clock_;
  bool adjacent_ = false;  // nothing was enqueued since the clock's last span
  Times times_;
  Status failed_;
  bool stopped_ = false;                  // by a cancellation
  std::atomic<bool> job_failed_ = false;  // ran out of memory
};

}  // namespace ei
