// Every stage that papers compose, over every score: for the tests that walk the registry. A new method is composed by
// being there.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "policy/registry.h"

namespace ei::testing {

struct KvStage {
  std::string name;
  std::function<void(policy::KvOptions&)> set;
  bool of_heads = false;      // shares a layer's slots out among its kv_heads: not where they all keep the same
  bool of_attention = false;  // changes whose attention counts: only where attention is the score
};

inline const std::vector<KvStage>& kv_stages() {
  using policy::KvOptions;
  static const std::vector<KvStage> stages = {
      {.name = "adaptive shares",
       .set = [](KvOptions& options) { options.share = policy::KvShare::kAdaptive; },
       .of_heads = true},
      {.name = "a pyramid of layers", .set = [](KvOptions& options) { options.layers = policy::KvLayers::kPyramid; }},
      {.name = "layers by entropy", .set = [](KvOptions& options) { options.layers = policy::KvLayers::kEntropy; }},
      {.name = "sinks", .set = [](KvOptions& options) { options.sinks = 4; }},
      {.name = "a recent half", .set = [](KvOptions& options) { options.recent = 0.5; }},
      {.name = "adaptive shares in layers by entropy, sinks, a recent quarter",
       .set =
           [](KvOptions& options) {
             options.share = policy::KvShare::kAdaptive;
             options.layers = policy::KvLayers::kEntropy;
             options.sinks = 4;
             options.recent = 0.25;
           },
       .of_heads = true},
      {.name = "sampled queries",
       .set = [](KvOptions& options) { options.queries = policy::QuerySource::kSampled; },
       .of_attention = true},
      {.name = "sums over all queries",
       .set = [](KvOptions& options) { options.queries = policy::QuerySource::kAll; },
       .of_attention = true},
  };
  return stages;
}

// The presets of all methods that drop slots, each with every stage that means something to it.
inline std::vector<std::pair<std::string, policy::KvOptions>> composed_kv() {
  std::vector<std::pair<std::string, policy::KvOptions>> all;
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    if (entry.preset.rule == policy::KvRule::kKeepAll) continue;
    const auto method = policy::make_kv_method(entry.preset, {});
    for (const KvStage& stage : kv_stages()) {
      if (stage.of_heads && entry.preset.granularity == policy::KvGranularity::kLayer) continue;
      if (stage.of_attention && !method->rates_attention()) continue;
      all.emplace_back(std::string(entry.name) + " with " + stage.name, entry.preset);
      stage.set(all.back().second);
    }
  }
  return all;
}

}  // namespace ei::testing
