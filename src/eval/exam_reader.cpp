#include "eval/exam_reader.h"

#include <algorithm>

#include "eval/metrics.h"

namespace ei::eval {

std::vector<int64_t> sample_prose(const Exam& exam, int64_t first, int64_t stride) {
  std::vector<int64_t> sampled;
  int64_t skipped = 0;
  for (const int64_t position : exam.prose) {
    if (position < std::max<int64_t>(first, 1)) continue;
    if (skipped++ % stride == 0) sampled.push_back(position);
  }
  return sampled;
}

Result<std::vector<ExamAnswer>> take_exam(Session& session, const Exam& exam, std::span<const int64_t> prose,
                                          const ProseFn& on_prose, const Session::ProgressFn& progress) {
  // What the token at a position is predicted for: -1 nothing, 0 prose, 1 + i item i.
  std::vector<int32_t> wanted(exam.tokens.size() + 1, -1);
  for (const int64_t position : prose) wanted[static_cast<size_t>(position)] = 0;
  for (size_t i = 0; i < exam.items.size(); ++i)
    for (int64_t at = exam.items[i].begin; at < exam.items[i].end; ++at)
      wanted[static_cast<size_t>(at)] = static_cast<int32_t>(i) + 1;

  std::vector<ExamAnswer> answers(exam.items.size(), ExamAnswer{.predicted = {}, .right = true});
  const auto on_logits = [&](int64_t position, std::span<const float> logits) {
    const int64_t next = position + 1;
    const int32_t what = wanted[static_cast<size_t>(next)];
    if (what == 0) {
      on_prose(next, logits);
      return;
    }
    ExamAnswer& answer = answers[static_cast<size_t>(what) - 1];
    answer.predicted.push_back(top_token(logits));
    answer.right = answer.right && answer.predicted.back() == exam.tokens[static_cast<size_t>(next)];
  };
  EI_RETURN_IF_ERROR(session.evaluate(exam.tokens, on_logits, progress, [&](int64_t position) {
    return wanted[static_cast<size_t>(position) + 1] >= 0;
  }));
  return answers;
}

}  // namespace ei::eval
