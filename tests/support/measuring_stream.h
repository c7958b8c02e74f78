// A stream that measures slots itself, as a GPU does, by the host's means: what a compression makes of that is tested
// without one. The rest is another stream's.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "kv/key_measure.h"

namespace ei::testing {

class MeasuringStream final : public Stream {
 public:
  // Backend and stream with pages of plain rows.
  MeasuringStream(std::unique_ptr<Backend> backend, std::unique_ptr<Stream> inner)
      : backend_(std::move(backend)), inner_(std::move(inner)) {}

  bool measures_slots() const override { return true; }
  void measure_keys(const kernels::KeyMeasureParams& params) override {
    const policy::KeyMeasure measure = params.cosine ? policy::KeyMeasure::kCosine : policy::KeyMeasure::kNorm;
    const std::vector<float> measured = kv::measure_keys(*backend_, params.kv, measure, params.stride).value();
    std::transform(measured.begin(), measured.end(), params.out,
                   [&](float one) { return params.negated ? -one : one; });
  }
  void expect_scores(const kernels::ExpectedScoreParams& params) override {
    const auto group = params.num_heads / static_cast<int32_t>(params.kv.heads.size());
    for (int32_t head = 0; head < params.num_heads; ++head) expect(params, head, params.kv.heads[head / group]);
  }
  void sum_scores(const kernels::SumScoreParams& params) override {
    for (int64_t head = 0; head < params.num_heads; ++head)
      for (int64_t slot = 0; slot < params.slots; ++slot)
        params.scores[head * params.stride + slot] = static_cast<float>(params.sums[head * params.sum_stride + slot]);
  }

  void enter(Phase phase, int64_t tokens) override { inner_->enter(phase, tokens); }
  void embed(const Weight& table, std::span<const int32_t> tokens, float scale, Matrix out) override {
    inner_->embed(table, tokens, scale, out);
  }
  void matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) override {
    inner_->matmul(weight, x, y, bias);
  }
  void rms_norm(Matrix x, const Weight& gain, float eps, Matrix y) override { inner_->rms_norm(x, gain, eps, y); }
  void add_rms_norm(Matrix x, Matrix sum, const Weight* gain, float eps, Matrix y) override {
    inner_->add_rms_norm(x, sum, gain, eps, y);
  }
  void rotate_append(const RotateAppendParams& params) override { inner_->rotate_append(params); }
  void attention(const kernels::AttentionParams& params) override { inner_->attention(params); }
  void activate(Activation kind, Matrix gate, Matrix up, Matrix out) override { inner_->activate(kind, gate, up, out); }
  void softcap(Matrix x, float cap) override { inner_->softcap(x, cap); }
  void copy(Matrix from, Matrix to) override { inner_->copy(from, to); }
  void block_extremes(const kernels::BlockExtremesParams& params) override { inner_->block_extremes(params); }
  void query_midrange(const kernels::QueryMidrangeParams& params) override { inner_->query_midrange(params); }
  void block_scores(const kernels::BlockScoreParams& params) override { inner_->block_scores(params); }
  void block_entropy(const kernels::BlockEntropyParams& params) override { inner_->block_entropy(params); }
  void row_scores(const kernels::RowScoreParams& params) override { inner_->row_scores(params); }
  void pack_keys(const kernels::PackKeysParams& params) override { inner_->pack_keys(params); }
  void peak_scores(const kernels::PeakScoreParams& params, std::span<const uint8_t> segments) override {
    inner_->peak_scores(params, segments);
  }
  void select_blocks(const kernels::SelectBlocksParams& params) override { inner_->select_blocks(params); }
  void window_scores(const kernels::WindowScoreParams& params) override { inner_->window_scores(params); }
  void attention_sums(const kernels::AttentionSumParams& params) override { inner_->attention_sums(params); }
  bool chooses_slots() const override { return inner_->chooses_slots(); }
  void rate_slots(const kernels::RateSlotsParams& params) override { inner_->rate_slots(params); }
  void choose_slots(const kernels::ChooseSlotsParams& params) override { inner_->choose_slots(params); }
  void spread_slots(const kernels::SpreadSlotsParams& params) override { inner_->spread_slots(params); }
  void leave_out_slots(const kernels::LeaveOutSlotsParams& params) override { inner_->leave_out_slots(params); }
  void host(std::function<void()> job) override { inner_->host(std::move(job)); }
  Result<Matrix> scratch(const ScratchSlot& slot, int64_t rows, int64_t cols) override {
    return inner_->scratch(slot, rows, cols);
  }
  Result<float*> shared(const ScratchSlot& slot, int64_t count) override { return inner_->shared(slot, count); }
  const void* stage(const void* data, size_t bytes) override { return inner_->stage(data, bytes); }
  Status synchronize() override { return inner_->synchronize(); }
  Status read(Matrix from, float* to) override { return inner_->read(from, to); }
  Times times() const override { return inner_->times(); }

 private:
  static void expect(const kernels::ExpectedScoreParams& params, int32_t head, const KvHeadView& keys) {
    const KvView& kv = params.kv;
    const int64_t dim = kv.head_dim;
    const float* linear = params.linear + head * dim;
    const float* quadratic = params.quadratic + head * dim * dim;
    std::vector<double> logits;
    std::vector<double> lengths;
    for (int64_t slot = 0; slot < keys.length; ++slot) {
      const int64_t begin = slot % kv.page_slots * dim;
      const auto element = [&](const void* page, DType type, int64_t d) {
        return static_cast<double>(load_element(page, type, begin + d));
      };
      const void* key = keys.key_pages[slot / kv.page_slots];
      double logit = 0;
      double squares = 0;
      for (int64_t i = 0; i < dim; ++i) {
        double inner = static_cast<double>(linear[i]);
        for (int64_t j = 0; j <= i; ++j)
          inner += static_cast<double>(quadratic[i * dim + j]) * element(key, kv.key_type, j);
        logit += inner * element(key, kv.key_type, i);
        squares += std::pow(element(keys.value_pages[slot / kv.page_slots], kv.value_type, i), 2);
      }
      logits.push_back(logit);
      lengths.push_back(std::sqrt(squares));
    }
    double total = 0;
    const double largest = *std::max_element(logits.begin(), logits.end());
    for (const double one : logits) total += std::exp(one - largest);
    for (size_t slot = 0; slot < logits.size(); ++slot)
      params.out[head * params.stride + static_cast<int64_t>(slot)] =
          static_cast<float>(std::exp(logits[slot] - largest) / total * lengths[slot]);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> inner_;
};

}  // namespace ei::testing
