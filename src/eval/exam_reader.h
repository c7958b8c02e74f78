// Reads an exam in a session and says which answers were right.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/session.h"
#include "eval/exam.h"

namespace ei::eval {

struct ExamAnswer {
  std::vector<text::Token> predicted;  // the likeliest token at every place of the answer, the right ones before it
  bool right = false;                  // all of them
};

// Every `stride`-th prose position from `first` on: where the likelihood is looked at.
std::vector<int64_t> sample_prose(const Exam& exam, int64_t first, int64_t stride);

// Receives the logits that predict the token at `position`, for each of the sampled positions in order.
using ProseFn = std::function<void(int64_t position, std::span<const float> logits)>;
// One answer for each item. The session must be empty.
Result<std::vector<ExamAnswer>> take_exam(Session& session, const Exam& exam, std::span<const int64_t> prose,
                                          const ProseFn& on_prose, const Session::ProgressFn& progress = nullptr);

}  // namespace ei::eval
