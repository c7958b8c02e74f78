#include "cli/eval_flags.h"

#include <algorithm>
#include <array>

namespace ei::cli {

namespace {
constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostSeed = (int64_t{1} << 32) - 1;

// Meaningless without --teacher-forced, and with it.
constexpr std::array kForcedOnly = {"method", "length", "contexts", "stride", "vs", "also"};
constexpr std::array kGeneratedOnly = {"methods", "lengths",    "samples",     "depths",  "question-agnostic",
                                       "out",     "dump-items", "predictions", "parallel"};

// "4k,16384": tokens, k for 1024.
Result<int64_t> parse_length(const std::string& text) {
  const bool thousands = text.ends_with("k") || text.ends_with("K");
  EI_ASSIGN_OR_RETURN(const int64_t number, parse_whole(thousands ? text.substr(0, text.size() - 1) : text,
                                                        thousands ? 1 : 512, kMostTokens >> 10));
  return thousands ? number * 1024 : number;
}

Binding length(int64_t Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(settings.*field, parse_length(value));
            return {};
          },
          .show = [=](const Settings& settings) { return std::to_string(settings.*field); }};
}

Binding length_list(std::vector<int64_t> Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            std::vector<int64_t> lengths;
            for (const std::string& part : split(value, ',')) {
              EI_ASSIGN_OR_RETURN(const int64_t number, parse_length(part));
              lengths.push_back(number);
            }
            settings.*field = std::move(lengths);
            return {};
          },
          .show =
              [=](const Settings& settings) {
                std::string text;
                for (const int64_t length : settings.*field) text += (text.empty() ? "" : ",") + std::to_string(length);
                return text;
              },
          .repeats = true};
}

Binding name_list(std::vector<std::string> Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            settings.*field = split(value, ',');
            if (std::find(value.begin(), value.end(), ' ') != value.end() || (settings.*field).empty())
              return make_error(ErrorKind::kUsage, "'%s' is not a list of names with commas in between",
                                one_line(value).c_str());
            return {};
          },
          .show =
              [=](const Settings& settings) {
                std::string text;
                for (const std::string& name : settings.*field) text += (text.empty() ? "" : ",") + name;
                return text;
              },
          .repeats = true};
}
}  // namespace

std::vector<Option> eval_flags() {
  return {
      {"--tasks", "LIST", "tasks, groups of tasks or KIND:FILE; --list-tasks names them", kEval,
       name_list(&Settings::eval_tasks)},
      {"--methods", "LIST",
       "methods to answer with; NAME:option=value:... changes single options, as in snapkv:kv-budget=512", kEval,
       name_list(&Settings::eval_methods)},
      {"--lengths", "LIST", "tokens of prompt and answer together; k for 1024", kEval,
       length_list(&Settings::eval_lengths)},
      {"-n --samples", "N", "items of each task and length", kEval, whole(&Settings::eval_samples, 1, 1000000)},
      {"--depths", "N",
       "places, evenly spaced, where single facts stand in turn; 0: 10, and 5 for fewer items than that", kEval,
       whole(&Settings::eval_depths, 0, 1000)},
      {"--parallel", "N",
       "methods that answer at the same time; for a GPU, which one answer leaves idle. Times mean little then", kEval,
       whole(&Settings::eval_parallel, 1, 1024)},
      {"--question-agnostic", "", "compress the cache before the question is read", kEval,
       toggle(&Settings::question_agnostic)},
      {"--out", "FOLDER", "keep results there, and go on with those it holds: items.jsonl, summary.md, report.html",
       kEval, filled(&Settings::eval_out)},
      {"--list-tasks", "", "list tasks and metrics and leave", kEval, toggle(&Settings::list_tasks)},
      {"--dump-items", "FILE", "write the items with their prompts as JSON lines and leave", kEval,
       filled(&Settings::dump_items)},
      {"--predictions", "FILE",
       "score what somebody else generated for these items: lines with item, method, prediction", kEval,
       filled(&Settings::predictions)},
      {"-s --seed", "N", "which texts and facts; -1: random", kEval, seed(&Settings::eval_seed, kMostSeed)},
      {"--haystack", "FILE", "hide the facts in this text instead of our own prose", kEval,
       filled(&Settings::haystack)},
      {"--teacher-forced", "", "the right answers are read with the text; one text has all questions", kEval,
       toggle(&Settings::teacher_forced)},
      {"--method", "NAME", "teacher-forced: attention method", kEval, choice(&Settings::method, method_names())},
      {"--length", "N", "teacher-forced: tokens of a text with its questions and answers; k for 1024", kEval,
       length(&Settings::eval_length)},
      {"--contexts", "N", "teacher-forced: texts", kEval, whole(&Settings::eval_contexts, 1, 1000000)},
      {"--stride", "N", "teacher-forced: every N-th token of the prose counts for perplexity and divergence", kEval,
       whole(&Settings::eval_stride, 1, kMostTokens)},
      {"--vs", "SETTINGS",
       "teacher-forced: key=value,...: what the method is compared with; a method begins at its own preset", kEval,
       text(&Settings::eval_vs)},
      {"--also", "SETTINGS",
       "teacher-forced: key=value,...;key=value,...: further settings to test on the same texts, one result each",
       kEval, text(&Settings::eval_also)},
  };
}

Status check_eval_mode(const Settings& settings) {
  const Settings standards = default_settings(kEval);
  const auto given = [&](std::string_view name) {
    for (const Option& option : options()) {
      if ((option.commands & kEval) == 0 || option.name() != name) continue;
      if (name == "question-agnostic") return settings.question_agnostic;
      return option.binding.show(settings) != option.binding.show(standards);
    }
    return false;
  };
  if (settings.teacher_forced) {
    for (const char* name : kGeneratedOnly)
      if (given(name)) return make_error(ErrorKind::kUsage, "--%s has no meaning with --teacher-forced", name);
    for (const auto& [name, value] : settings.method_options)
      if (name.starts_with("kv-"))
        return make_error(ErrorKind::kUsage, "--%s has no meaning with --teacher-forced", name.c_str());
    return {};
  }
  for (const char* name : kForcedOnly)
    if (given(name))
      return make_error(ErrorKind::kUsage, "--%s is for --teacher-forced; answers that are generated take %s", name,
                        std::string_view(name) == "method" || std::string_view(name) == "also" ? "--methods"
                        : std::string_view(name) == "contexts"                                 ? "-n"
                                                                                               : "--lengths");
  return {};
}

}  // namespace ei::cli
