// Questions about facts hidden in a long text, sized by the real token count.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/haystack.h"

namespace ei::eval {

using CountTokens = std::function<int64_t(std::string_view)>;

struct Task {
  std::string kind;
  std::string context;
  std::string question;
  std::string answer;                     // verbatim, with its leading space where the model would begin with one
  std::vector<std::string> gold_strings;  // the parts of the answer
  std::vector<std::string> gold_facts;    // the planted statements it comes from, in text order; empty for none
  double depth = 0;                       // share of the context's tokens before the first of them
  int64_t prompt_tokens = 0;              // of user_message(), without the chat template
  int64_t max_new_tokens = 0;             // enough for the answer

  std::string user_message() const { return context + "\n\n" + question; }
};

struct TaskSpec {
  std::string kind = "num";
  int64_t target_tokens = 4096;  // template + prompt + max_new_tokens stay within it
  uint64_t seed = 1;
  std::optional<double> depth;   // 0 to 1, for kinds that ask for a single fact; drawn from the seed if absent
  Haystack haystack;             // our own prose if absent
  int64_t template_tokens = 16;  // what the chat template adds
  bool single = false;           // plant the asked fact alone, without others of its kind
  bool new_wording = false;      // para: a wording that was held out of the embedded model's training
};

// num hex line pass multi mq var rev list quote para none
std::span<const std::string_view> task_kinds();

Result<Task> make_task(const TaskSpec& spec, const CountTokens& count_tokens);

// 1 if the prediction is the answer, white space at both ends aside, else 0.
double score(const Task& task, std::string_view prediction);
// Share of the gold strings that the prediction contains, ignoring case.
double contains_score(const Task& task, std::string_view prediction);

}  // namespace ei::eval
