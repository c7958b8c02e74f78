#include "engine/generate.h"

#include "base/clock.h"
#include "engine/generation.h"

namespace ei {

Result<GenerateResult> generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                                const GenerateCallbacks& callbacks) {
  EI_ASSIGN_OR_RETURN(const auto generation, Generation::begin(session, prompt, options));
  GenerateResult result;
  result.seed = generation->seed();
  const double start = now_s();
  using Stage = Generation::Stage;
  while (generation->stage() == Stage::kReading) EI_RETURN_IF_ERROR(generation->read(0, callbacks.on_progress));
  if (callbacks.on_prompt_read) EI_RETURN_IF_ERROR(callbacks.on_prompt_read());

  const auto emit = [&](const std::string& text) {
    if (text.empty()) return;
    result.text += text;
    if (callbacks.on_text) callbacks.on_text(text);
  };
  while (generation->stage() != Stage::kFinished) {
    if (options.stop_soon != nullptr && options.stop_soon->cancelled()) {
      generation->stop(Generation::Ending::kInterrupted);
      break;
    }
    EI_ASSIGN_OR_RETURN(const Generation::Piece piece, generation->sample());
    if (result.ttft_s == 0) result.ttft_s = now_s() - start;
    emit(piece.text);
    if (generation->stage() == Stage::kFeeding) EI_RETURN_IF_ERROR(generation->feed());
  }
  emit(generation->rest());
  result.tokens = generation->tokens();
  result.finish_reason = generation->finish_reason();
  result.failure = generation->failure();
  return result;
}

}  // namespace ei
