// demo: a long chronicle, a fact hidden in it, a question, and the answer of the model that ships with the program.
#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/setup.h"
#include "eval/demo_text.h"
#include "eval/text_scores.h"

namespace ei::cli {

namespace {
constexpr int64_t kAnswerTokens = 64;

Result<eval::DemoStory> make_story(const Settings& settings, const text::Tokenizer& tokenizer) {
  return eval::make_demo_story(static_cast<uint64_t>(settings.demo_seed), settings.demo_tokens,
                               [&](std::string_view text) {
                                 const auto tokens = tokenizer.tokenize(text, {});
                                 return tokens.ok() ? static_cast<int64_t>(tokens->size()) : 0;
                               });
}

std::string to_json(const Settings& settings, const eval::DemoStory& story, const RunReport& report, bool right) {
  nlohmann::ordered_json object = nlohmann::ordered_json::parse(report_json(report));
  object["demo"] = {{"seed", settings.demo_seed},
                    {"fact", story.fact},
                    {"depth", story.depth},
                    {"question", story.question},
                    {"expected", std::string(eval::strip(story.answer))},
                    {"right", right}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
}  // namespace

Result<int> command_demo(const CommandContext& context) {
  const Settings& settings = context.settings;
  const Console& console = context.console;
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(settings, console));
  EI_ASSIGN_OR_RETURN(const eval::DemoStory story, make_story(settings, engine->tokenizer()));
  EI_ASSIGN_OR_RETURN(const text::ChatTemplate chat, choose_template(settings, engine->tokenizer()));
  const std::vector<text::Message> messages = {{.role = "user", .content = story.text + "\n\n" + story.question}};
  EI_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                      chat.apply(messages, engine->tokenizer(), /*add_generation_prompt=*/true));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(*engine, settings, context.interrupts.stop_now()));

  console.note(str_format("A chronicle of %zu tokens (%zu characters), written from seed %lld. It begins:",
                          prompt.size(), story.text.size(), static_cast<long long>(settings.demo_seed)));
  console.note(console.dim("  " + story.text.substr(0, story.text.find('.', 100) + 1) + " ..."));
  console.note(str_format("Hidden after %.0f %% of it: %s", 100 * story.depth, console.bold(story.fact).c_str()));
  console.note("Question: " + console.bold(story.question));

  Settings greedy = settings;
  greedy.temp = 0;
  greedy.predict = kAnswerTokens;
  EI_ASSIGN_OR_RETURN(const Answer made, answer(context, *session,
                                                {.prompt = prompt,
                                                 .stream = !settings.json,
                                                 .intro = "Answer: ",
                                                 .options = generate_options(greedy, context.interrupts)}));
  const bool right = eval::strip(made.report.text) == eval::strip(story.answer);
  context.console.print_line(settings.json ? to_json(settings, story, made.report, right) : "");
  if (context.console.stdout_closed()) return exit_code(ErrorKind::kRuntime);
  console.note("Expected: " + std::string(eval::strip(story.answer)) +
               (right ? "  ✓ the answer is right" : "  ✗ the answer is wrong"));
  print_timings(console, made.report);
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
