// What a KV compression may be told: the parameters of the methods, with the names docs and flags use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ei::policy {

// A KV method by its name; policy/registry.h lists them.
struct KvRule {
  std::string_view name;

  static const KvRule kKeepAll;  // "full": nothing is dropped
  static const KvRule kLatent;   // "latent": wait for generated tokens, then keep what the last queries attend to

  friend constexpr bool operator==(const KvRule& a, const KvRule& b) { return a.name == b.name; }
};
inline constexpr KvRule KvRule::kKeepAll{"full"};
inline constexpr KvRule KvRule::kLatent{"latent"};

enum class Pooling : uint8_t { kAverage, kMax };
enum class GroupAggregate : uint8_t { kMean, kMax };

// How a layer's slots are shared out among its sets (policy/kv/head_share.h).
enum class KvShare : uint8_t { kFlat, kAdaptive, kDistinct };
const char* kv_share_name(KvShare share);  // "flat", "adaptive", "distinct"

// How all slots are shared out among the layers (policy/kv/layer_share.h).
enum class KvLayers : uint8_t {
  kFlat,
  kPyramid,          // the first keep more than the last
  kEntropy,          // in proportion to the mean entropy of their heads' attention
  kSpread,           // in proportion to its exponential: over how many slots they look
  kFocus,            // in inverse proportion to its exponential
  kDistinct,         // in proportion to how many different slots their queries look at
  kMass,             // where the best scores of all layers stand
  kEntropyInverse,   // the other way round than kEntropy
  kEntropyRest,      // for research: in proportion to the entropy behind the sinks,
  kEntropyShuffled,  // and each layer what another should get
};
const char* kv_layers_name(KvLayers layers);
bool by_entropy(KvLayers layers);

// Whose attention is measured.
enum class QuerySource : uint8_t {
  kNone,
  kLast,     // the last W queries
  kSampled,  // queries that lie evenly over the whole text
  kAll,      // every query, added up while the text is read
};
const char* query_source_name(QuerySource queries);  // "none", "last", "sampled", "all"

// Who chooses its slots on its own.
enum class KvGranularity : uint8_t {
  kHead,    // every query head; a kv_head keeps what any of its heads keeps, so it may hold group times the budget
  kKvHead,  // every kv_head, by what its heads attend to together
  kLayer,   // one set for all heads of a layer
};
const char* kv_granularity_name(KvGranularity granularity);  // "head", "kv_head", "layer"

// What shares that are no whole numbers become.
enum class KvRounding : uint8_t {
  kExact,     // the sum is what it should be
  kReleased,  // as the authors round, each on its own: the sum may miss by a few slots
};
const char* kv_rounding_name(KvRounding rounding);  // "exact", "released"

struct KvOptions {
  KvRule rule = KvRule::kKeepAll;
  int32_t budget = 1024;           // slots per kv_head behind a compression, the window included
  KvShare share = KvShare::kFlat;  // other than flat: `budget` is the mean over the kv_heads of a layer
  int32_t gap = 16;                // generated tokens to wait for; -1: compress when the prompt has been read
  int32_t window = 32;             // W: recorded queries, and the most recent slots, which always stay
  double recent = 0;               // share of the budget that the most recent slots are, W at least
  int32_t repeat = 256;            // R: look again every R generated tokens; 0: once only
  double carry = 0;                // share of a slot's score that counts beside the next one
  Pooling pooling = Pooling::kAverage;
  int32_t kernel = 5;  // slots pooled together, odd
  GroupAggregate aggregate = GroupAggregate::kMean;
  double key_share = 0;  // of the slots that are chosen by attention: share that goes to keys unlike the others instead
  double attended = 0;   // of these, slots that attention keeps for each over which it spreads, before any go to keys
  int32_t sinks = 0;     // first slots that always stay
  KvLayers layers = KvLayers::kFlat;  // other than flat: `budget` is the mean over the layers
  double floor_share = 0.2;           // uneven shares: that of the flat budget nobody goes below; AdaKV's with GQA
  KvGranularity granularity = KvGranularity::kKvHead;
  KvRounding rounding = KvRounding::kExact;
  QuerySource queries = QuerySource::kLast;
  int32_t samples = 64;      // sampled: queries at most, and half of them at least once the text is that long
  int32_t seed = 1;          // of what is drawn: shuffled layers, random slots
  double budget_share = 0;   // other than 0, instead of `budget`: this share of the text so far ...
  int32_t budget_base = 0;   // ... and so many slots beside it
  int64_t budget_bytes = 0;  // other than 0, instead of `budget`: of all layers that take part together
  // Of a cache that is kept whole (policy/kv/quest.h).
  int32_t read = 0;       // tokens that a generated one reads, in pages chosen anew for each; 0: everything
  int32_t page = 16;      // tokens of a page
  int32_t read_skip = 2;  // layers below read everything

  // The budget is so many slots, whatever it was.
  void keep_slots(int32_t slots) {
    budget = slots;
    budget_share = 0;
    budget_base = 0;
    budget_bytes = 0;
  }
  // Bytes are a limit: no rounding takes more of them.
  bool sums_exactly() const { return rounding == KvRounding::kExact || budget_bytes > 0; }
};

// "512", "20%" or "64MiB" (also B, KiB, GiB): slots per kv_head, a share of the text, or bytes of the whole cache.
Status set_budget(KvOptions& options, const std::string& text);
std::string budget_text(const KvOptions& options);

// One line that names the wrong value and the cure.
Status validate(const KvOptions& options);

}  // namespace ei::policy
