// demo: a long chronicle, a fact hidden in it, a question, and the answers of the model that ships with the program
// when it reads everything and when it reads sparsely.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/demo_pace.h"
#include "cli/kv_options.h"
#include "cli/method_options.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "engine/prompt.h"
#include "eval/demo_text.h"
#include "eval/strip.h"

namespace ei::cli {

namespace {
constexpr int64_t kAnswerTokens = 64;
constexpr size_t kColumn = 32;

Result<eval::DemoStory> make_story(const Settings& settings, const text::Tokenizer& tokenizer) {
  return eval::make_demo_story(static_cast<uint64_t>(settings.demo_seed), settings.demo_tokens,
                               [&](std::string_view text) {
                                 const auto tokens = tokenizer.tokenize(text, {});
                                 return tokens.ok() ? static_cast<int64_t>(tokens->size()) : 0;
                               });
}

// Says how long full attention will take, and shortens a text that nobody asked for in this length. Short texts are
// read before an estimate would be there.
Result<Settings> with_length(const CommandContext& context, const Engine& engine) {
  Settings settings = context.settings;
  const bool asked = settings.demo_tokens > 0;
  const int64_t context_tokens = settings.ctx_size > 0 ? settings.ctx_size : engine.config().context;
  if (!asked) settings.demo_tokens = std::min(kDemoTokens, context_tokens);
  const auto& methods = settings.demo_methods;
  const bool full = std::find(methods.begin(), methods.end(), "full") != methods.end();
  if (!full || settings.demo_tokens < 4 * kTimedTokens || settings.demo_tokens > context_tokens) return settings;
  EI_ASSIGN_OR_RETURN(const DemoPace pace, measure_pace(engine, settings, context.interrupts.stop_now()));
  const int64_t wanted = settings.demo_tokens;
  if (!asked) settings.demo_tokens = std::min(wanted, patient_tokens(pace));
  const auto estimate = [&](int64_t tokens) {
    return str_format("%lld tokens with full attention take about %s here", static_cast<long long>(tokens),
                      about_seconds(pace.seconds(tokens)).c_str());
  };
  std::string line = "Estimate, from a short text: " + estimate(settings.demo_tokens);
  if (settings.demo_tokens < wanted) {
    line += str_format(" (shortened: %lld would take %s; --tokens %lld reads them all)", static_cast<long long>(wanted),
                       about_seconds(pace.seconds(wanted)).c_str(), static_cast<long long>(wanted));
  }
  context.console.note(line);
  return settings;
}

// Before the text is written, which takes long for a long one.
Status check_length(const Settings& settings, const model::Config& config) {
  const int64_t context = settings.ctx_size > 0 ? settings.ctx_size : config.context;
  if (settings.demo_tokens <= context) return {};
  return make_error(ErrorKind::kUsage, "a text of %lld tokens is longer than the context of %lld; lower --tokens",
                    static_cast<long long>(settings.demo_tokens), static_cast<long long>(context));
}

// What one method made of the text.
struct Reading {
  RunReport report;
  bool right = false;
  int64_t kv_bytes_later = 0;   // when it goes on writing
  int64_t kv_tokens_later = 0;  // kept then, per layer and kv_head, on average
  int64_t kv_total_later = 0;   // of so many
  int64_t resident = 0;         // memory of the process then

  bool interrupted() const { return report.finish_reason == "interrupted"; }
};

// A short answer ends before the cache is compressed for the first time. What it holds when the model writes on:
void write_on(const Settings& settings, Session& session, Reading& reading) {
  const Result<policy::KvOptions> kv = kv_options(settings);
  if (kv.ok() && kv->rule != policy::KvRule::kKeepAll && !reading.interrupted()) {
    for (int64_t i = 0; i < kAnswerTokens && session.stats().compressions == 0; ++i) {
      const std::span<const float> logits = session.logits();
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      if (!session.decode(static_cast<int32_t>(best)).ok()) break;
    }
  }
  reading.kv_bytes_later = session.store().bytes();
  reading.kv_tokens_later = std::llround(session.store().average_slots());
  reading.kv_total_later = session.store().next_position();
  reading.report.acted = session.acted();
  reading.resident = current_rss_bytes();
}

// How much sooner than the first reading the first word of the answer came.
using Json = nlohmann::ordered_json;

double speed_up(const std::vector<Reading>& readings, const Reading& reading) {
  return reading.report.ttft_s > 0 ? readings.front().report.ttft_s / reading.report.ttft_s : 0;
}

std::string to_json(const Settings& settings, const eval::DemoStory& story, const std::vector<Reading>& readings,
                    bool interrupted) {
  Json runs = Json::array();
  bool right = readings.size() == settings.demo_methods.size();
  for (const Reading& reading : readings) {
    Json object = Json::parse(report_json(reading.report));
    object["right"] = reading.right;
    object["speed_up"] = speed_up(readings, reading);
    object["kv_bytes_later"] = reading.kv_bytes_later;
    object["kv_tokens_later"] = reading.kv_tokens_later;
    runs.push_back(std::move(object));
    right = right && reading.right;
  }
  const Json object = {{"demo",
                        {{"seed", settings.demo_seed},
                         {"fact", story.fact},
                         {"depth", story.depth},
                         {"question", story.question},
                         {"expected", std::string(eval::strip(story.answer))},
                         {"right", right},
                         {"interrupted", interrupted}}},
                       {"runs", runs}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void introduce(const CommandContext& context, const eval::DemoStory& story, size_t tokens) {
  const Console& console = context.console;
  console.note(str_format("A chronicle of %zu tokens (%zu characters), written from seed %lld. It begins:", tokens,
                          story.text.size(), static_cast<long long>(context.settings.demo_seed)));
  console.note(console.dim("  " + story.text.substr(0, story.text.find('.', 100) + 1) + " ..."));
  console.note(str_format("Hidden after %.0f %% of it: %s", 100 * story.depth, console.bold(story.fact).c_str()));
  console.note("Question: " + console.bold(story.question));
}

Result<Reading> read_with(const CommandContext& context, const Engine& engine, const std::string& method,
                          std::span<const int32_t> prompt, const eval::DemoStory& story) {
  Settings settings = settings_for_method(context.settings, method);
  settings.temp = 0;
  settings.predict = kAnswerTokens;
  const CommandContext own{settings, context.console, context.interrupts};
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      new_session(engine, settings, context.interrupts.stop_now()));
  Result<Answer> made = answer(own, *session,
                               {.prompt = prompt,
                                .stream = !settings.json,
                                .intro = "Answer (" + method + "):" + (own.console.stderr_is_terminal() ? " " : "\n"),
                                .introduces_model = false,
                                .options = generate_options(settings, context.interrupts)});
  // From here on there is something to show: an interrupt only stops what follows.
  context.interrupts.enter(Interrupts::Phase::kPrompt);
  if (!made.ok()) {
    if (made.error().kind == ErrorKind::kInterrupted)
      context.console.note(str_format("Interrupted: %s had read %lld of %zu tokens", method.c_str(),
                                      static_cast<long long>(session->position()), prompt.size()));
    return made.error();
  }
  if (!settings.json) context.console.print_line("");
  if (made->report.failure) return *made->report.failure;
  Reading reading;
  reading.right = eval::strip(made->report.text) == eval::strip(story.answer);
  reading.report = std::move(made->report);
  write_on(settings, *session, reading);
  return reading;
}

std::string answer_cell(const Reading& reading) {
  const std::string text(eval::strip(reading.report.text));
  if (reading.interrupted()) return text + " (interrupted)";
  return text + (reading.right ? " ✓" : " ✗");
}

// A column for each method: what a newcomer wants to know.
std::string comparison(const std::vector<Reading>& readings) {
  std::string table;
  const auto line = [&](const char* label, const std::function<std::string(const Reading&)>& cell) {
    std::string text = str_format("%-16s", label);
    // Wide characters count once: the mark behind an answer is one column.
    for (const Reading& reading : readings) {
      std::string value = cell(reading);
      size_t columns = 0;
      for (const char c : value) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
      value.append(columns < kColumn ? kColumn - columns : 1, ' ');
      text += value;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    table += text + "\n";
  };
  line("", [](const Reading& reading) { return reading.report.method; });
  line("answer", answer_cell);
  line("first token", [](const Reading& reading) { return "after " + format_seconds(reading.report.ttft_s); });
  line("speed-up", [&](const Reading& reading) { return str_format("%.1f x", speed_up(readings, reading)); });
  line("attention read",
       [](const Reading& reading) { return str_format("%.0f %%", 100 * reading.report.stats.density()); });
  line("KV cache", [](const Reading& reading) {
    return str_format("%s, %lld of %lld tokens", format_bytes(static_cast<double>(reading.kv_bytes_later)).c_str(),
                      static_cast<long long>(reading.kv_tokens_later), static_cast<long long>(reading.kv_total_later));
  });
  line("program", [](const Reading& reading) { return format_bytes(static_cast<double>(reading.resident)); });
  return table;
}
}  // namespace

Result<int> command_demo(const CommandContext& context) {
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(context.settings, context.console));
  EI_RETURN_IF_ERROR(check_length(context.settings, engine->config()));
  EI_ASSIGN_OR_RETURN(const text::ChatTemplate chat, choose_template({}, engine->tokenizer()));
  // A template that cannot be used is an error before anything is measured.
  const std::vector<text::Message> trial = {{.role = "user", .content = "?"}};
  if (const auto tried = chat.apply(trial, engine->tokenizer(), /*add_generation_prompt=*/true); !tried.ok())
    return tried.error();
  context.interrupts.enter(Interrupts::Phase::kPrompt);  // the estimate reads a text as well
  EI_ASSIGN_OR_RETURN(const Settings settings, with_length(context, *engine));
  EI_ASSIGN_OR_RETURN(const eval::DemoStory story, make_story(settings, engine->tokenizer()));
  const std::vector<text::Message> messages = {{.role = "user", .content = story.text + "\n\n" + story.question}};
  EI_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                      chat.apply(messages, engine->tokenizer(), /*add_generation_prompt=*/true));
  warn_about_context(*engine, settings, context.console);
  introduce(context, story, prompt.size());
  std::vector<Reading> readings;
  for (const std::string& method : settings.demo_methods) {
    Result<Reading> reading = read_with(context, *engine, method, prompt, story);
    const bool stopped = !reading.ok() && reading.error().kind == ErrorKind::kInterrupted;
    if (!reading.ok() && !stopped) return reading.error();
    if (!stopped) readings.push_back(std::move(*reading));
    if (context.interrupts.interrupted() || context.console.stdout_closed()) break;
  }
  const bool interrupted = context.interrupts.interrupted();
  if (settings.json) context.console.print_line(to_json(settings, story, readings, interrupted));
  if (context.console.stdout_closed()) return exit_code(ErrorKind::kRuntime);
  context.console.note("Expected: " + std::string(eval::strip(story.answer)));
  if (readings.empty()) return interrupted ? exit_code(ErrorKind::kInterrupted) : 0;
  // The table is what the demo has to say, so it goes where the answers went.
  const std::string table = "\n" + comparison(readings);
  if (settings.json) context.console.note(table);
  if (!settings.json && !context.console.print(table)) return exit_code(ErrorKind::kRuntime);
  for (const Reading& reading : readings)
    for (const std::string& why : reading.report.acted.idle())
      context.console.note("note: " + reading.report.method + ": " + why);
  return interrupted ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
