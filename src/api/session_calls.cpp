// Sessions: reading, feeding, what they hold.
#include <string_view>

#include "api/calls.h"
#include "api/handles.h"
#include "api/method_text.h"
#include "sparse/planner.h"

using namespace ei;       // NOLINT: the functions of a C interface have no namespace
using namespace ei::api;  // NOLINT

namespace {
Status set_type(const char* name, std::optional<DType>& type) {
  if (name == nullptr) return {};
  type = dtype_from_name(name);
  if (type) return {};
  return make_error(ErrorKind::kUsage,
                    "no type of a cache: '%s'; there are f32, f16, bf16, on a CPU q8_0, and on a GPU fp8", name);
}

Result<SessionOptions> session_options(const EiSessionOptions& given) {
  if (given.context < 0 || given.batch < 0) return Error{ErrorKind::kUsage, "context and batch are not negative"};
  SessionOptions own;
  own.context = given.context;
  own.batch = given.batch;
  EI_RETURN_IF_ERROR(set_type(given.key_type, own.key_type));
  EI_RETURN_IF_ERROR(set_type(given.value_type, own.value_type));
  policy::MethodChoice choice;
  if (given.method != nullptr) choice.method = given.method;
  EI_ASSIGN_OR_RETURN(choice.options, method_options(given.method_options == nullptr ? "" : given.method_options));
  own.method = choice.method;
  EI_ASSIGN_OR_RETURN(own.prefill, policy::prefill_options(choice));
  EI_ASSIGN_OR_RETURN(own.kv, policy::kv_options(choice));
  own.keep_whole = given.kv_free == 0;
  return own;
}
}  // namespace

EiStatus ei_session_new(EiEngine* engine, const EiSessionOptions* options, EiSession** session) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(engine, "engine"));
    EI_RETURN_IF_ERROR(need(session, "session"));
    EI_ASSIGN_OR_RETURN(const EiSessionOptions given, read_struct(options, "EiSessionOptions"));
    EI_ASSIGN_OR_RETURN(SessionOptions own, session_options(given));
    auto made = std::make_unique<EiSession>();
    made->engine = engine->engine;
    own.cancel = &made->cancel;
    EI_ASSIGN_OR_RETURN(made->session, engine->engine->new_session(own));
    if (given.keep_plan != 0 && made->session->planner() != nullptr) made->session->planner()->keep_blocks(true);
    *session = made.release();
    return {};
  });
}

void ei_session_free(EiSession* session) { delete session; }

void ei_session_cancel(EiSession* session) {
  if (session != nullptr) session->cancel.cancel();
}

EiStatus ei_session_prefill(EiSession* session, const int32_t* tokens, size_t num_tokens, EiProgressFn on_progress,
                            void* user) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(session, "session"));
    EI_ASSIGN_OR_RETURN(const std::span<const int32_t> given, read_list(tokens, num_tokens, "tokens"));
    const CancelScope scope(*session);
    return session->session->prefill(given, [&](const PrefillProgress& state) {
      if (on_progress != nullptr && on_progress(user, state.done, state.total) != 0) session->cancel.cancel();
    });
  });
}

EiStatus ei_session_evaluate(EiSession* session, const int32_t* tokens, size_t num_tokens, EiLogitsFn on_logits,
                             void* user) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(session, "session"));
    if (on_logits == nullptr) return Error{ErrorKind::kUsage, "on_logits is null"};
    EI_ASSIGN_OR_RETURN(const std::span<const int32_t> given, read_list(tokens, num_tokens, "tokens"));
    const CancelScope scope(*session);
    bool stopped = false;
    EI_RETURN_IF_ERROR(session->session->evaluate(given, [&](int64_t position, std::span<const float> logits) {
      if (stopped || on_logits(user, position, logits.data(), logits.size()) == 0) return;
      stopped = true;
      session->cancel.cancel();
    }));
    if (stopped) return Error{ErrorKind::kInterrupted, "interrupted behind the last logits"};
    return {};
  });
}

EiStatus ei_session_decode(EiSession* session, int32_t token) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(session, "session"));
    const CancelScope scope(*session);
    return session->session->decode(token);
  });
}

const float* ei_session_logits(EiSession* session, size_t* vocab) {
  const std::span<const float> logits = session == nullptr ? std::span<const float>() : session->session->logits();
  if (vocab != nullptr) *vocab = logits.size();
  return logits.empty() ? nullptr : logits.data();
}

int64_t ei_session_position(EiSession* session) { return session == nullptr ? 0 : session->session->position(); }
int64_t ei_session_context(EiSession* session) { return session == nullptr ? 0 : session->session->context(); }

EiStatus ei_session_truncate(EiSession* session, int64_t position) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(session, "session"));
    const int64_t held = session->session->position();
    if (position < 0 || position > held) {
      return make_error(ErrorKind::kUsage, "position %lld is outside of the %lld tokens that the session holds",
                        static_cast<long long>(position), static_cast<long long>(held));
    }
    return session->session->truncate(position);
  });
}

EiStatus ei_session_stats(EiSession* session, EiStats* stats) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(session, "session"));
    const Session& from = *session->session;
    EiStats own{};
    own.prompt_tokens = from.stats().prompt_tokens;
    own.generated_tokens = from.stats().generated_tokens;
    own.prompt_s = from.stats().prompt_s;
    own.decode_s = from.stats().decode_s;
    own.density = from.stats().density();
    own.kv_bytes = from.store().bytes() + (from.has_view() ? from.reading().bytes() : 0);
    own.kv_bytes_full = from.reading().bytes_full();
    own.compressions = from.stats().compressions;
    return write_struct(own, stats, "EiStats");
  });
}
