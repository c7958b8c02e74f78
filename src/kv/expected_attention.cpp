#include "kv/expected_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace ei::kv {
namespace {

const ScratchSlot kExpected;
constexpr int64_t kLanes = 16;  // keys that are multiplied together

// Where the pair i of a vector lies.
std::pair<size_t, size_t> pair_at(const LayerRope& rope, int32_t i) {
  const auto at = static_cast<size_t>(i);
  if (rope.interleaved) return {2 * at, 2 * at + 1};
  return {at, at + static_cast<size_t>(rope.dims / 2)};
}

// Turns every pair by its own cosine and sine.
void turn(const LayerRope& rope, const float* cos, const float* sin, double* vector) {
  for (int32_t i = 0; i < rope.dims / 2; ++i) {
    const auto [a, b] = pair_at(rope, i);
    const double x = vector[a];
    const double y = vector[b];
    vector[a] = x * static_cast<double>(cos[i]) - y * static_cast<double>(sin[i]);
    vector[b] = x * static_cast<double>(sin[i]) + y * static_cast<double>(cos[i]);
  }
}

void turn_back(const LayerRope& rope, const float* cos, const float* sin, double* vector) {
  for (int32_t i = 0; i < rope.dims / 2; ++i) {
    const auto [a, b] = pair_at(rope, i);
    const auto c = static_cast<double>(cos[i]);
    const auto s = static_cast<double>(sin[i]);
    const double x = vector[a];
    const double y = vector[b];
    vector[a] = (x * c + y * s) / (c * c + s * s);  // a rotation may stretch as well (YaRN)
    vector[b] = (y * c - x * s) / (c * c + s * s);
  }
}

// Mean angles of the next positions.
RopeAngles mean_turn(const LayerRope& rope, int32_t next_position) {
  RopeAngles all;
  fill_rope(*rope.rope, rope.dims, next_position, kExpectedPositions, all);
  const auto pairs = static_cast<size_t>(rope.dims / 2);
  RopeAngles mean{.cos = std::vector<float>(pairs), .sin = std::vector<float>(pairs)};
  for (size_t i = 0; i < all.cos.size(); ++i) {
    mean.cos[i % pairs] += all.cos[i] / kExpectedPositions;
    mean.sin[i % pairs] += all.sin[i] / kExpectedPositions;
  }
  return mean;
}

// The logit of a key is linear . k + sum over j <= i of quadratic[i, j] k_i k_j.
struct LogitForm {
  std::vector<float> linear;     // [dim]
  std::vector<float> quadratic;  // [dim, dim], the lower triangle
};

LogitForm logit_form(const ExpectedParams& params, int64_t head, const RopeAngles& future) {
  const auto dim = static_cast<size_t>(params.kv.head_dim);
  const size_t rows = params.positions.size();
  std::vector<double> all(rows * dim);
  std::vector<double> mean(dim);
  RopeAngles own;
  for (size_t row = 0; row < rows; ++row) {
    double* q = all.data() + row * dim;
    const float* rotated =
        params.queries.data() + (row * static_cast<size_t>(params.heads) + static_cast<size_t>(head)) * dim;
    std::copy(rotated, rotated + dim, q);
    fill_rope(*params.rope.rope, params.rope.dims, params.positions[row], 1, own);
    turn_back(params.rope, own.cos.data(), own.sin.data(), q);
    turn(params.rope, future.cos.data(), future.sin.data(), q);
    for (size_t d = 0; d < dim; ++d) mean[d] += q[d] / static_cast<double>(rows);
  }
  LogitForm form{.linear = std::vector<float>(dim), .quadratic = std::vector<float>(dim * dim)};
  const auto scale = static_cast<double>(params.scale);
  // Row by row, so that sums of neighbours grow together.
  std::vector<double> sums(dim * dim);
  for (size_t row = 0; row < rows; ++row) {
    double* q = all.data() + row * dim;
    for (size_t d = 0; d < dim; ++d) q[d] -= mean[d];
    for (size_t i = 0; i < dim; ++i) {
      double* of = sums.data() + i * dim;
      const double by = q[i];
      for (size_t j = 0; j <= i; ++j) of[j] += by * q[j];
    }
  }
  for (size_t i = 0; i < dim; ++i) {
    form.linear[i] = static_cast<float>(scale * mean[i]);
    for (size_t j = 0; j <= i; ++j) {
      const double covariance = sums[i * dim + j] / static_cast<double>(rows);
      form.quadratic[i * dim + j] = static_cast<float>(scale * scale / 2 * covariance * (i == j ? 1 : 2));
    }
  }
  return form;
}

// keys: [dim, kLanes]
void logits_of(const LogitForm& form, const float* keys, float (&logits)[kLanes]) {
  const size_t dim = form.linear.size();
  std::fill_n(logits, kLanes, 0.0f);
  for (size_t i = 0; i < dim; ++i) {
    float inner[kLanes];
    for (float& one : inner) one = form.linear[i];
    for (size_t j = 0; j <= i; ++j) {
      const float factor = form.quadratic[i * dim + j];
      for (size_t lane = 0; lane < kLanes; ++lane) inner[lane] += factor * keys[j * kLanes + lane];
    }
    for (size_t lane = 0; lane < kLanes; ++lane) logits[lane] += inner[lane] * keys[i * kLanes + lane];
  }
}

// The logits of all slots of a kv_head by every form, and the lengths of the values.
Status measure_head(const Backend& backend, const KvView& kv, const KvHeadView& head, std::span<const LogitForm> forms,
                    const std::vector<float*>& logits, std::vector<float>& lengths) {
  const KvPageShape shape{
      .slots = kv.page_slots, .head_dim = kv.head_dim, .key_type = kv.key_type, .value_type = kv.value_type};
  const auto slots = static_cast<size_t>(kv.page_slots);
  std::vector<std::byte> keys(slots * shape.key_row());
  std::vector<std::byte> values(slots * shape.value_row());
  std::vector<float> wide(static_cast<size_t>(kv.head_dim) * kLanes);
  for (int64_t first = 0; first < head.length; first += kv.page_slots) {
    const int64_t count = std::min<int64_t>(kv.page_slots, head.length - first);
    EI_RETURN_IF_ERROR(
        backend.read_slots(shape, head.key_pages[first / kv.page_slots], count, keys.data(), values.data()));
    for (int64_t slot = 0; slot < count; ++slot) {
      double sum = 0;
      for (int64_t d = 0; d < kv.head_dim; ++d) {
        const auto one =
            static_cast<double>(load_element(values.data(), host_type(kv.value_type), slot * kv.head_dim + d));
        sum += one * one;
      }
      lengths[static_cast<size_t>(first + slot)] = static_cast<float>(std::sqrt(sum));
    }
    for (int64_t begin = 0; begin < count; begin += kLanes) {
      const int64_t lanes = std::min(kLanes, count - begin);
      std::fill(wide.begin(), wide.end(), 0.0f);
      for (int64_t lane = 0; lane < lanes; ++lane)
        for (int64_t d = 0; d < kv.head_dim; ++d)
          wide[static_cast<size_t>(d * kLanes + lane)] =
              load_element(keys.data(), host_type(kv.key_type), (begin + lane) * kv.head_dim + d);
      for (size_t form = 0; form < forms.size(); ++form) {
        float made[kLanes];
        logits_of(forms[form], wide.data(), made);
        std::copy_n(made, lanes, logits[form] + first + begin);
      }
    }
  }
  return {};
}

// Logits become shares of attention, times the lengths of the values.
void to_contributions(float* logits, const std::vector<float>& lengths) {
  float max = logits[0];
  for (size_t slot = 0; slot < lengths.size(); ++slot) max = std::max(max, logits[slot]);
  double total = 0;
  for (size_t slot = 0; slot < lengths.size(); ++slot)
    total += static_cast<double>(logits[slot] = std::exp(logits[slot] - max));
  for (size_t slot = 0; slot < lengths.size(); ++slot)
    logits[slot] = static_cast<float>(static_cast<double>(logits[slot]) / total) * lengths[slot];
}

}  // namespace

Result<std::vector<float>> expected_attention(const Backend& backend, const ExpectedParams& params) {
  EI_CHECK(!params.positions.empty());
  const int64_t kv_heads = static_cast<int64_t>(params.kv.heads.size());
  const int64_t group = params.heads / kv_heads;
  const RopeAngles future = mean_turn(params.rope, params.next_position);
  std::vector<float> expected(static_cast<size_t>(params.heads * params.stride));
  for (int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
    const KvHeadView& head = params.kv.heads[static_cast<size_t>(kv_head)];
    if (head.length == 0) continue;
    std::vector<LogitForm> forms;
    std::vector<float*> logits;
    for (int64_t g = 0; g < group; ++g) {
      forms.push_back(logit_form(params, kv_head * group + g, future));
      logits.push_back(expected.data() + (kv_head * group + g) * params.stride);
    }
    std::vector<float> lengths(static_cast<size_t>(head.length));
    EI_RETURN_IF_ERROR(measure_head(backend, params.kv, head, forms, logits, lengths));
    for (float* row : logits) to_contributions(row, lengths);
  }
  return expected;
}

void expect_attention(Stream& stream, const ExpectedParams& params, float* out) {
  EI_CHECK(!params.positions.empty() && stream.measures_slots());
  const RopeAngles future = mean_turn(params.rope, params.next_position);
  std::vector<float> linear;
  std::vector<float> quadratic;
  for (int64_t head = 0; head < params.heads; ++head) {
    const LogitForm form = logit_form(params, head, future);
    linear.insert(linear.end(), form.linear.begin(), form.linear.end());
    quadratic.insert(quadratic.end(), form.quadratic.begin(), form.quadratic.end());
  }
  const auto* sent = static_cast<const float*>(stream.stage(linear.data(), linear.size() * sizeof(float)));
  const auto* square = static_cast<const float*>(stream.stage(quadratic.data(), quadratic.size() * sizeof(float)));
  stream.expect_scores({.kv = params.kv,
                        .num_heads = params.heads,
                        .linear = sent,
                        .quadratic = square,
                        .out = out,
                        .stride = params.stride});
}

Result<std::vector<float>> expected_attention(Stream& stream, const ExpectedParams& params) {
  const int64_t count = int64_t{params.heads} * params.stride;
  EI_ASSIGN_OR_RETURN(float* out, stream.shared(kExpected, count));
  std::fill_n(out, count, 0.0f);
  expect_attention(stream, params, out);
  EI_RETURN_IF_ERROR(stream.synchronize());
  return std::vector<float>(out, out + count);
}

}  // namespace ei::kv
