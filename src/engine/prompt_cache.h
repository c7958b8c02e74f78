// A prompt's cache in a file, so that the same text is read once for many runs: the KV store, the tokens it was made
// of, and how they were read. Written whole or not at all, checksummed (kv/store_file.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/session.h"

namespace ei {

// kUsage where a compression has dropped a part of the text: nothing could go on from inside it.
Status save_prompt(const Session& session, const std::string& path, const CancelToken* cancel = nullptr);

struct SavedPrompt {
  int64_t kept = 0;   // leading tokens of the prompt that the session holds now
  int64_t saved = 0;  // tokens in the file
  std::string why;    // empty, or why nothing of it could be taken, in a line
};
// Into a fresh session: as much of the file as `prompt` begins with, at most all but its last token. A file that was
// read by another method or has another type of cache gives nothing, and says so; one of another model or a damaged one
// is an error.
Result<SavedPrompt> load_prompt(Session& session, const std::string& path, std::span<const int32_t> prompt,
                                const CancelToken* cancel = nullptr);

}  // namespace ei
