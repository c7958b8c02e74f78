#include "cli/eval_generate.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "cli/eval_conditions.h"
#include "cli/eval_methods.h"
#include "cli/input.h"
#include "cli/items_clock.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "cli/version.h"
#include "engine/prompt.h"
#include "eval/items/source.h"
#include "eval/run/generation.h"
#include "eval/run/outdated.h"
#include "eval/run/predictions.h"
#include "eval/run/report_data.h"
#include "eval/run/result_file.h"
#include "eval/run/summary.h"
#include "report/page.h"

namespace ei::cli {

namespace {
constexpr const char* kTitle = "What methods keep";

Result<eval::ItemSource> open_source(const Settings& settings, const text::Tokenizer& tokenizer) {
  eval::SourceOptions options{.tasks = settings.eval_tasks,
                              .lengths = settings.eval_lengths,
                              .samples = settings.eval_samples,
                              .depths = eval_depths(settings),
                              .seed = static_cast<uint64_t>(settings.eval_seed),
                              .tokenizer = &tokenizer,
                              .frame = {}};
  if (!settings.haystack.empty()) {
    EI_ASSIGN_OR_RETURN(const std::string text, read_text_file(settings.haystack, "text file"));
    options.haystack = eval::text_haystacks(text);
  }
  std::optional<text::ChatTemplate> chat;
  options.has_template = !tokenizer.chat_template().empty();
  if (options.has_template) {
    EI_ASSIGN_OR_RETURN(chat, choose_template({}, tokenizer));
  }
  EI_ASSIGN_OR_RETURN(options.frame, eval::make_chat_frame(tokenizer, chat));
  return eval::ItemSource::open(std::move(options));
}

class GeneratedEvaluation {
 public:
  GeneratedEvaluation(const CommandContext& context, const Engine& engine, const eval::ItemSource& source,
                      std::vector<eval::MethodSpec> methods)
      : context_(context),
        engine_(engine),
        source_(source),
        methods_(std::move(methods)),
        progress_(context.console, "evaluating"),
        start_s_(now_s()) {}

  // Ends with what is there when it is interrupted.
  Status run(std::optional<eval::ResultFile>& file, std::vector<eval::ItemResult>& results) {
    for (const eval::ItemRef& ref : source_.refs()) {
      const std::vector<eval::MethodSpec> wanted = missing(ref, file);
      clock_.expect(ref.length, eval::count_readings(wanted), std::ssize(wanted));
    }
    context_.interrupts.enter(Interrupts::Phase::kPrompt);
    for (const eval::ItemRef& ref : source_.refs()) {
      const std::vector<eval::MethodSpec> wanted = missing(ref, file);
      if (wanted.empty()) continue;
      Result<std::vector<eval::ItemResult>> answers = answer(ref, wanted);
      if (!answers.ok()) {
        if (answers.error().kind != ErrorKind::kInterrupted) return answers.error();
        progress_.finish();
        context_.console.note("interrupted; the same command goes on from here where there is --out");
        break;
      }
      for (const eval::ItemResult& result : *answers) {
        if (file) EI_RETURN_IF_ERROR(file->add(result));
        if (context_.settings.json && !context_.console.print(eval::result_line(result)))
          return Error{ErrorKind::kRuntime, "stdout was closed"};
        results.push_back(result);
      }
    }
    context_.interrupts.enter(Interrupts::Phase::kOutside);
    progress_.finish();
    return {};
  }

 private:
  std::vector<eval::MethodSpec> missing(const eval::ItemRef& ref, const std::optional<eval::ResultFile>& file) const {
    std::vector<eval::MethodSpec> wanted;
    for (const eval::MethodSpec& method : methods_)
      if (!file || !file->has(ref.id, method.label)) wanted.push_back(method);
    return wanted;
  }

  Result<std::vector<eval::ItemResult>> answer(const eval::ItemRef& ref, std::span<const eval::MethodSpec> wanted) {
    EI_ASSIGN_OR_RETURN(const eval::Item item, source_.make(ref));
    EI_ASSIGN_OR_RETURN(const eval::ItemPrompt prompt, source_.prompt(item));
    eval::AnswerOptions options{.question_aware = !context_.settings.question_agnostic,
                                .context = ref.length,
                                .cancel = &context_.interrupts.stop_now(),
                                .parallel = context_.settings.eval_parallel};
    clock_.begin(ref.length, eval::count_readings(wanted), std::ssize(wanted), now_s());
    options.on_progress = [&](int64_t tokens) {
      clock_.read(tokens, now_s());
      if (tokens > 0) show();
    };
    auto answers = eval::answer_item(engine_, item, prompt, wanted, options);
    clock_.end(now_s());
    return answers;
  }

  void show() {
    // What is wrong with a request has been said by then.
    if (std::exchange(first_, false)) name_default_model(context_.settings, context_.console);
    progress_.update({.done = clock_.tokens_read(),
                      .total = clock_.tokens_expected(),
                      .elapsed_s = now_s() - start_s_,
                      .left_s = clock_.left_s()});
  }

  const CommandContext& context_;
  const Engine& engine_;
  const eval::ItemSource& source_;
  const std::vector<eval::MethodSpec> methods_;
  Progress progress_;
  bool first_ = true;
  const double start_s_;
  ItemsClock clock_;
};

Status write_whole(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return {};
  return make_error(ErrorKind::kRuntime, "cannot write %s", one_line(path).c_str());
}

Result<int> dump_items(const CommandContext& context, const eval::ItemSource& source,
                       const text::Tokenizer& tokenizer) {
  std::string lines;
  for (const eval::ItemRef& ref : source.refs()) {
    EI_ASSIGN_OR_RETURN(const eval::Item item, source.make(ref));
    EI_ASSIGN_OR_RETURN(const eval::ItemPrompt prompt, source.prompt(item));
    lines += eval::dumped_item(item, prompt, tokenizer);
  }
  EI_RETURN_IF_ERROR(write_whole(context.settings.dump_items, lines));
  name_default_model(context.settings, context.console);
  context.console.note(counted(static_cast<int64_t>(source.refs().size()), "item") + " in " +
                       one_line(context.settings.dump_items));
  return 0;
}

// The file of --out with the results that this run would get as well.
Result<eval::ResultFile> open_results(const CommandContext& context, const Engine& engine,
                                      const eval::ItemSource& source, std::span<const eval::MethodSpec> methods) {
  const std::string& folder = context.settings.eval_out;
  EI_ASSIGN_OR_RETURN(eval::ResultFile file, eval::ResultFile::open(folder, eval_conditions(context.settings, engine)));
  EI_ASSIGN_OR_RETURN(const eval::Outdated outdated, eval::drop_outdated(file, source, methods));
  if (outdated.all() > 0)
    context.console.note(
        str_format("%s in %s taken out: %lld of other items with the same names, %lld of other options "
                   "of a method; what this run asks for is answered anew",
                   counted(outdated.all(), "result").c_str(), one_line(folder).c_str(),
                   static_cast<long long>(outdated.of_other_items), static_cast<long long>(outdated.of_other_options)));
  return file;
}

// Another program's answers count as they are now, whatever was said before.
Status keep_predictions(const std::vector<eval::ItemResult>& results, eval::ResultFile& file) {
  for (const eval::ItemResult& result : results) {
    const eval::ItemResult* known = file.find(result.item, result.method);
    if (known != nullptr && known->predictions == result.predictions) continue;
    EI_RETURN_IF_ERROR(file.add(result));
  }
  return {};
}

std::string notes_of(const Settings& settings, const Engine& engine) {
  return str_format(
      "%s, seed %lld, %s, question %s; %s.\n", std::filesystem::path(engine.file().path()).filename().c_str(),
      static_cast<long long>(settings.eval_seed), settings.haystack.empty() ? "our own prose" : "prose from a file",
      settings.question_agnostic ? "behind the compression" : "in the prompt", version_text().c_str());
}
}  // namespace

Result<int> evaluate_generated(const CommandContext& context) {
  const Settings& settings = context.settings;
  EI_ASSIGN_OR_RETURN(std::vector<eval::MethodSpec> methods, eval_method_specs(settings));
  EI_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(settings, context.console));
  EI_ASSIGN_OR_RETURN(const eval::ItemSource source, open_source(settings, engine->tokenizer()));
  if (!settings.dump_items.empty()) return dump_items(context, source, engine->tokenizer());
  warn_beyond_training(*engine, *std::max_element(settings.eval_lengths.begin(), settings.eval_lengths.end()),
                       context.console);
  std::optional<eval::ResultFile> file;
  if (!settings.eval_out.empty()) {
    EI_ASSIGN_OR_RETURN(file, open_results(context, *engine, source, methods));
  }
  std::vector<eval::ItemResult> results;
  if (!settings.predictions.empty()) {
    EI_ASSIGN_OR_RETURN(const std::string text, read_text_file(settings.predictions, "file of predictions"));
    EI_ASSIGN_OR_RETURN(results, eval::score_predictions(source, text));
    if (file) EI_RETURN_IF_ERROR(keep_predictions(results, *file));
  }
  GeneratedEvaluation evaluation(context, *engine, source, std::move(methods));
  EI_RETURN_IF_ERROR(evaluation.run(file, results));
  const eval::Summary summary = eval::summarise(file ? file->results() : results);
  const std::string notes = notes_of(settings, *engine);
  const std::string page = eval::summary_markdown(summary, kTitle, notes);
  if (file) {
    const std::filesystem::path folder = settings.eval_out;
    EI_RETURN_IF_ERROR(write_whole((folder / "summary.md").string(), page));
    const std::string data = eval::report_json(summary, file->results(), kTitle, notes);
    EI_RETURN_IF_ERROR(write_whole((folder / "report.html").string(), report::make_eval_page(data)));
  }
  if (settings.json)
    for (const std::string& sentence : eval::idle_methods(summary)) context.console.note("note: " + sentence);
  if (!settings.json && !context.console.print(page)) return exit_code(ErrorKind::kRuntime);
  return context.interrupts.interrupted() ? exit_code(ErrorKind::kInterrupted) : 0;
}

}  // namespace ei::cli
