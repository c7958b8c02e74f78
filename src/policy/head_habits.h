// What kv_heads do while a prompt is read, and what follows for the choice of their blocks. Some look no further back
// than about a segment, some rest on the first block and look up now and then, some spread their attention wide; which
// is which shows early in a text and hardly changes (docs/selection.md).
#pragma once

#include <cstdint>

#include "plan/head_care.h"
#include "policy/prefill_options.h"

namespace ei::policy {

enum class HeadKind : uint8_t { kUnknown, kLocal, kResting, kWide };
const char* head_kind_name(HeadKind kind);  // "unknown", "local", "resting", "wide"

// Running means of the shares of attention of one kv_head.
struct HeadHabit {
  float first = 0;  // on the first block
  float far = 0;    // on what lies a segment or more before the own one, the first block apart
  int32_t probes = 0;
};

// Is this segment probed? All are at the beginning and while the text is dense, later every sixteenth.
bool is_probed_segment(const PrefillOptions& options, int32_t segment);
// Folds the probe of a segment in.
void add_probe(const PrefillOptions& options, int32_t segment, float first, float far, HeadHabit& habit);

HeadKind kind_of(const HeadHabit& habit);

// Multiply-adds for one token of a prompt.
struct AskingPrice {
  double products = 0;  // with the weights of the model's layers
  double per_key = 0;   // of every head with one earlier key, in all layers that choose
};
// Who asks in a segment; never kAuto.
Asking asking_at(const PrefillOptions& options, const AskingPrice& price, int32_t segment);

struct LayerPlace {
  int32_t layer = 0;
  int32_t layers = 1;
};
// How the blocks of a kv_head are rated in a segment of which `rows` rows are here.
HeadCare care_for(const PrefillOptions& options, Asking asking, LayerPlace place, HeadKind kind, int32_t segment,
                  int64_t rows);
// Blocks that a kv_head of this kind reads in a segment for which its budget allows `count`.
int32_t count_for(const PrefillOptions& options, int32_t layer, HeadKind kind, int32_t segment, int32_t count);

}  // namespace ei::policy
