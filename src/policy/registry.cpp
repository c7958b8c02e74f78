#include "policy/registry.h"

namespace ei::policy {
namespace {

// As published for LongBench: max pooling over 7 slots, once, when the prompt has been read.
constexpr KvOptions kSnapKv = {.rule = KvRule::kLatent, .gap = -1, .repeat = 0, .pooling = Pooling::kMax, .kernel = 7};
constexpr KvOptions kAdaKv = [] {
  KvOptions options = kSnapKv;
  options.share = KvShare::kAdaptive;
  return options;
}();

constexpr Method kMethods[] = {
    {.name = "full", .summary = "dense attention, the whole cache kept", .prefill = {}, .kv = {}},
    {.name = "entropyinfer",
     .summary = "sparse prefill, entropies of sampled attention divide what is read; repeated latent KV compression",
     .prefill = {.rule = PrefillRule::kEntropy,
                 .base_budget = 0,
                 .logit_scale = LogitScale::kInverseSqrtDim,
                 .early_share = 4,
                 .select = BlockRank::kAdaptive,
                 .candidate_share = 2},
     .kv = {.rule = KvRule::kLatent}},
    {.name = "entropyinfer-released",
     .summary = "EntropyInfer as its authors released it: one budget per layer, blocks by probability, one compression",
     .prefill = {.rule = PrefillRule::kGrowth, .rigid_test = RigidTest::kWholeTrace, .mode = SparseMode::kReleased},
     .kv = {.rule = KvRule::kLatent, .repeat = 0}},
    {.name = "critiprefill",
     .summary = "CritiPrefill: sparse prefill with one fixed budget; the whole cache kept",
     .prefill = {.rule = PrefillRule::kFixed, .block = 32, .layer_fusion = true},
     .kv = {}},
    {.name = "snapkv",
     .summary = "SnapKV: dense prefill, then one compression by what the end of the prompt attends to",
     .prefill = {},
     .kv = kSnapKv},
    {.name = "adakv",
     .summary = "AdaKV: as snapkv, the slots of a layer shared out among its kv_heads by score",
     .prefill = {},
     .kv = kAdaKv},
};

}  // namespace

std::span<const Method> methods() { return kMethods; }

const Method* find_method(std::string_view name) {
  for (const Method& method : kMethods)
    if (method.name == name) return &method;
  return nullptr;
}

}  // namespace ei::policy
