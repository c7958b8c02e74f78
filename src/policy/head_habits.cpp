#include "policy/head_habits.h"

#include <algorithm>

namespace ei::policy {

namespace {
constexpr int32_t kFirstProbed = 2;  // segments: before, there is nothing far
constexpr int32_t kAllProbed = 8;    // before this one, and while the text is dense, every segment is
constexpr int32_t kProbeEvery = 16;  // later
constexpr float kDecay = 0.9f;
// A head is local when less than this share of what it does not give to the first block, and less than this share of
// all, goes far.
constexpr float kFarShare = 0.015f;
constexpr float kFarFloor = 0.003f;
// Of what lies before, each token beyond this many counts for more or less than one where a share of it is taken. Of a
// longer text early layers read and wide heads rate a smaller share, but resting heads look up more and more.
constexpr int64_t kLong = 32768;
constexpr double kFurtherRated = 0.25;
constexpr double kFurtherEarly = 0.5;
constexpr double kFurtherResting = 2;
constexpr int64_t kRatedPerRead = 2;  // where a share of the text is read
// A head that looks at home as well has more to ask than what it looks up now and then.
constexpr float kRestingOverOwn = 4;
// Products of 8 bits, in products of the model's weights, that asking may cost: with every row a tenth of the time at
// most, with some rows half of that.
constexpr double kAffordable = 0.3;
constexpr double kAffordableSomeRows = 0.15;
// Of what asking with all rows and heads about all keys takes, a quarter of the rows and half of the keys take this.
constexpr double kSomeRows = 1.0 / 8;
}  // namespace

const char* head_kind_name(HeadKind kind) {
  switch (kind) {
    case HeadKind::kUnknown: return "unknown";
    case HeadKind::kLocal: return "local";
    case HeadKind::kResting: return "resting";
    case HeadKind::kWide: return "wide";
  }
  return "";
}

namespace {
bool is_early(const PrefillOptions& options, int32_t segment) {
  return segment < kAllProbed || int64_t{segment} * options.segment < options.threshold;
}
}  // namespace

bool is_probed_segment(const PrefillOptions& options, int32_t segment) {
  if (options.select != BlockRank::kHabit || segment < kFirstProbed) return false;
  return is_early(options, segment) || segment % kProbeEvery == 0;
}

void add_probe(const PrefillOptions& options, int32_t segment, float first, float far, HeadHabit& habit) {
  const bool early = is_early(options, segment);
  // A plain mean over the beginning, then a slow running one.
  const auto seen = static_cast<float>(habit.probes);
  const float keep = early || habit.probes == 0 ? seen / (seen + 1) : kDecay;
  habit.first = keep * habit.first + (1 - keep) * first;
  habit.far = keep * habit.far + (1 - keep) * far;
  ++habit.probes;
}

HeadKind kind_of(const HeadHabit& habit) {
  if (habit.probes == 0) return HeadKind::kUnknown;
  if (habit.far < kFarShare * (1 - habit.first) || habit.far < kFarFloor) return HeadKind::kLocal;
  const float own = 1 - habit.first - habit.far;
  return habit.first > kRestingOverOwn * own ? HeadKind::kResting : HeadKind::kWide;
}

namespace {
int64_t weighed(int64_t before, double further_weight) {
  const int64_t further = std::max<int64_t>(before - kLong, 0);
  return before - further + static_cast<int64_t>(further_weight * static_cast<double>(further));
}

// What a kv_head reads of the `before` tokens that lie before a segment, however small its budget.
int64_t least_read(const PrefillOptions& options, int32_t layer, HeadKind kind, int64_t before) {
  const auto one_in = [&](int32_t share, double further_weight) {
    return share > 0 ? std::min(before, weighed(before, further_weight) / share) : 0;
  };
  if (layer < options.layer_skip) return one_in(options.early_share, kFurtherEarly);
  if (options.select != BlockRank::kHabit || options.rule == PrefillRule::kFixed) return 0;
  if (kind == HeadKind::kLocal) return 0;
  if (kind == HeadKind::kResting) return one_in(options.resting_share, kFurtherResting);
  return one_in(options.wide_share, 1);
}

int32_t rated_blocks(const PrefillOptions& options, int32_t layer, HeadKind kind, int32_t segment) {
  // What a resting kv_head looks up now and then is what a bound over many keys misses.
  if (options.rated_share == 0 || kind != HeadKind::kWide) return 0;
  const int64_t before = int64_t{segment} * options.segment;
  const int64_t tokens = weighed(before, kFurtherRated) / options.rated_share;
  // Never fewer than may be read: a block without a rating would be read for its place in the text.
  const auto budget = static_cast<int64_t>(options.max_factor * options.base_budget);
  const int64_t read = std::max(budget, kRatedPerRead * least_read(options, layer, kind, before));
  return static_cast<int32_t>(std::max({int64_t{options.threshold}, tokens, read}) / options.block);
}
}  // namespace

Asking asking_at(const PrefillOptions& options, const AskingPrice& price, int32_t segment) {
  if (options.select != BlockRank::kHabit) return Asking::kGroup;
  if (options.asking != Asking::kAuto) return options.asking;
  const double all = price.per_key * static_cast<double>(int64_t{segment} * options.segment);
  if (all <= kAffordable * price.products) return Asking::kAll;
  return kSomeRows * all <= kAffordableSomeRows * price.products ? Asking::kHeads : Asking::kGroup;
}

HeadCare care_for(const PrefillOptions& options, Asking asking, LayerPlace place, HeadKind kind, int32_t segment,
                  int64_t rows) {
  HeadCare care;
  if (options.select != BlockRank::kHabit) return care;
  care.latest = kind == HeadKind::kLocal;
  if (asking != Asking::kGroup) {
    care.voices = Voices::kEach;
  } else if (kind == HeadKind::kResting) {
    care.voices = Voices::kHomeless;
  }
  if (asking == Asking::kAll) return care;
  // What is missed in the last quarter of the layers misleads few others.
  const bool late = place.layer >= place.layers * 3 / 4;
  if (kind == HeadKind::kWide) care.rows = static_cast<int32_t>(std::max<int64_t>(1, rows / (late ? 8 : 4)));
  if (kind == HeadKind::kResting) care.rows = static_cast<int32_t>(std::max<int64_t>(1, rows / 2));
  care.blocks = rated_blocks(options, place.layer, kind, segment);
  return care;
}

int32_t count_for(const PrefillOptions& options, int32_t layer, HeadKind kind, int32_t segment, int32_t count) {
  const int32_t visible = segment * options.grid().blocks_per_segment();
  // A budget for everything is one for everything.
  if (count >= visible) return count;
  const bool habit = options.select == BlockRank::kHabit;
  if (habit && kind == HeadKind::kLocal && options.local_budget > 0)
    return std::min(count, std::max(1, options.local_budget / options.block));
  const int64_t least = least_read(options, layer, kind, int64_t{segment} * options.segment) / options.block;
  return std::max(count, static_cast<int32_t>(least));
}

}  // namespace ei::policy
