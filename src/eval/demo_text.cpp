#include "eval/demo_text.h"

#include <utility>

#include "base/random.h"

namespace ei::eval {

Result<DemoStory> make_demo_story(uint64_t seed, int64_t target_tokens, const CountTokens& count_tokens) {
  Random random(seed);
  // Neither the first nor the last pages: those are what every sparse method keeps.
  TaskSpec spec{.kind = "num", .target_tokens = target_tokens, .seed = seed, .depth = {}, .haystack = {}};
  spec.depth = 0.1 + 0.8 * random.uniform();
  spec.single = true;
  EI_ASSIGN_OR_RETURN(Task task, make_task(spec, count_tokens));
  return DemoStory{.text = std::move(task.context),
                   .fact = std::move(task.gold_facts[0]),
                   .question = std::move(task.question),
                   .answer = std::move(task.answer),
                   .depth = task.depth};
}

}  // namespace ei::eval
