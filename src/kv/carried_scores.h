// CarriedScores: what earlier compressions thought of the slots that they left. A later one sees other queries and the
// slots of a text that is mostly gone; with their scores alone it would forget what the first one was for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "policy/kv/method.h"

namespace ei::kv {

class CarriedScores {
 public:
  explicit CarriedScores(double share = 0) : share_(share) {}

  // Adds the share of what is carried to the scores of this layer (counted among those that take part).
  void add_to(size_t layer, policy::LayerRating& rating) const;
  // These slots stay: what they score now, the carried share included, waits for commit().
  void remember(size_t layer, const policy::LayerRating& rating, const std::vector<KeepList>& keeps);
  // What was remembered since begin() is in force; other layers have theirs.
  void commit();
  void begin() { next_ = layers_; }
  void clear() { layers_.clear(); }
  void save(ByteWriter& to) const;
  // False: the bytes are damaged.
  bool restore(ByteReader& from);
  // The kv_heads of a layer hold no more than this.
  void trim(size_t layer, const std::vector<int64_t>& lengths);

 private:
  using Layer = std::vector<std::vector<float>>;  // [sets][slots]

  double share_;
  std::vector<Layer> layers_;
  std::vector<Layer> next_;
};

}  // namespace ei::kv
