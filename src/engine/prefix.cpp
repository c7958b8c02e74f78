#include "engine/prefix.h"

#include <algorithm>

namespace ei {

PrefixReuse find_prefix(const Session& session, std::span<const int32_t> prompt) {
  if (prompt.empty()) return {};
  const std::span<const int32_t> held = session.tokens();
  const auto ends = std::mismatch(prompt.begin(), prompt.end(), held.begin(), held.end());
  PrefixReuse reuse;
  reuse.shared = std::min<int64_t>(ends.first - prompt.begin(), static_cast<int64_t>(prompt.size()) - 1);
  reuse.kept = session.rewind_point(reuse.shared);
  return reuse;
}

Result<PrefixReuse> reuse_prefix(Session& session, std::span<const int32_t> prompt) {
  const PrefixReuse reuse = find_prefix(session, prompt);
  EI_RETURN_IF_ERROR(session.truncate(reuse.kept));
  return reuse;
}

}  // namespace ei
