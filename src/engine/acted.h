// Did a lossy method act at all? One that left nothing out computed full attention, and its figures would say nothing
// about it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ei {

struct Acted {
  bool prefill = false;  // query-key pairs of a prompt were left out
  bool kv = false;       // the cache was compressed, or read in part
  // Share of the attention that was computed when the text was read, its part from a saved cache included.
  double text_density = 1;
  // Why a half of the method that was asked for did nothing, as a sentence without its end.
  std::string prefill_idle;
  std::string kv_idle;

  bool any() const { return prefill || kv; }
  std::vector<std::string> idle() const;  // those of both halves that there are
  // Of a text that was read as one prompt, every token scored by then: what happened to the cache behind it is nothing.
  void forget_what_came_behind();
  // Over several sessions: what any of them did, and why the last did nothing.
  void add(const Acted& other);
};

// kUsage where a lossy method left nothing out and so differs by nothing from what it was compared with: a divergence
// of 0 would be taken for its quality.
Status check_comparison(const Acted& acted, const std::string& method, double divergence);

}  // namespace ei
