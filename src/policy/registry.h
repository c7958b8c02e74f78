// The methods the engine knows, by name: what --method, --budget-rule and --kv-policy offer, what the property tests
// walk through. Every method is one source file, and one entry here (policy/entries.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/kv/method.h"
#include "policy/prefill/method.h"

namespace ei::policy {

// A preset over both halves: --method NAME.
struct Method {
  std::string_view name{};
  std::string_view summary{};  // one line for --help
  std::string_view paper{};    // authors, year, where; empty: our own
  std::string_view changes{};  // what is different here, in a line; empty: nothing
  PrefillOptions prefill{};
  KvOptions kv{};
};

// A way to say how much of a prompt is read: --budget-rule NAME.
struct PrefillEntry {
  std::string_view name{};
  std::string_view about{};  // a few words for --help; may be empty
  std::unique_ptr<PrefillMethod> (*make)(const PrefillOptions& options, const PrefillShape& shape) = nullptr;
  std::optional<BlockRank> select{};  // the only --select it works with, if there is one
  bool bounded = true;                // reads at most max_factor base budgets, --layer-skip aside
  bool by_density = false;            // divides one density over all layers: none is left out, no base budget needed
  // Its options beside those that every method reads (prefill/option_table.cpp).
  std::vector<std::string_view> reads{};
};

// A way to say which slots of a cache stay: --kv-policy NAME. The name stands for its whole preset.
struct KvEntry {
  std::string_view name{};
  std::string_view about{};
  KvOptions preset{};  // its rule names whose `make` is called
  std::unique_ptr<KvMethod> (*make)(const KvOptions& options, const KvShape& shape) = nullptr;
  bool scores_attention = true;  // are its scores attention, which is aggregated over heads and pooled?
};

// What one source file adds. A part without a name is not offered.
struct Entry {
  Method method{};
  PrefillEntry prefill{};
  KvEntry kv{};
};

std::span<const Method> methods();
std::span<const PrefillEntry> prefill_rules();
std::span<const KvEntry> kv_rules();

// "growth (published), level or fixed": what is offered, for --help.
template <typename Part>
std::string offered(std::span<const Part> parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " or " : ", ";
    text += std::string(parts[i].name) + (parts[i].about.empty() ? "" : " (" + std::string(parts[i].about) + ")");
  }
  return text;
}

// Null when there is none of that name.
const Method* find_method(std::string_view name);
const PrefillEntry* find_prefill_rule(PrefillRule rule);
const KvEntry* find_kv_rule(KvRule rule);

}  // namespace ei::policy
