// Types of heads by samples of their attention, and what follows for the ranking of their blocks
// (docs/notes/selection.md).
#pragma once

#include <cstdint>

#include "policy/prefill/method.h"

namespace ei::policy {

// Is the attention of this segment sampled, where types alone are wanted? Every one is at the beginning and while the
// text is dense, then one now and then.
bool is_sampled_segment(const PrefillOptions& options, int32_t segment);
// Does the segment lie in the part of a text in which every one is?
bool is_sampled_early(const PrefillOptions& options, int32_t segment);
// Folds a sample in: `keep` is the share of the old means that stays.
void fold_means(float keep, const AttentionSample& sample, SampleMeans& means);
// Folds the sample of a segment in: plain means over the early part of a text, then running ones.
void add_sample(const PrefillOptions& options, int32_t segment, const AttentionSample& sample, SampleMeans& means);

HeadType type_of(const SampleMeans& means);

// Whose queries rank in a segment; never kAuto.
RankQueries rank_queries_at(const PrefillOptions& options, const PrefillShape& shape, int32_t segment);

// How the blocks of a kv_head of this type are ranked. `candidates`: tokens that a diffuse one rates; 0: all.
BlockRanking ranking_for(const PrefillOptions& options, const PrefillShape& shape, const SegmentPlace& place,
                         HeadType type, int64_t candidates);

}  // namespace ei::policy
