#include "engine/generate.h"

#include <algorithm>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/stop_filter.h"
#include "text/stream_decoder.h"

namespace ei {

Result<GenerateResult> generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                                const GenerateCallbacks& callbacks) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  // A bad grammar must fail before the prompt is paid for.
  EI_ASSIGN_OR_RETURN(auto sampler, text::Sampler::create(tokenizer, options.sampler));
  GenerateResult result;
  result.seed = sampler->seed();
  sampler->accept(session.tokens());
  sampler->accept(prompt);
  const double start = now_s();
  EI_RETURN_IF_ERROR(session.prefill(prompt, callbacks.on_progress));
  if (callbacks.on_prompt_read) EI_RETURN_IF_ERROR(callbacks.on_prompt_read());

  text::StreamDecoder decoder(tokenizer);
  StopFilter filter(options.stop);
  const auto emit = [&](std::string_view text) {
    if (text.empty()) return;
    result.text += text;
    if (callbacks.on_text) callbacks.on_text(text);
  };
  const auto cancelled = [&] { return options.stop_soon != nullptr && options.stop_soon->cancelled(); };

  result.finish_reason = "length";
  for (int64_t count = 0; options.max_tokens < 0 || count < options.max_tokens; ++count) {
    if (cancelled()) {
      result.finish_reason = "interrupted";
      break;
    }
    const int32_t token = sampler->sample(session.logits());
    EI_RETURN_IF_ERROR(sampler->status());
    if (count == 0) result.ttft_s = now_s() - start;
    if (!options.ignore_eos && tokenizer.is_end_of_generation(token)) {
      result.finish_reason = "stop";
      break;
    }
    result.tokens.push_back(token);
    emit(filter.push(decoder.push(token)));
    if (filter.stopped()) {
      result.finish_reason = "stop";
      break;
    }
    const bool more = options.max_tokens < 0 || count + 1 < options.max_tokens;
    if (!more || session.position() >= session.context()) break;
    if (Status fed = session.decode(token); !fed.ok()) {
      const ErrorKind kind = fed.error().kind;
      if (kind != ErrorKind::kInterrupted && kind != ErrorKind::kMemory) return fed.error();
      result.finish_reason = kind == ErrorKind::kMemory ? "memory" : "interrupted";
      if (kind == ErrorKind::kMemory) result.failure = fed.error();
      break;
    }
  }
  if (!filter.stopped()) {
    emit(filter.push(decoder.finish()));
    emit(filter.finish());
  }
  return result;
}

}  // namespace ei
