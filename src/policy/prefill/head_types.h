// Types of heads by samples of their attention, and what follows for the ranking of their blocks
// (docs/notes/selection.md).
#pragma once

#include <cstdint>

#include "policy/prefill/method.h"

namespace ei::policy {

// Is the attention of this segment sampled? Every segment is at the beginning and while the text is dense.
bool is_sampled_segment(const PrefillOptions& options, int32_t segment);
// The logarithm of exp(H_segment)^a * exp(H_segment - H_row)^b * far^c.
float log_weight(const PrefillOptions& options, const AttentionSample& sample);
// Folds the sample of a segment in.
void add_sample(const PrefillOptions& options, int32_t segment, const AttentionSample& sample, SampleMeans& means);

HeadType type_of(const SampleMeans& means);

// Whose queries rank in a segment; never kAuto.
RankQueries rank_queries_at(const PrefillOptions& options, const PrefillShape& shape, int32_t segment);

// How the blocks of a kv_head are ranked that may read `most_read` of the tokens before the segment.
BlockRanking ranking_for(const PrefillOptions& options, const PrefillShape& shape, const SegmentPlace& place,
                         HeadType type, int64_t most_read);

// Of `tokens` tokens, each beyond 32768 counts as `further` tokens.
int64_t weighed_tokens(int64_t tokens, double further);

// At least this many tokens are read in a layer below layer_skip that is not dense.
int64_t early_tokens(const PrefillOptions& options, int32_t layer, int64_t before);

}  // namespace ei::policy
