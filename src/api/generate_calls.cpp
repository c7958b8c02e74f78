// Answers.
#include <algorithm>
#include <string_view>

#include "api/calls.h"
#include "api/handles.h"
#include "engine/fits.h"
#include "engine/prefix.h"

using namespace ei;       // NOLINT: the functions of a C interface have no namespace
using namespace ei::api;  // NOLINT

namespace {
Result<GenerateOptions> generate_options(const EiGenerateOptions& given) {
  if (given.max_tokens < 0) return Error{ErrorKind::kUsage, "max_tokens is not negative; 0 goes on to the end"};
  GenerateOptions own;
  own.max_tokens = given.max_tokens == 0 ? -1 : given.max_tokens;
  own.ignore_eos = given.ignore_eos != 0;
  EI_ASSIGN_OR_RETURN(const auto stops, read_list(given.stop, given.num_stop, "EiGenerateOptions.stop"));
  for (const char* stop : stops) {
    EI_RETURN_IF_ERROR(need(stop, "a string of EiGenerateOptions.stop"));
    if (*stop != '\0') own.stop.emplace_back(stop);
  }
  text::SamplerOptions& sampler = own.sampler;
  sampler.seed = given.seed;
  sampler.temp = given.temp;
  sampler.top_k = given.top_k;
  sampler.top_p = given.top_p == 0 ? 1.0f : given.top_p;
  sampler.min_p = given.min_p;
  sampler.repeat_penalty = given.repeat_penalty == 0 ? 1.0f : given.repeat_penalty;
  sampler.ignore_eos = own.ignore_eos;
  if (given.grammar != nullptr) sampler.grammar = given.grammar;
  if (given.json_schema != nullptr) sampler.json_schema = given.json_schema;
  return own;
}

// What of the prompt is still to be read; the session stands in front of it.
Result<std::span<const int32_t>> rest_of(Session& session, std::span<const int32_t> prompt, bool whole) {
  const int64_t before = whole ? 0 : session.position();
  EI_RETURN_IF_ERROR(check_prompt_fits(session, before + static_cast<int64_t>(prompt.size())));
  if (!whole) return prompt;
  EI_ASSIGN_OR_RETURN(const PrefixReuse reuse, reuse_prefix(session, prompt));
  return prompt.subspan(static_cast<size_t>(reuse.kept));
}

EiAnswer answer_of(const GenerateResult& result) {
  EiAnswer own{};
  own.text = result.text.c_str();
  own.text_bytes = result.text.size();
  own.tokens = result.tokens.data();
  own.num_tokens = result.tokens.size();
  own.finish_reason = result.finish_reason.c_str();
  own.ttft_s = result.ttft_s;
  own.seed = result.seed;
  return own;
}
}  // namespace

EiStatus ei_generate(EiSession* session, const int32_t* prompt, size_t num_tokens, const EiGenerateOptions* options,
                     EiAnswer* answer) {
  return guarded([&]() -> Status {
    EI_RETURN_IF_ERROR(need(session, "session"));
    EI_ASSIGN_OR_RETURN(const EiGenerateOptions given, read_struct(options, "EiGenerateOptions"));
    EI_ASSIGN_OR_RETURN(const std::span<const int32_t> tokens, read_list(prompt, num_tokens, "prompt"));
    EI_ASSIGN_OR_RETURN(GenerateOptions own, generate_options(given));
    Session& from = *session->session;
    EI_ASSIGN_OR_RETURN(const std::span<const int32_t> rest, rest_of(from, tokens, given.whole_prompt != 0));
    const int64_t end = from.position() + static_cast<int64_t>(rest.size());
    EI_RETURN_IF_ERROR(check_cache_fits(from, from.most_slots(end, std::max<int64_t>(own.max_tokens, 0))));

    const CancelScope scope(*session);
    own.stop_soon = &session->cancel;
    GenerateCallbacks callbacks;
    callbacks.on_progress = [&](const PrefillProgress& state) {
      if (given.on_progress == nullptr) return;
      if (given.on_progress(given.user, state.done, state.total) != 0) session->cancel.cancel();
    };
    callbacks.on_text = [&](std::string_view text) {
      if (given.on_text == nullptr) return;
      if (given.on_text(given.user, text.data(), text.size()) != 0) session->cancel.cancel();
    };
    EI_ASSIGN_OR_RETURN(session->answer, generate(from, rest, own, callbacks));
    if (answer == nullptr) return {};
    EiAnswer made = answer_of(session->answer);
    made.cached_tokens = static_cast<int64_t>(tokens.size() - rest.size());
    return write_struct(made, answer, "EiAnswer");
  });
}
