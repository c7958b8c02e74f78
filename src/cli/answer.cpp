#include "cli/answer.h"

#include <algorithm>
#include <utility>

#include "cli/input.h"
#include "cli/method_options.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "engine/fits.h"
#include "engine/prompt.h"

namespace ei::cli {

Result<std::string> template_source(const Settings& settings) {
  if (settings.chat_template_file.empty()) return settings.chat_template;
  EI_ASSIGN_OR_RETURN(std::string source, read_text_file(settings.chat_template_file, "chat template"));
  if (source.find('{') == std::string::npos) {
    return make_error(ErrorKind::kUsage, "chat template %s is empty: it shows no message with {{ }}",
                      settings.chat_template_file.c_str());
  }
  return source;
}

Result<std::vector<int32_t>> tokens_of(const Settings& settings, const text::Tokenizer& tokenizer,
                                       const std::string& prompt) {
  EI_ASSIGN_OR_RETURN(const std::string source, template_source(settings));
  EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, prompt_tokens({.user = prompt,
                                                                  .system = settings.system_prompt,
                                                                  .chat_template = source,
                                                                  .raw = settings.raw,
                                                                  .parse_special = settings.parse_special},
                                                                 tokenizer));
  if (tokens.empty()) return Error{ErrorKind::kUsage, "the prompt is empty: give -p TEXT or -f FILE"};
  return tokens;
}

GenerateOptions generate_options(const Settings& settings, const Interrupts& interrupts) {
  GenerateOptions options;
  options.max_tokens = settings.predict;
  options.ignore_eos = settings.ignore_eos;
  options.stop = settings.stop;
  options.stop_soon = &interrupts.stop_soon();
  text::SamplerOptions& sampler = options.sampler = settings.sampling;
  if (settings.seed >= 0) sampler.seed = static_cast<uint32_t>(settings.seed);
  sampler.temp = static_cast<float>(settings.temp);
  sampler.top_k = static_cast<int>(std::max<int64_t>(settings.top_k, 0));
  sampler.top_p = static_cast<float>(settings.top_p);
  sampler.min_p = static_cast<float>(settings.min_p);
  sampler.repeat_penalty = static_cast<float>(settings.repeat_penalty);
  sampler.repeat_last_n = static_cast<int>(settings.repeat_last_n);
  sampler.presence_penalty = static_cast<float>(settings.presence_penalty);
  sampler.frequency_penalty = static_cast<float>(settings.frequency_penalty);
  sampler.ignore_eos = settings.ignore_eos;
  sampler.grammar = settings.grammar;
  sampler.json_schema = settings.json_schema;
  return options;
}

Result<Answer> answer(const CommandContext& context, Session& session, const AnswerRequest& request) {
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  EI_RETURN_IF_ERROR(check_prompt_fits(session, prompt_tokens));
  EI_RETURN_IF_ERROR(
      check_cache_fits(session, session.most_slots(prompt_tokens, std::max<int64_t>(request.options.max_tokens, 0))));
  warn_beyond_training(session.engine(), prompt_tokens, context.console);
  const SessionStats before = session.stats();
  Progress progress(context.console, "reading the prompt");
  GenerateCallbacks callbacks;
  // When reading has begun: what is wrong with a request has been said by then.
  bool first = before.prompt_tokens == 0;
  callbacks.on_progress = [&](const PrefillProgress& state) {
    if (std::exchange(first, false) && request.introduces_model)
      introduce_model(session.engine(), context.settings, context.console);
    progress.update(state);
    if (state.done < state.total) return;
    progress.finish();
    if (request.stream) context.console.lead(request.intro);
    context.interrupts.enter(Interrupts::Phase::kAnswer);
  };
  callbacks.on_text = [&](std::string_view text) {
    if (request.stream && !context.console.print(text)) context.interrupts.stop_soon().cancel();
  };
  callbacks.on_prompt_read = request.on_prompt_read;
  context.interrupts.enter(Interrupts::Phase::kPrompt);
  Result<GenerateResult> result =
      generate(session, request.prompt.subspan(static_cast<size_t>(request.cached)), request.options, callbacks);
  context.interrupts.enter(Interrupts::Phase::kOutside);
  progress.finish();
  const auto report = [&](const GenerateResult& generated, int64_t read) {
    return make_report({.session = session,
                        .result = generated,
                        .method = context.settings.method,
                        .method_options = method_options_text(context.settings),
                        .before = before,
                        .prompt_tokens = read,
                        .cached_tokens = request.cached});
  };
  if (!result.ok() && result.error().kind == ErrorKind::kInterrupted) {
    GenerateResult nothing;
    nothing.finish_reason = "interrupted";
    if (request.json) context.console.print_line(report_json(report(nothing, session.position())));
    return make_error(ErrorKind::kInterrupted, "interrupted after %lld of %lld prompt tokens",
                      static_cast<long long>(session.position()), static_cast<long long>(prompt_tokens));
  }
  if (!result.ok()) return result.error();
  Answer made;
  made.report = report(*result, prompt_tokens);
  made.tokens = std::move(result->tokens);
  return made;
}

}  // namespace ei::cli
