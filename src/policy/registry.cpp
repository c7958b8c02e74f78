#include "policy/registry.h"

#include "policy/entries.h"

namespace ei::policy {
namespace {

// In the order in which they are shown. One line each:
// clang-format off
constexpr Entry (*kEntries[])() = {
    full_entry,
    entropyinfer_entry,
    growth_entry,
    level_entry,
    habit_entry,
    fixed_entry,
    latent_entry,
    snapkv_entry,
    adakv_entry,
    entropy_kv_entry,
    pyramid_entry,
    ada_pyramid_entry,
    tova_entry,
    h2o_entry,
    knorm_entry,
    keydiff_entry,
    expected_entry,
    random_kv_entry,
    quest_entry,
    streaming_entry,
    triangle_entry,
    cumulative_entry,
    random_prefill_entry,
};
// clang-format on

// The parts of all entries that are offered.
template <typename Part>
std::vector<Part> parts(Part Entry::*part) {
  std::vector<Part> all;
  for (const auto make : kEntries)
    if (const Part one = make().*part; !one.name.empty()) all.push_back(one);
  return all;
}

template <typename Part>
const Part* find(std::span<const Part> all, std::string_view name) {
  for (const Part& one : all)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace

std::span<const Method> methods() {
  static const std::vector<Method> all = parts(&Entry::method);
  return all;
}

std::span<const PrefillEntry> prefill_rules() {
  static const std::vector<PrefillEntry> all = parts(&Entry::prefill);
  return all;
}

std::span<const KvEntry> kv_rules() {
  static const std::vector<KvEntry> all = parts(&Entry::kv);
  return all;
}

const Method* find_method(std::string_view name) { return find(methods(), name); }
const PrefillEntry* find_prefill_rule(PrefillRule rule) { return find(prefill_rules(), rule.name); }
const KvEntry* find_kv_rule(KvRule rule) { return find(kv_rules(), rule.name); }

}  // namespace ei::policy
