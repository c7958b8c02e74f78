// Full attention: every segment reads everything, the whole cache stays.
#include "policy/entries.h"

namespace ei::policy {

Entry full_entry() {
  return {.method = {.name = "full", .summary = "dense attention, the whole cache kept"},
          .kv = {.name = "full", .about = "keep all"}};
}

}  // namespace ei::policy
