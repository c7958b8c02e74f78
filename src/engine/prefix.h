// Prefix reuse: what of a prompt a session holds already, so that only the rest has to be read.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "engine/session.h"

namespace ei {

struct PrefixReuse {
  int64_t shared = 0;  // leading tokens of the prompt that the session holds; at least one is left to read
  int64_t kept = 0;    // of these, where the session can go on: a compressed cache cannot go back to everywhere
};
PrefixReuse find_prefix(const Session& session, std::span<const int32_t> prompt);
// Takes the session back to `kept`: what follows there is read next.
Result<PrefixReuse> reuse_prefix(Session& session, std::span<const int32_t> prompt);

}  // namespace ei
