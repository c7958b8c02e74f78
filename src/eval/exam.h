// An exam: facts of several kinds hidden in one text, a question about each behind it, the right answers in place. Read
// once, teacher-forced, it says what a model would have answered: how docs/notes/selection.md scores a selection of
// blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/haystack.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ei::eval {

// What stands between the words of the two speakers, in tokens.
struct ChatFrame {
  std::vector<text::Token> head;    // in front of the first message
  std::vector<text::Token> answer;  // between a question and its answer
  std::vector<text::Token> next;    // between an answer and the next question; its first token ends the answer
  std::vector<text::Token> end;     // behind the last answer; begins with the same token
};
// Of a chat template; without one, of plain lines.
Result<ChatFrame> make_chat_frame(const text::Tokenizer& tokenizer, const std::optional<text::ChatTemplate>& chat);

struct ExamItem {
  std::string kind;
  std::string question;
  std::string answer;
  // Positions of the answer's tokens, the one that ends it included.
  int64_t begin = 0;
  int64_t end = 0;
  double depth = 0;  // share of the exam's tokens before the first fact that is asked for; of quotes about; none: 0
};

struct Exam {
  std::vector<text::Token> tokens;
  std::vector<ExamItem> items;
  std::vector<int64_t> prose;  // positions of the tokens that belong to neither facts nor questions
};

struct ExamSpec {
  std::vector<std::string> kinds;  // one question of each; a kind may come twice
  int64_t length = 16384;          // tokens, exactly
  uint64_t seed = 1;
  Haystack haystack;  // our own prose if absent
};
Result<Exam> make_exam(const ExamSpec& spec, const text::Tokenizer& tokenizer, const ChatFrame& frame);

}  // namespace ei::eval
