#include "backend/reference_backend.h"

#include <ggml.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include "backend/host_memory.h"
#include "base/check.h"
#include "base/clock.h"
#include "kernels/block_scores/reference/block_scores_reference.h"
#include "kernels/window_scores/reference/attention_sums_reference.h"
#include "kernels/window_scores/reference/slot_choice_reference.h"
#include "kernels/window_scores/reference/window_scores_reference.h"

namespace ei {

namespace {

// Every weight is kept as plain f32, whatever the file holds.
struct F32Weight : Weight {
  std::vector<float> data;  // [rows, cols]
};

const float* values(const Weight& weight) { return static_cast<const F32Weight&>(weight).data.data(); }

Result<std::unique_ptr<Weight>> load_f32(std::span<const HostTensor> parts) {
  auto weight = std::make_unique<F32Weight>();
  for (const HostTensor& part : parts) {
    const ggml_to_float_t to_float = ggml_get_type_traits(static_cast<ggml_type>(part.type))->to_float;
    if (part.type != GGML_TYPE_F32 && to_float == nullptr) {
      return make_error(ErrorKind::kModel, "tensor '%s' has a type that cannot be read as numbers",
                        std::string(part.name).c_str());
    }
    const size_t old = weight->data.size();
    const auto count = static_cast<size_t>(part.rows * part.cols);
    weight->data.resize(old + count);
    if (part.type == GGML_TYPE_F32) {
      std::memcpy(weight->data.data() + old, part.data, count * sizeof(float));
    } else {
      to_float(part.data, weight->data.data() + old, static_cast<int64_t>(count));
    }
    for (size_t i = old; i < weight->data.size(); ++i) weight->data[i] *= part.scale;
    weight->rows += part.rows;
    weight->cols = part.cols;
  }
  return std::unique_ptr<Weight>(std::move(weight));
}

void norm_row(const float* x, const float* gain, float eps, float* y, int64_t cols) {
  double sum = 0;
  for (int64_t i = 0; i < cols; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const float scale = 1.0f / std::sqrt(static_cast<float>(sum / static_cast<double>(cols)) + eps);
  for (int64_t i = 0; i < cols; ++i) y[i] = x[i] * scale * gain[i];
}

class ReferenceStream : public Stream {
 public:
  explicit ReferenceStream(const CancelToken* cancel) : cancel_(cancel) {}

  void enter(Phase, int64_t) override {}
  void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) override {
    for (size_t t = 0; t < tokens.size(); ++t) {
      const float* row = values(table) + tokens[t] * table.cols;
      float* to = out.data + static_cast<int64_t>(t) * out.stride;
      for (int64_t i = 0; i < table.cols; ++i) to[i] = row[i] * scale;
    }
  }

  void matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) override {
    for (int64_t row = 0; row < x.rows && !cancelled(); ++row) {
      for (int64_t n = 0; n < weight.rows; ++n) {
        const float* a = x.data + row * x.stride;
        const float* b = values(weight) + n * weight.cols;
        double sum = bias != nullptr ? static_cast<double>(values(*bias)[n]) : 0.0;
        for (int64_t i = 0; i < weight.cols; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        y.data[row * y.stride + n] = static_cast<float>(sum);
      }
    }
  }

  void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) override {
    for (int64_t row = 0; row < x.rows; ++row) {
      norm_row(x.data + row * x.stride, values(gain), eps, y.data + row * y.stride, x.cols);
    }
  }

  void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) override {
    for (int64_t row = 0; row < x.rows; ++row) {
      for (int64_t i = 0; i < x.cols; ++i) sum.data[row * sum.stride + i] += x.data[row * x.stride + i];
    }
    if (gain != nullptr) rms_norm(sum, *gain, eps, y);
  }

  void rotate_append(const RotateAppendParams& params) override {
    const KvPageShape& page = params.append.shape;
    const int32_t head_dim = page.head_dim;
    for (const auto& [matrix, gain] : {std::pair{params.q, params.q_norm}, std::pair{params.k, params.k_norm}}) {
      for (int64_t t = 0; t < matrix.rows; ++t) {
        for (int64_t first = 0; first < matrix.cols; first += head_dim) {
          float* head = matrix.data + t * matrix.stride + first;
          if (gain != nullptr) norm_row(head, values(*gain), params.norm_eps, head, head_dim);
          rotate(params.rope, t, head);
        }
      }
    }
    for (const KvAppend::Run& run : params.append.runs) {
      std::byte* keys = plain_key(page, run.page, run.slot);
      std::byte* values = plain_value(page, run.page, run.slot);
      for (int64_t i = 0; i < run.count; ++i) {
        const int64_t from = (run.token + i) * params.k.stride + static_cast<int64_t>(run.kv_head) * head_dim;
        store_row(params.k.data + from, keys + static_cast<size_t>(i) * page.key_row(), page.key_type, head_dim);
        store_row(params.v.data + from, values + static_cast<size_t>(i) * page.value_row(), page.value_type, head_dim);
      }
    }
  }

  void attention(const kernels::AttentionParams& params) override {
    const kernels::AttentionVariant& scalar = *kernels::attention_variants().back();
    const double start = now_s();
    std::vector<std::byte> scratch(scalar.scratch_bytes(params, 1) + 64);
    auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
    WorkQueue queue;
    queue.watch(cancel_);
    scalar.run(params, aligned, queue, Worker{});
    times_.attention_s += now_s() - start;
  }

  void activate(Activation kind, Matrix gate, Matrix up, Matrix out) override {
    for (int64_t row = 0; row < gate.rows; ++row) {
      for (int64_t i = 0; i < gate.cols; ++i) {
        const float raw = gate.data[row * gate.stride + i];
        const double g = static_cast<double>(kind == Activation::kSilu ? raw : f16_to_f32(f32_to_f16(raw)));
        const double u = static_cast<double>(up.data[row * up.stride + i]);
        const double activated = kind == Activation::kSilu
                                     ? g / (1.0 + std::exp(-g))
                                     : 0.5 * g * (1.0 + std::tanh(0.7978845608028654 * g * (1.0 + 0.044715 * g * g)));
        // Both of GELU's roundings to half precision are llama.cpp's (kernels/rowwise/rowwise.h).
        const double value = kind == Activation::kSilu
                                 ? activated
                                 : static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(activated))));
        out.data[row * out.stride + i] = static_cast<float>(value * u);
      }
    }
  }

  void softcap(Matrix x, float cap) override {
    for (int64_t row = 0; row < x.rows; ++row) {
      for (int64_t i = 0; i < x.cols; ++i) {
        float& value = x.data[row * x.stride + i];
        value = cap * std::tanh(value / cap);
      }
    }
  }

  void copy(Matrix from, Matrix to) override {
    for (int64_t row = 0; row < from.rows; ++row) {
      std::memcpy(to.data + row * to.stride, from.data + row * from.stride,
                  static_cast<size_t>(from.cols) * sizeof(float));
    }
  }

  void block_extremes(const kernels::BlockExtremesParams& params) override {
    kernels::reference_block_extremes(params);
  }
  void query_midrange(const kernels::QueryMidrangeParams& params) override {
    kernels::reference_query_midrange(params);
  }
  void block_scores(const kernels::BlockScoreParams& params) override { kernels::reference_block_scores(params); }
  void block_entropy(const kernels::BlockEntropyParams& params) override { kernels::reference_block_entropy(params); }
  void row_scores(const kernels::RowScoreParams& params) override { kernels::reference_row_scores(params); }
  void pack_keys(const kernels::PackKeysParams&) override {}  // the reference rates blocks by the keys themselves
  void peak_scores(const kernels::PeakScoreParams& wanted, std::span<const uint8_t> segments) override {
    for (size_t i = 0; i < segments.size(); ++i) {
      if (segments[i] == 0) continue;
      kernels::PeakScoreParams params = wanted;
      params.keys.super_blocks = kernels::blocks_per_super(params.rows.grid);
      params.segment = static_cast<int32_t>(i);
      params.list_stride = params.rows.num_segments;
      params.ranking += i;
      if (params.samples != nullptr) params.samples += i;
      kernels::reference_peak_scores(params);
    }
  }
  void select_blocks(const kernels::SelectBlocksParams& params) override { kernels::reference_select_blocks(params); }
  void window_scores(const kernels::WindowScoreParams& params) override { kernels::reference_window_scores(params); }
  void attention_sums(const kernels::AttentionSumParams& params) override { kernels::reference_attention_sums(params); }
  bool chooses_slots() const override { return true; }
  void rate_slots(const kernels::RateSlotsParams& params) override { kernels::reference_rate_slots(params); }
  void choose_slots(const kernels::ChooseSlotsParams& params) override { kernels::reference_choose_slots(params); }
  void spread_slots(const kernels::SpreadSlotsParams& params) override { kernels::reference_spread_slots(params); }
  void leave_out_slots(const kernels::LeaveOutSlotsParams& params) override {
    kernels::reference_leave_out_slots(params);
  }
  void host(std::function<void()> job) override {
    if (!cancelled()) job();
  }

  Result<float*> shared(const ScratchSlot& slot, int64_t count) override {
    std::vector<float>& memory = shared_[slot.id()];
    if (memory.size() < static_cast<size_t>(count)) memory.resize(static_cast<size_t>(count));
    return memory.data();
  }

  Result<Matrix> scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) override {
    std::vector<float>& memory = scratch_[slot.id()];
    if (memory.size() < static_cast<size_t>(rows * cols)) memory.resize(static_cast<size_t>(rows * cols));
    return Matrix{memory.data(), rows, cols, cols};
  }

  const void* stage(const void* data, size_t bytes) override {
    const auto* first = static_cast<const std::byte*>(data);
    return staged_.emplace_back(first, first + bytes).data();
  }

  Status synchronize() override {
    staged_.clear();
    if (cancelled()) return make_error(ErrorKind::kInterrupted, "interrupted");
    return {};
  }

  Status read(Matrix from, float* to) override {
    copy(from, Matrix{to, from.rows, from.cols, from.cols});
    return {};
  }

  Times times() const override { return times_; }

 private:
  bool cancelled() const { return cancel_ != nullptr && cancel_->cancelled(); }

  static void rotate(const RopeTable& rope, int64_t token, float* head) {
    const int32_t half = rope.dims / 2;
    for (int32_t i = 0; i < half; ++i) {
      const float cos = rope.cos[token * half + i];
      const float sin = rope.sin[token * half + i];
      float& a = head[rope.interleaved ? 2 * i : i];
      float& b = head[rope.interleaved ? 2 * i + 1 : i + half];
      const float rotated = a * cos - b * sin;
      b = a * sin + b * cos;
      a = rotated;
    }
  }

  const CancelToken* cancel_;
  std::map<int, std::vector<float>> scratch_;
  std::map<int, std::vector<float>> shared_;
  std::deque<std::vector<std::byte>> staged_;
  Times times_;
};

class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  int64_t packed_bytes(std::span<const HostTensor>) const override { return 0; }
  std::string describe(DType, DType, std::span<const HostTensor>) const override {
    return "reference: plain fp32 loops, one thread";
  }
  DType default_kv_type() const override { return DType::kF32; }
  bool holds_q8() const override { return true; }
  bool decodes_together() const override { return true; }

  Result<Buffer> allocate(size_t bytes) const override { return allocate_host(bytes); }
  Status copy_in(void* to, const void* from, size_t bytes) const override { return copy_within(to, from, bytes); }
  Status copy_out(void* to, const void* from, size_t bytes) const override { return copy_within(to, from, bytes); }
  Status copy_within(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
    return {};
  }
  void discard(void* data, size_t bytes) const override { discard_host(data, bytes); }

  Result<std::unique_ptr<Weight>> load_matrix(std::span<const HostTensor> parts, MatrixUse) const override {
    return load_f32(parts);
  }
  Result<std::unique_ptr<Weight>> load_table(const HostTensor& table) const override { return load_f32({&table, 1}); }
  Result<std::unique_ptr<Weight>> load_vector(std::span<const HostTensor> parts) const override {
    return load_f32(parts);
  }

  Result<std::unique_ptr<Stream>> new_stream(const CancelToken* cancel) const override {
    return std::unique_ptr<Stream>(std::make_unique<ReferenceStream>(cancel));
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> create_reference_backend(const BackendOptions&) {
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>());
}

}  // namespace ei
