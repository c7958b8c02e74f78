#include "kv/carried_scores.h"

#include <algorithm>
#include <limits>

namespace ei::kv {
namespace {

constexpr float kProtected = std::numeric_limits<float>::max();

}  // namespace

void CarriedScores::add_to(size_t layer, policy::LayerRating& rating) const {
  if (share_ == 0 || layer >= layers_.size() || layers_[layer].size() != rating.sets.size()) return;
  for (size_t set = 0; set < rating.sets.size(); ++set) {
    policy::SlotScores& scores = rating.sets[set];
    const std::vector<float>& carried = layers_[layer][set];
    const size_t slots = std::min(scores.size(), carried.size());
    for (size_t slot = 0; slot < slots; ++slot)
      if (scores[slot] != kProtected) scores[slot] += static_cast<float>(share_) * carried[slot];
  }
}

void CarriedScores::remember(size_t layer, const policy::LayerRating& rating, const std::vector<KeepList>& keeps) {
  if (share_ == 0) return;
  if (next_.size() <= layer) next_.resize(layer + 1);
  Layer& to = next_[layer];
  to.assign(rating.sets.size(), {});
  for (size_t set = 0; set < rating.sets.size(); ++set) {
    const policy::SlotScores& scores = rating.sets[set];
    const KeepList& keep = keeps[set * keeps.size() / rating.sets.size()];
    const auto score = [&](size_t slot) {
      return slot < scores.size() && scores[slot] != kProtected ? scores[slot] : 0.0f;  // the window has no scores
    };
    if (keep.empty()) {  // everything stays
      for (size_t slot = 0; slot < scores.size(); ++slot) to[set].push_back(score(slot));
    }
    for (const int32_t slot : keep) to[set].push_back(score(static_cast<size_t>(slot)));
  }
}

void CarriedScores::commit() {
  if (share_ > 0) layers_ = std::move(next_);
  next_.clear();
}

void CarriedScores::save(ByteWriter& to) const {
  to.put(static_cast<int64_t>(layers_.size()));
  for (const Layer& layer : layers_) {
    to.put(static_cast<int64_t>(layer.size()));
    for (const std::vector<float>& set : layer) to.put_all(set);
  }
}

bool CarriedScores::restore(ByteReader& from) {
  layers_.clear();
  int64_t layers = 0;
  if (!from.get(layers)) return false;
  for (int64_t i = 0; i < layers; ++i) {
    int64_t sets = 0;
    if (!from.get(sets)) return false;
    Layer& layer = layers_.emplace_back();
    for (int64_t set = 0; set < sets; ++set)
      if (!from.get_all(layer.emplace_back())) return false;
  }
  return true;
}

void CarriedScores::trim(size_t layer, const std::vector<int64_t>& lengths) {
  if (layer >= layers_.size()) return;
  Layer& sets = layers_[layer];
  for (size_t set = 0; set < sets.size(); ++set) {
    const auto length = static_cast<size_t>(lengths[set * lengths.size() / sets.size()]);
    if (sets[set].size() > length) sets[set].resize(length);
  }
}

}  // namespace ei::kv
