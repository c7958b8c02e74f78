// The records as bytes: what a segment leaves to later ones. Samples, rankings and chosen blocks were of their own
// segment alone.
#include <cmath>

#include "policy/prefill/option_table.h"
#include "policy/prefill/walk.h"

namespace ei::policy {
namespace {

// No gaps between their fields, so that equal records are equal bytes.
static_assert(sizeof(SampleMeans) == 8 * sizeof(float));
static_assert(sizeof(PoolRecord) == 3 * sizeof(double));

void save_head(const HeadRecord& head, ByteWriter& to) {
  to.put(head.midrange_entropy);
  to.put(head.means);
  to.put(static_cast<uint8_t>(head.rigid));
  to.put(head.budget);
  to.put(static_cast<uint8_t>(head.type));
  to.put(head.blocks);
}

// False: damaged.
bool restore_head(ByteReader& from, HeadRecord& head) {
  uint8_t rigid = 0;
  uint8_t type = 0;
  if (!from.get(head.midrange_entropy) || !from.get(head.means) || !from.get(rigid) || !from.get(head.budget) ||
      !from.get(type) || !from.get(head.blocks))
    return false;
  head.rigid = rigid != 0;
  head.type = static_cast<HeadType>(type);
  // Counts are made of these.
  for (const float value : {head.means.log_weight, head.means.segment_entropy, head.means.row_entropy})
    if (!std::isfinite(value)) return false;
  constexpr int32_t kMost = 1 << 30;  // of tokens, and so of samples
  return rigid <= 1 && type <= static_cast<uint8_t>(HeadType::kDiffuse) && head.budget >= 0 &&
         head.budget <= static_cast<float>(kMost) && head.means.samples >= 0 && head.means.samples <= kMost;
}

bool restore_record(ByteReader& from, SegmentRecord& record) {
  uint8_t dense = 0;
  if (!from.get(record.segment) || !from.get(dense) || !from.get(record.pool)) return false;
  record.dense = dense != 0;
  for (HeadRecord& head : record.heads)
    if (!restore_head(from, head)) return false;
  const PoolRecord& pool = record.pool;
  return dense <= 1 && std::isfinite(pool.density) && std::isfinite(pool.filled) && std::isfinite(pool.kappa);
}

}  // namespace

void PrefillWalk::save(ByteWriter& to) const {
  to.put_all(exact_text(options()));
  to.put(kv_heads_);
  to.put(static_cast<int64_t>(records_.size()));
  for (const LayerRecords& layer : records_) {
    to.put(static_cast<int64_t>(layer.size()));
    for (const SegmentRecord& record : layer) {
      to.put(record.segment);
      to.put(static_cast<uint8_t>(record.dense));
      to.put(record.pool);
      for (const HeadRecord& head : record.heads) save_head(head, to);
    }
  }
}

Status PrefillWalk::restore(ByteReader& from) {
  truncate(0);
  const Error damaged{ErrorKind::kUsage, "what the cache was saved with is damaged (how prompts were read)"};
  std::string method;
  int32_t kv_heads = 0;
  int64_t layers = 0;
  if (!from.get_all(method) || !from.get(kv_heads) || !from.get(layers)) return damaged;
  const bool ours = method == exact_text(options()) && kv_heads == kv_heads_ && layers == std::ssize(records_);
  if (!ours) return {};
  std::vector<LayerRecords> saved(records_.size());
  for (LayerRecords& layer : saved) {
    int64_t segments = 0;
    if (!from.get(segments)) return damaged;
    int32_t before = -1;
    for (int64_t i = 0; i < segments; ++i) {
      SegmentRecord record;
      record.heads.resize(static_cast<size_t>(kv_heads_));
      if (!restore_record(from, record) || record.segment <= before) return damaged;
      before = record.segment;
      layer.push_back(std::move(record));
    }
  }
  if (!from.done()) return damaged;
  records_ = std::move(saved);
  return {};
}

}  // namespace ei::policy
