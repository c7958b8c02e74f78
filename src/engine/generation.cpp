#include "engine/generation.h"

#include <utility>

#include "engine/engine.h"

namespace ei {

Generation::Generation(Session& session, GenerateOptions options, std::unique_ptr<text::Sampler> sampler)
    : session_(&session),
      options_(std::move(options)),
      sampler_(std::move(sampler)),
      decoder_(session.engine().tokenizer()),
      filter_(options_.stop) {}

Result<std::unique_ptr<Generation>> Generation::begin(Session& session, std::span<const int32_t> prompt,
                                                      const GenerateOptions& options) {
  EI_ASSIGN_OR_RETURN(auto sampler, text::Sampler::create(session.engine().tokenizer(), options.sampler));
  sampler->accept(session.tokens());
  sampler->accept(prompt);
  EI_RETURN_IF_ERROR(session.begin_prompt({prompt.begin(), prompt.end()}));
  std::unique_ptr<Generation> made(new Generation(session, options, std::move(sampler)));
  made->left_ = static_cast<int64_t>(prompt.size());
  return made;
}

Status Generation::read(int64_t most, const Session::ProgressFn& progress, const Session::LogitsFn& on_logits) {
  EI_ASSIGN_OR_RETURN(left_, session_->read_chunk(most, progress, on_logits));
  if (left_ > 0) return {};
  stage_ = Stage::kSampling;
  if (options_.max_tokens == 0) stop(Ending::kLength);
  return {};
}

void Generation::choose() noexcept try { chosen_ = sampler_->sample(session_->logits()); } catch (...) {
  choice_failed_ = true;
}

Result<Generation::Piece> Generation::sample() {
  Piece piece;
  if (choice_failed_) return make_error(ErrorKind::kMemory, "out of memory while a token was chosen");
  const int32_t token = chosen_ ? *chosen_ : sampler_->sample(session_->logits());
  chosen_.reset();
  EI_RETURN_IF_ERROR(sampler_->status());
  if (!options_.ignore_eos && session_->engine().tokenizer().is_end_of_generation(token)) {
    stop(Ending::kEndToken);
    piece.end = token;
    return piece;
  }
  piece.token = token;
  tokens_.push_back(token);
  piece.text = filter_.push(decoder_.push(token));
  const auto count = static_cast<int64_t>(tokens_.size());
  stage_ = Stage::kFeeding;
  if (filter_.stopped()) {
    stop(Ending::kStopString);
  } else if (options_.max_tokens >= 0 && count >= options_.max_tokens) {
    stop(Ending::kLength);
  } else if (session_->position() >= session_->context()) {
    stop(Ending::kContext);
  }
  return piece;
}

Status Generation::feed() { return fed(session_->decode(last_token())); }

Status Generation::fed(const Status& status) {
  stage_ = Stage::kSampling;
  if (status.ok()) return {};
  const Error& error = status.error();
  if (error.kind != ErrorKind::kInterrupted && error.kind != ErrorKind::kMemory) return error;
  if (error.kind == ErrorKind::kMemory) {
    give_up(error);
  } else {
    stop(Ending::kInterrupted);
  }
  return {};
}

void Generation::give_up(const Error& error) {
  failure_ = error;
  stop(Ending::kMemory);
}

void Generation::stop(Ending ending) {
  stage_ = Stage::kFinished;
  ending_ = ending;
}

std::string Generation::rest() {
  if (filter_.stopped()) return {};
  std::string text = filter_.push(decoder_.finish());
  return text + filter_.finish();
}

const char* Generation::finish_reason() const {
  switch (ending_) {
    case Ending::kEndToken:
    case Ending::kStopString: return "stop";
    case Ending::kInterrupted: return "interrupted";
    case Ending::kMemory: return "memory";
    case Ending::kNone:
    case Ending::kLength:
    case Ending::kContext: break;
  }
  return "length";
}

}  // namespace ei
