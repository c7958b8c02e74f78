#include "cli/answer.h"

#include <algorithm>
#include <utility>

#include "cli/input.h"
#include "cli/method_options.h"
#include "cli/progress.h"
#include "cli/setup.h"

namespace ei::cli {

namespace {
// The one template that goes by a name, for models whose file lacks theirs.
constexpr const char* kChatml =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
}  // namespace

bool has_template(const Settings& settings, const text::Tokenizer& tokenizer) {
  return !settings.chat_template.empty() || !settings.chat_template_file.empty() || !tokenizer.chat_template().empty();
}

Result<text::ChatTemplate> choose_template(const Settings& settings, const text::Tokenizer& tokenizer) {
  std::string source = settings.chat_template == "chatml" ? kChatml : settings.chat_template;
  if (!source.empty() && source.find("{{") == std::string::npos && source.find("{%") == std::string::npos) {
    return make_error(ErrorKind::kUsage,
                      "--chat-template: '%s' is neither chatml nor a template that shows messages with {{ }}; the "
                      "model's own is taken without it",
                      source.c_str());
  }
  if (!settings.chat_template_file.empty()) {
    EI_ASSIGN_OR_RETURN(source, read_text_file(settings.chat_template_file, "chat template"));
    if (source.empty())
      return make_error(ErrorKind::kUsage, "chat template %s is empty", settings.chat_template_file.c_str());
  }
  if (!source.empty()) return text::ChatTemplate::parse(source, tokenizer);
  source = tokenizer.chat_template();
  if (source.empty()) {
    return Error{ErrorKind::kUsage, "this model has no chat template: give --chat-template, or use run --raw"};
  }
  return text::ChatTemplate::parse(source, tokenizer, tokenizer.path());
}

Result<std::vector<int32_t>> prompt_tokens(const Settings& settings, const text::Tokenizer& tokenizer,
                                           const std::string& prompt) {
  if (settings.raw || !has_template(settings, tokenizer)) {
    if (!settings.system_prompt.empty()) {
      return Error{ErrorKind::kUsage, "a system prompt needs a chat template, and this model has none"};
    }
    return tokenizer.tokenize(prompt, {.add_bos_eos = true, .parse_special = settings.parse_special});
  }
  EI_ASSIGN_OR_RETURN(const text::ChatTemplate chat, choose_template(settings, tokenizer));
  std::vector<text::Message> messages;
  if (!settings.system_prompt.empty()) messages.push_back({.role = "system", .content = settings.system_prompt});
  messages.push_back({.role = "user", .content = prompt});
  return chat.apply(messages, tokenizer, /*add_generation_prompt=*/true);
}

GenerateOptions generate_options(const Settings& settings, const Interrupts& interrupts) {
  GenerateOptions options;
  options.max_tokens = settings.predict;
  options.ignore_eos = settings.ignore_eos;
  options.stop_soon = &interrupts.stop_soon();
  text::SamplerOptions& sampler = options.sampler;
  if (settings.seed >= 0) sampler.seed = static_cast<uint32_t>(settings.seed);
  sampler.temp = static_cast<float>(settings.temp);
  sampler.top_k = static_cast<int>(settings.top_k);
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
  EI_RETURN_IF_ERROR(check_cache_fits(
      session, context.settings, session.most_slots(prompt_tokens, std::max<int64_t>(request.options.max_tokens, 0))));
  warn_beyond_training(session.engine(), prompt_tokens, context.console);
  const SessionStats before = session.stats();
  Progress progress(context.console, "reading the prompt");
  GenerateCallbacks callbacks;
  callbacks.on_progress = [&](const PrefillProgress& state) {
    progress.update(state.done, state.total, state.elapsed_s);
    if (state.done < state.total) return;
    progress.finish();
    if (request.stream) context.console.lead(request.intro);
    context.interrupts.enter(Interrupts::Phase::kAnswer);
  };
  callbacks.on_text = [&](std::string_view text) {
    if (request.stream && !context.console.print(text)) context.interrupts.stop_soon().cancel();
  };
  context.interrupts.enter(Interrupts::Phase::kPrompt);
  GenerateOptions options = request.options;
  options.held = request.prompt.first(static_cast<size_t>(request.cached));
  Result<GenerateResult> result = generate(session, request.prompt.subspan(options.held.size()), options, callbacks);
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
