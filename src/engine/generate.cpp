#include "engine/generate.h"

#include <memory>
#include <new>

#include "base/clock.h"
#include "engine/generation.h"

namespace ei {

namespace {
// Given back when memory runs out: what has been generated must still be told.
constexpr size_t kReserve = size_t{1} << 20;
struct Release {
  void operator()(void* bytes) const { ::operator delete(bytes); }
};
}  // namespace

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
  const auto make_token = [&]() -> Status {
    try {
      EI_ASSIGN_OR_RETURN(const Generation::Piece piece, generation->sample());
      if (result.ttft_s == 0) result.ttft_s = now_s() - start;
      emit(piece.text);
      if (generation->stage() == Stage::kFeeding) return generation->feed();
    } catch (const std::bad_alloc&) {
      return make_error(ErrorKind::kMemory, "out of memory");
    }
    return {};
  };
  std::unique_ptr<void, Release> reserve(::operator new(kReserve));
  while (generation->stage() != Stage::kFinished) {
    if (options.stop_soon != nullptr && options.stop_soon->cancelled()) {
      generation->stop(Generation::Ending::kInterrupted);
      break;
    }
    if (const Status made = make_token(); !made.ok()) {
      // What was a token too much leaves the answer so far; without a single one there is none.
      if (made.error().kind != ErrorKind::kMemory || generation->tokens().empty()) return made.error();
      reserve = nullptr;
      generation->give_up(made.error());
    }
  }
  reserve = nullptr;
  emit(generation->rest());
  result.tokens = generation->tokens();
  result.finish_reason = generation->finish_reason();
  result.failure = generation->failure();
  return result;
}

}  // namespace ei
