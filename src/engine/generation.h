// Generation: one answer in steps. It reads the prompt chunk by chunk, then samples and feeds token by token, so that
// whoever runs several of them chooses whose step comes next. generate() is the loop over one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"
#include "engine/session.h"
#include "engine/stop_filter.h"
#include "text/sampler.h"
#include "text/stream_decoder.h"

namespace ei {

class Generation {
 public:
  // Why it ended.
  enum class Ending { kNone, kEndToken, kStopString, kLength, kContext, kInterrupted, kMemory };
  enum class Stage { kReading, kSampling, kFeeding, kFinished };

  // Reads nothing yet; a bad grammar fails here, before the prompt is paid for. `prompt` comes behind what the session
  // holds, and penalties look at both. `session` must outlive it.
  static Result<std::unique_ptr<Generation>> begin(Session& session, std::span<const int32_t> prompt,
                                                   const GenerateOptions& options);

  Stage stage() const { return stage_; }
  // kReading: a chunk of at most `most` tokens (0: as many as the session takes). One that found no memory (kMemory)
  // can be tried again.
  Status read(int64_t most = 0, const Session::ProgressFn& progress = nullptr,
              const Session::LogitsFn& on_logits = nullptr);
  int64_t left_to_read() const { return left_; }

  struct Piece {
    int32_t token = text::kNoToken;  // kNoToken: the end of generation was sampled
    int32_t end = text::kNoToken;    // by this token
    std::string text{};              // complete UTF-8 that may be shown now
  };
  // kSampling: the next token, from the session's logits.
  Result<Piece> sample();
  // kFeeding, with the next logits there: chooses the token that the next sample() will take. It looks at nothing but
  // logits and sampler, so that it may run beside those of other sessions. Does not throw.
  void choose() noexcept;
  bool chose() const { return chosen_.has_value() || choice_failed_; }
  // kFeeding: gives the sampled token to the session.
  Status feed();
  // The same where somebody else has fed last_token(), with what came of it.
  Status fed(const Status& status);
  int32_t last_token() const { return tokens_.back(); }
  // Ends it where it stands.
  void stop(Ending ending);
  void give_up(const Error& error);  // no memory for more
  // kFinished: text that was held back for a stop string which did not come. Once.
  std::string rest();

  Ending ending() const { return ending_; }
  const char* finish_reason() const;  // "stop", "length", "interrupted", "memory"
  const std::optional<Error>& failure() const { return failure_; }
  const std::string& stopped_by() const { return filter_.stopped_by(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  uint32_t seed() const { return sampler_->seed(); }
  const text::Sampler& sampler() const { return *sampler_; }
  Session& session() const { return *session_; }

 private:
  Generation(Session& session, GenerateOptions options, std::unique_ptr<text::Sampler> sampler);

  Session* session_;
  GenerateOptions options_;
  std::unique_ptr<text::Sampler> sampler_;
  text::StreamDecoder decoder_;
  StopFilter filter_;
  Stage stage_ = Stage::kReading;
  Ending ending_ = Ending::kNone;
  int64_t left_ = 0;
  std::vector<int32_t> tokens_{};
  std::optional<int32_t> chosen_{};
  bool choice_failed_ = false;  // no memory
  std::optional<Error> failure_{};
};

}  // namespace ei
