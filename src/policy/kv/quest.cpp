#include "policy/kv/quest.h"

#include "policy/entries.h"

namespace ei::policy {

Entry quest_entry() {
  return {.method = {.name = "quest",
                     .summary = "Quest: all is kept, the pages of the largest bounds are read",
                     .paper = "Tang et al., 2024, arXiv 2406.10774",
                     .changes = "the heads of a group choose together, by the mean of their bounds",
                     .kv = {.read = 1024}}};
}

}  // namespace ei::policy
