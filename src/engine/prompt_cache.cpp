#include "engine/prompt_cache.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/engine.h"
#include "policy/prefill/option_table.h"

namespace ei {
namespace {

// How the session reads prompts: a cache that was filled otherwise holds other values.
std::string reading_of(const Session& session) {
  if (session.planner() == nullptr) return "full";
  return "sparse" + policy::exact_text(session.planner()->options());
}

// The note in the file: how it was read, a zero, the tokens, what the session goes on with beside the cache.
Result<std::string> make_note(const Session& session) {
  std::string note = reading_of(session);
  note += '\0';
  const std::span<const int32_t> tokens = session.tokens();
  note.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  EI_ASSIGN_OR_RETURN(const std::string memory, session.memory());
  return note + memory;
}

}  // namespace

Status save_prompt(const Session& session, const std::string& path, const CancelToken* cancel) {
  const kv::Store& store = session.store();
  if (!store.exact())
    return make_error(ErrorKind::kUsage, "cannot save '%s': a compression has dropped a part of the cache",
                      path.c_str());
  if (static_cast<int64_t>(session.tokens().size()) != store.next_position())
    return make_error(ErrorKind::kUsage, "cannot save '%s': the cache holds more than the prompt", path.c_str());
  EI_ASSIGN_OR_RETURN(const std::string note, make_note(session));
  return store.save(path, session.engine().model_hash(), cancel, note);
}

Result<SavedPrompt> load_prompt(Session& session, const std::string& path, std::span<const int32_t> prompt,
                                const CancelToken* cancel) {
  std::string note;
  EI_ASSIGN_OR_RETURN(kv::Store store, kv::Store::load(path, session.engine().model_hash(), session.engine().backend(),
                                                       cancel, &note, &session.store().config()));
  const size_t end = note.find('\0');
  std::vector<int32_t> tokens(static_cast<size_t>(store.next_position()));
  const size_t bytes = tokens.size() * sizeof(int32_t);
  if (end == std::string::npos || note.size() - end - 1 < bytes)
    return make_error(ErrorKind::kUsage, "cannot load '%s': it was saved without its text", path.c_str());
  std::memcpy(tokens.data(), note.data() + end + 1, bytes);
  SavedPrompt saved{.saved = static_cast<int64_t>(tokens.size()), .why = {}};
  if (note.substr(0, end) != reading_of(session)) {
    saved.why = "it was read by another method";
    return saved;
  }
  const kv::StoreConfig& own = session.store().config();
  if (store.config().key_type != own.key_type || store.config().value_type != own.value_type) {
    saved.why = str_format("its cache is %s and %s", dtype_name(store.config().key_type),
                           dtype_name(store.config().value_type));
    return saved;
  }
  // What the prompt does not begin with need not fit.
  const auto ends = std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end());
  const int64_t shared = std::min<int64_t>(ends.first - prompt.begin(), static_cast<int64_t>(prompt.size()) - 1);
  if (shared <= 0) {
    saved.why = "it holds another text";
    return saved;
  }
  EI_RETURN_IF_ERROR(store.truncate(static_cast<int32_t>(shared)));
  EI_RETURN_IF_ERROR(session.adopt(std::move(store), std::span(tokens).first(static_cast<size_t>(shared)),
                                   std::string_view(note).substr(end + 1 + bytes)));
  if (!session.watched()) {
    EI_RETURN_IF_ERROR(session.truncate(0));
    saved.why = "the KV method adds up the attention of the whole text, and these sums are of another one";
    return saved;
  }
  saved.kept = shared;
  return saved;
}

}  // namespace ei
