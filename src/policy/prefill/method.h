// PrefillMethod: what a sparse prefill decides, as pure data. One small file per method beside this one; registry.h
// makes them by name.
//
// A prompt is read segment by segment in every layer. The planner samples the attention of the segments that samples()
// names; then, segment by segment, rank() says how each kv_head's blocks are to be rated, by what the segments before
// have shown, observe() carries the means on and has fold() add what was measured, and decide() turns them into counts
// of blocks; then blocks are rated and the best of each list read. All state lives in the records: rewinding drops
// them, a failed chunk never appends its own, and how a prompt is cut cannot matter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/block_plan.h"
#include "plan/block_ranking.h"
#include "policy/prefill/options.h"

namespace ei::policy {

// What a kv_head does, by the shares of its attention (docs/glossary.md).
enum class HeadType : uint8_t {
  kUnknown,  // not sampled yet
  kLocal,    // hardly looks further back than a segment
  kSink,     // rests on the first block and looks up now and then
  kDiffuse,  // spreads over the text
};
const char* head_type_name(HeadType type);  // "unknown", "local", "sink", "diffuse"

// What the samples of a kv_head have shown up to a segment: running means, of entropies and of the logarithm of `far`.
struct SampleMeans {
  float sink = 0;
  float distant = 0;
  float log_far = 0;
  float segment_entropy = 0;
  float row_entropy = 0;
  float log_weight = 0;             // of the kv_head's share (entropyinfer.cpp)
  float first_segment_entropy = 0;  // of the first sample, to compare with
  int32_t samples = 0;
};

// One kv_head in one segment.
struct HeadRecord {
  // Measured, where the method asked for it.
  float midrange_entropy = 0;  // E_s of the block scores of mid-ranges
  int32_t covering = 0;        // blocks, the most probable by these scores first, that hold the share covers()
  bool sampled = false;
  AttentionSample sample;
  // Carried to the next segment.
  SampleMeans means;  // with this segment's own sample, where there is one
  bool rigid = true;
  float budget = 0;  // tokens of earlier text
  // Decided.
  HeadType type = HeadType::kUnknown;
  BlockRanking ranking;
  int32_t blocks = 0;           // how many are read; of a dense segment all
  std::vector<int32_t> chosen;  // which, where the planner keeps them
};

// What the segments of a pool share (entropyinfer.cpp).
struct PoolRecord {
  double density = 0;  // share of the text that is read on the average; 0: not made yet
  double filled = 0;   // kappa by the weights at the pool's beginning; 0: none was known
  double kappa = 0;    // the same, less what weights grow inside a pool
};

struct SegmentRecord {
  int32_t segment = 0;
  bool dense = false;  // reads everything
  PoolRecord pool;
  std::vector<HeadRecord> heads;  // [kv_heads]
};

using LayerRecords =
    std::vector<SegmentRecord>;  // ascending segments; those that were generated, not read, are missing

// What a method may know of the model.
struct PrefillShape {
  int32_t layers = 1;
  int32_t kv_heads = 1;
  // Multiply-adds for one token of a prompt: with the weights of all layers, and of every head with one earlier key in
  // all layers that choose.
  double products = 0;
  double per_key = 0;
  int32_t choosing_heads = 0;  // kv_heads of all layers that choose; 0: not known, many
};

struct SegmentPlace {
  int32_t layer = 0;
  int32_t segment = 0;
  int64_t rows = 0;      // of the segment that are here
  bool attends = false;  // do its rows attend sparsely, so that a ranking is needed?
  bool sampled = false;  // is its attention sampled?
};

// What lies behind a run of segments of one layer.
struct PrefillHistory {
  const SegmentRecord* previous = nullptr;  // the layer's latest record before the run; null: none
  std::span<const LayerRecords> layers;     // all layers, complete up to the pool (see below) that the run is in

  // What a kv_head had shown before the run.
  SampleMeans means_before(size_t kv_head) const {
    return previous != nullptr ? previous->heads[kv_head].means : SampleMeans{};
  }
};

// Which queries the kv_heads of a segment may rank with.
struct RankedBy {
  bool heads = false;   // some with each head of the group for itself (GroupQuery::kEach)
  bool groups = false;  // some with one query for the group, its heads weighed perhaps (GroupQuery::kLeastLocal)
  bool allows(GroupQuery queries) const {
    return queries == GroupQuery::kMean || (queries == GroupQuery::kEach ? heads : groups);
  }
};

class PrefillMethod {
 public:
  PrefillMethod(const PrefillOptions& options, const PrefillShape& shape) : options_(options), shape_(shape) {}
  virtual ~PrefillMethod() = default;

  const PrefillOptions& options() const { return options_; }

  // Segments of a pool of this many share what all layers know of the segments before the pool; a chunk of a prompt
  // never reaches over its end. 0: a method that does not look at other layers.
  virtual int32_t pool_segments() const { return 0; }
  // Does the entropy of mid-ranges have a say?
  virtual bool reads_midrange() const { return true; }
  // Share of the probability of blocks, by their mid-range scores, that HeadRecord::covering is to hold; 0: not wanted.
  virtual double covers() const { return 0; }

  // Is the attention of a whole segment sampled?
  virtual bool samples(int32_t segment) const;
  // Whose attention is sampled.
  virtual Sampling sampling() const { return Sampling::kMean; }
  // What rank() may write for a segment: known before its operations are recorded.
  virtual RankedBy ranked_by(int32_t segment) const;

  // Writes type and ranking of every kv_head.
  void rank(const SegmentPlace& place, const PrefillHistory& history, SegmentRecord& record) const;
  // Carries the means of the record before on, the samples of this one folded in where there are any.
  void observe(const SegmentRecord* previous, SegmentRecord& record) const;
  // Writes budget, rigid and blocks of consecutive segments of one layer, the first one at `place`.
  virtual void decide(const SegmentPlace& place, const PrefillHistory& history, std::span<SegmentRecord> run) const = 0;
  // Does it name the blocks itself, instead of having them ranked?
  virtual bool chooses() const { return false; }
  // Writes the blocks, ascending, that a kv_head reads of those before the segment: as many as decide() said.
  virtual void choose(const SegmentPlace&, size_t /*kv_head*/, std::span<int32_t> /*blocks*/) const {}

 protected:
  const PrefillShape& shape() const { return shape_; }
  // Blocks before a segment.
  int32_t visible(int32_t segment) const { return segment * options_.grid().blocks_per_segment(); }
  // Folds the sample of a segment into a kv_head's means. Here: what types of heads are told by.
  virtual void fold(int32_t segment, const AttentionSample& sample, SampleMeans& means) const;
  // How the blocks of a kv_head that has shown this before the segment are ranked, `rated` being its rated_tokens().
  virtual BlockRanking ranking(const SegmentPlace& place, const SampleMeans& before, int64_t rated) const;
  // The tokens that a kv_head rates for which not all are rated, those of the largest upper bounds, when it wants this
  // many; 0: all.
  virtual int64_t candidates(const SegmentPlace& place, int64_t rated) const;
  // Writes what a segment knows before anything of it is measured.
  virtual void begin_segment(const PrefillHistory&, SegmentRecord&) const {}
  // Tokens that a kv_head, its type known, wants rated where not all are: no fewer than it may read, for a block
  // without a rating would be read for its place in the text.
  virtual int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory& history, const SegmentRecord& record,
                               size_t kv_head) const = 0;

 private:
  PrefillOptions options_;
  PrefillShape shape_;
};

// The method that the options name; null for PrefillRule::kDense.
std::unique_ptr<PrefillMethod> make_prefill_method(const PrefillOptions& options, const PrefillShape& shape);

}  // namespace ei::policy
