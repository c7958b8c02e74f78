// How the blocks of one kv_head are ranked, and what a sample of its attention says: the one is written by a method and
// read by the kernels, the other the other way round.
#pragma once

#include <cstdint>

namespace ei {

// Which query of a token speaks for the heads of a kv_head.
enum class GroupQuery : uint8_t {
  kMean,        // the mean of the group's queries
  kLeastLocal,  // the heads of the group weighted by softmax over heads of -(log-sum-exp of the own segment)
  kEach,        // every head of the group for itself
};
constexpr int64_t num_queries(GroupQuery queries, int64_t group) { return queries == GroupQuery::kEach ? group : 1; }

// Whose attention is sampled, in rows that lie evenly over the segment.
enum class Sampling : uint8_t {
  kNone,
  kMean,   // of the mean query of the group, 32 rows
  kHeads,  // of the group's heads in turn: row r of head r mod group, 32 rows of each
};

struct BlockRanking {
  bool latest = false;  // no products: the sink, then the latest blocks
  int32_t rows = 0;     // of each query only that many rows rank, those furthest from the rows' mean query; 0: all
  int32_t candidates =
      0;  // and about that many blocks, those of the super-blocks with the largest upper bounds; 0: all
  GroupQuery queries = GroupQuery::kMean;
  Sampling sampling = Sampling::kNone;
};

// Attention of the sampled rows to the blocks before their segment. The first block is the sink; all others together
// are far. A row's far distribution is its attention to the far blocks, divided by its far share; rows are weighted by
// these shares.
struct AttentionSample {
  float sink = 0;             // mean share of the sink
  float far = 0;              // mean share of the far blocks
  float distant = 0;          // of these, the ones that end a segment or more before the own one
  float segment_entropy = 0;  // of the mean far distribution, nats: over how many blocks the segment spreads
  float row_entropy = 0;  // mean entropy of single rows' far distributions, nats: over how many blocks a row spreads
};

}  // namespace ei
