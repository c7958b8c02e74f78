#include "kv/key_measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace ei::kv {
namespace {

const ScratchSlot kMeasured;

// Calls visit(slot, key) for every slot of a kv_head, with its key [head_dim] as floats.
template <typename Visit>
Status each_key(const Backend& backend, const KvView& view, const KvHeadView& head, Visit visit) {
  const KvPageShape shape{
      .slots = view.page_slots, .head_dim = view.head_dim, .key_type = view.key_type, .value_type = view.value_type};
  const auto dim = static_cast<size_t>(view.head_dim);
  std::vector<std::byte> rows(static_cast<size_t>(view.page_slots) * shape.key_row());
  std::vector<float> key(dim);
  for (int64_t first = 0; first < head.length; first += view.page_slots) {
    const int64_t count = std::min<int64_t>(view.page_slots, head.length - first);
    const void* page = head.key_pages[first / view.page_slots];
    EI_RETURN_IF_ERROR(backend.read_slots(shape, page, count, rows.data(), nullptr));
    for (int64_t row = 0; row < count; ++row) {
      load_row(rows.data(), host_type(view.key_type), row * view.head_dim, view.head_dim, key.data());
      visit(first + row, key);
    }
  }
  return {};
}

// The sum of term(d), in lanes that do not wait for each other.
template <typename Term>
double sum_of(size_t dim, Term term) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  size_t d = 0;
  for (; d + kLanes <= dim; d += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(d + lane);
  for (; d < dim; ++d) lanes[d % kLanes] += term(d);
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

float length_of(const std::vector<float>& key) {
  return static_cast<float>(std::sqrt(
      sum_of(key.size(), [&](size_t d) { return static_cast<double>(key[d]) * static_cast<double>(key[d]); })));
}

// Lengths become cosines.
Status to_cosines(const Backend& backend, const KvView& view, const KvHeadView& head, float* measured) {
  std::vector<double> mean(static_cast<size_t>(view.head_dim));
  EI_RETURN_IF_ERROR(each_key(backend, view, head, [&](int64_t slot, const std::vector<float>& key) {
    const auto length = static_cast<double>(measured[slot]);
    if (length == 0) return;
    const double part = 1 / length;
    for (size_t d = 0; d < key.size(); ++d) mean[d] += static_cast<double>(key[d]) * part;
  }));
  double mean_length = 0;
  for (const double one : mean) mean_length += one * one;
  mean_length = std::sqrt(mean_length);  // a cosine does not ask whether it is a sum or a mean
  return each_key(backend, view, head, [&](int64_t slot, const std::vector<float>& key) {
    const double product = sum_of(key.size(), [&](size_t d) { return static_cast<double>(key[d]) * mean[d]; });
    const double lengths = static_cast<double>(measured[slot]) * mean_length;
    measured[slot] = lengths > 0 ? static_cast<float>(product / lengths) : 0.0f;
  });
}

}  // namespace

Result<std::vector<float>> measure_keys(const Backend& backend, const KvView& view, policy::KeyMeasure measure,
                                        int64_t stride) {
  EI_CHECK(measure != policy::KeyMeasure::kNone);
  std::vector<float> measured(view.heads.size() * static_cast<size_t>(stride));
  for (size_t h = 0; h < view.heads.size(); ++h) {
    float* own = measured.data() + static_cast<int64_t>(h) * stride;
    EI_RETURN_IF_ERROR(each_key(backend, view, view.heads[h],
                                [&](int64_t slot, const std::vector<float>& key) { own[slot] = length_of(key); }));
    if (measure == policy::KeyMeasure::kCosine) EI_RETURN_IF_ERROR(to_cosines(backend, view, view.heads[h], own));
  }
  return measured;
}

Result<std::vector<float>> measure_keys(Stream& stream, const KvView& view, policy::KeyMeasure measure,
                                        int64_t stride) {
  EI_CHECK(measure != policy::KeyMeasure::kNone && stream.measures_slots());
  const int64_t count = static_cast<int64_t>(view.heads.size()) * stride;
  EI_ASSIGN_OR_RETURN(float* out, stream.shared(kMeasured, count));
  std::fill_n(out, count, 0.0f);
  stream.measure_keys({.kv = view, .cosine = measure == policy::KeyMeasure::kCosine, .out = out, .stride = stride});
  EI_RETURN_IF_ERROR(stream.synchronize());
  return std::vector<float>(out, out + count);
}

void score_keys(Stream& stream, const KvView& view, policy::KeyMeasure measure, Matrix scores) {
  EI_CHECK(measure != policy::KeyMeasure::kNone && stream.measures_slots());
  stream.measure_keys({.kv = view,
                       .cosine = measure == policy::KeyMeasure::kCosine,
                       .negated = true,
                       .out = scores.data,
                       .stride = scores.stride});
}

}  // namespace ei::kv
