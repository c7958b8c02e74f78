#include "policy/registry.h"

namespace ei::policy {
namespace {

constexpr Method kMethods[] = {
    {.name = "full", .summary = "dense attention, the whole cache kept", .prefill = {}, .kv = {}},
    {.name = "entropyinfer",
     .summary = "entropy-guided sparse prefill, each kv_head with its own budget; repeated latent KV compression",
     .prefill = {.rule = PrefillRule::kEntropy,
                 .base_budget = 1024,
                 .early_share = 4,
                 .logit_scale = LogitScale::kInverseSqrtDim,
                 .select = BlockRank::kHabit,
                 .rated_share = 2},
     .kv = {.rule = KvRule::kLatent}},
    {.name = "entropyinfer-released",
     .summary = "EntropyInfer as its authors released it: one budget per layer, blocks by probability, one compression",
     .prefill = {.rule = PrefillRule::kEntropy, .mode = SparseMode::kReleased, .rigid_test = RigidTest::kWholeTrace},
     .kv = {.rule = KvRule::kLatent, .repeat = 0}},
};

}  // namespace

std::span<const Method> methods() { return kMethods; }

const Method* find_method(std::string_view name) {
  for (const Method& method : kMethods)
    if (method.name == name) return &method;
  return nullptr;
}

}  // namespace ei::policy
