#include "cli/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

#include "cli/eval_flags.h"
#include "cli/kv_options.h"
#include "cli/llama_switches.h"
#include "cli/method_options.h"
#include "cli/model_overrides.h"
#include "cli/sampler_flags.h"
#include "cli/serve_flags.h"
#include "engine/cache_types.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr int64_t kMaxMebibytes = int64_t{1} << 30;
constexpr int64_t kMaxThreads = 4096;
constexpr int64_t kMaxSeed = (int64_t{1} << 32) - 1;
constexpr int64_t kMaxPenaltyTokens = 131072;  // as the sampler
constexpr double kMaxPenalty = 1000;

constexpr unsigned kWithModel = kCompute | kTokenize | kBench;
constexpr unsigned kEvery = kWithModel | kMethods;
constexpr unsigned kReports = kGenerate | kInfo | kTokenize | kPerplexity | kEval | kDemo | kMethods;

constexpr std::array<CommandEntry, 11> kCommands = {{
    {kRun, "run", "answer one prompt"},
    {kChat, "chat", "talk, turn by turn; earlier turns stay in the cache"},
    {kServe, "serve", "answer over HTTP, many at a time, in the shapes of OpenAI and llama.cpp"},
    {kInfo, "info", "what a model is, and the memory a context would take, before anything is allocated"},
    {kTokenize, "tokenize", "text to tokens"},
    {kBench, "bench", "speed of prompts and generation, at any depth of context"},
    {kPerplexity, "perplexity", "perplexity of a text, and KL divergence between two settings"},
    {kEval, "eval", "what methods lose: answers to tasks of long context, beside those of full attention"},
    {kInspect, "inspect", "write a page that shows what a method read, chose and kept of a prompt"},
    {kDemo, "demo", "find a fact hidden in a long text with full and with sparse attention, side by side"},
    {kMethods, "methods", "what --method takes: whose it is, what it measures, what is different here"},
}};

constexpr std::array<Exclusion, 17> kExclusions = {{
    {"prompt-cache", "logits-out"},
    {"prompt-cache", "dump-plan"},
    {"prompt", "file", kTokenize},
    {"prompt", "file", kGenerate, true},
    {"system-prompt", "system-prompt-file"},
    {"raw", "system-prompt-file"},
    {"grammar", "json-schema"},
    {"rope-scale", "rope-freq-scale"},
    {"grammar", "grammar-file"},
    {"json-schema", "json-schema-file"},
    {"grammar-file", "json-schema-file"},
    {"chat-template", "chat-template-file"},
    {"raw", "chat-template"},
    {"raw", "chat-template-file"},
    {"raw", "system-prompt"},
    {"ids", "json"},
    {"output", "json", kBench},
}};

// on, off or auto; alone it is on, as elsewhere.
Binding color() {
  Binding binding = choice(&Settings::color, {"on", "off", "auto"});
  const auto set = binding.set;
  binding.set = [set](Settings& settings, const std::string& value) {
    return set(settings, value.empty() ? "on" : value);
  };
  binding.may_be_bare = true;
  return binding;
}

std::vector<Option> model_options() {
  std::vector<std::string> cache_types;
  for (const DType type : kDTypes) cache_types.emplace_back(dtype_name(type));
  return {
      {"-m --model", "FILE", "GGUF model; without it the model that ships with the program", kWithModel,
       filled(&Settings::model)},
      {"-dev --device --backend", "NAME",
       "where to compute; --list-devices names them; auto: a GPU where there is one, else cpu", kCompute | kBench,
       filled(&Settings::device)},
      {"--list-devices", "", "list the devices and leave", kCompute | kBench, toggle(&Settings::list_devices)},
      {"-t --threads", "N", "threads; 0 or -1: all cores that may be used", kCompute,
       whole(&Settings::threads, -1, kMaxThreads)},
      {"-tb --threads-batch", "N", "threads for prompts; 0 or -1: as many as for generation", kCompute,
       whole(&Settings::prompt_threads, -1, kMaxThreads)},
      {"-t --threads", "LIST", "threads; 0: all cores that may be used", kBench,
       whole_list(&Settings::bench_threads, 0, kMaxThreads)},
      {"-c --ctx-size", "N", "most tokens of prompt and answer together; 0: the model's", kSamples | kInfo | kDemo,
       whole(&Settings::ctx_size, 0, kMaxTokens)},
      {"-c --ctx-size", "N", "tokens per chunk, the second half of each is scored; 0: the model's context", kPerplexity,
       whole_or_zero(&Settings::ppl_ctx_size, 4, kMaxTokens)},
      {"-b --batch-size", "N", "prompt tokens per chunk; 0: chosen by the engine", kCompute,
       whole(&Settings::batch_size, 0, kMaxTokens)},
      {"-b --batch-size", "LIST", "prompt tokens per chunk; 0: chosen by the engine", kBench,
       whole_list(&Settings::bench_batch, 0, kMaxTokens)},
      {"-ub --ubatch-size", "N", "no more prompt tokens per chunk than this; 0: --batch-size alone says", kCompute,
       whole(&Settings::ubatch_size, 0, kMaxTokens)},
      {"--mlock", "", "keep the model in memory: nothing of it is swapped out", kCompute, toggle(&Settings::mlock)},
      {"--no-mmap", "", "read the model file into memory instead of mapping it", kCompute, toggle(&Settings::no_mmap)},
      {"--packed-memory", "MIB",
       "memory for copies of the weights in bf16 (or fp16, int8), which spare unpacking them per chunk; -1: what keeps "
       "a prompt within "
       "300 MB beside weights and cache with full attention",
       kCompute | kBench, whole(&Settings::packed_memory, -1, kMaxMebibytes)},
      {"-ctk --cache-type-k", "TYPE",
       "type of cached keys: f32, f16, bf16, q8_0 (cpu) or fp8 (cuda); without it the device's best", kCompute | kBench,
       choice(&Settings::cache_type_k, cache_types)},
      {"-ctv --cache-type-v", "TYPE",
       "type of cached values: f32, f16, bf16, q8_0 (cpu) or fp8 (cuda); without it the device's best",
       kCompute | kBench, choice(&Settings::cache_type_v, cache_types)},
      {"--override-kv", "KEY=TYPE:VALUE,...",
       "metadata in place of the file's; TYPE is int, float, bool or str (may be given several times)", kWithModel,
       metadata(&Settings::override_kv)},
      {"--rope-scaling", "KIND", "none, linear or yarn, in place of what the model says", kWithModel,
       choice(&Settings::rope_scaling, {"none", "linear", "yarn"})},
      {"--rope-scale", "N", "stretch positions to a context N times as long; 0: as the model says", kWithModel,
       real(&Settings::rope_scale, 0, 1e6)},
      {"--rope-freq-scale", "X", "the same as 1/N; 0: as the model says", kWithModel,
       real(&Settings::rope_freq_scale, 0, 1e3)},
      {"--rope-freq-base", "X", "base of the rotation; 0: as the model says", kWithModel,
       real(&Settings::rope_freq_base, 0, 1e12)},
      {"--yarn-orig-ctx", "N", "context that the model was trained for, for yarn; 0: as the model says", kWithModel,
       whole(&Settings::yarn_orig_ctx, 0, kMaxTokens)},
      {"--yarn-ext-factor", "X", "share of extrapolated angles, for yarn; 0: none, -1: as the model says", kWithModel,
       real(&Settings::yarn_ext_factor, -1, 1e3)},
      {"--yarn-attn-factor", "X", "magnitude of turned vectors where --yarn-ext-factor is 0; -1: as the model says",
       kWithModel, real(&Settings::yarn_attn_factor, -1, 1e3)},
      {"--yarn-beta-slow", "X", "turns over the trained context below which yarn interpolates; -1: as the model says",
       kWithModel, real(&Settings::yarn_beta_slow, -1, 1e6)},
      {"--yarn-beta-fast", "X", "and above which it extrapolates; -1: as the model says", kWithModel,
       real(&Settings::yarn_beta_fast, -1, 1e6)},
      {"--method", "NAME", "attention method", kSamples | kPerplexity, choice(&Settings::method, method_names())},
      {"--method", "LIST", "attention methods", kBench, choice_list(&Settings::bench_methods, method_names())},
      {"--method", "LIST", "attention methods to read the text with, one after the other", kDemo,
       choice_list(&Settings::demo_methods, method_names())},
  };
}

std::vector<Option> prompt_options() {
  return {
      {"-p --prompt", "TEXT", "the prompt", kGenerate | kTokenize, text(&Settings::prompt)},
      {"-f --file", "FILE", "read the prompt from a file; - for stdin; with -p the text that the question is about",
       kGenerate, filled(&Settings::file)},
      {"-f --file", "FILE", "read the text from a file; - for stdin", kTokenize, filled(&Settings::file)},
      {"-e --escape", "",
       "\\n, \\t, \\\" and \\xHH in the prompt, the system prompt and stop strings are what they spell", kGenerate,
       toggle(&Settings::escape)},
      {"-f --file", "FILE", "the text to score; - for stdin", kPerplexity, filled(&Settings::file)},
      {"-sys --system-prompt", "TEXT", "system message, for models with a chat template", kGenerate,
       text(&Settings::system_prompt)},
      {"-sysf --system-prompt-file", "FILE", "file with the system message", kGenerate,
       filled(&Settings::system_prompt_file)},
      {"--raw -no-cnv --no-conversation", "", "complete the prompt as it is: no chat template", kRun | kInspect,
       toggle(&Settings::raw)},
      {"--chat-template", "JINJA", "chat template instead of the model's, or a name: chatml, llama3, gemma, ...",
       kSamples, filled(&Settings::chat_template)},
      {"--chat-template-file", "FILE", "file with a chat template", kSamples, filled(&Settings::chat_template_file)},
      {"--prompt-cache", "FILE",
       "keep what was read of the prompt in this file, and begin with what it holds of the next one", kRun,
       filled(&Settings::prompt_cache)},
      {"-st --single-turn", "", "answer once, then leave (run always does)", kChat | kRun,
       toggle(&Settings::single_turn)},
      {"--kv-free", "",
       "give back the memory of what a KV compression drops; later questions about it may fail (without it the whole "
       "cache stays, and generation reads a compressed view)",
       kChat, toggle(&Settings::kv_free)},
      {"--no-display-prompt", "", "do not repeat the prompt on the terminal", kRun,
       toggle(&Settings::no_display_prompt)},
  };
}

std::vector<Option> generation_options() {
  return {
      {"-n --predict --n-predict", "N", "most tokens to generate; -1: until the end or a full context", kSamples,
       whole(&Settings::predict, -1, kMaxTokens)},
      {"-s --seed", "N", "seed of the sampler; -1 or 4294967295: random", kSamples,
       whole(&Settings::seed, -1, kMaxSeed)},
      {"--temp --temperature", "T", "temperature; 0 or less: always the likeliest token", kSamples,
       real(&Settings::temp, -kMaxPenalty, kInfinite)},
      {"--top-k", "K", "sample among the K likeliest; 0 or -1: all", kSamples,
       whole(&Settings::top_k, -1, std::numeric_limits<int32_t>::max())},
      {"--top-p", "P", "sample among the likeliest that make up probability P; 1: all", kSamples,
       real(&Settings::top_p, 0, 1)},
      {"--min-p", "P", "drop tokens less likely than P times the likeliest; 0: none", kSamples,
       real(&Settings::min_p, 0, 1)},
      {"--repeat-penalty", "X", "divide the logits of repeated tokens by X; 1: off", kSamples,
       real(&Settings::repeat_penalty, 0.01, 100)},
      {"--repeat-last-n", "N", "tokens that penalties look back on, the prompt's too; 0: off, -1: all", kSamples,
       whole(&Settings::repeat_last_n, -1, kMaxPenaltyTokens)},
      {"--presence-penalty", "X", "taken from the logits of repeated tokens; 0: off", kSamples,
       real(&Settings::presence_penalty, -kMaxPenalty, kMaxPenalty)},
      {"--frequency-penalty", "X", "the same for every repetition; 0: off", kSamples,
       real(&Settings::frequency_penalty, -kMaxPenalty, kMaxPenalty)},
      {"--ignore-eos", "", "go on behind the end-of-generation token", kRun | kChat | kServe,
       toggle(&Settings::ignore_eos)},
      {"--ignore-eos", "", "go on behind the end-of-generation token; on unless --ignore-eos=off is given", kInspect,
       toggle(&Settings::ignore_eos)},
      {"-r --reverse-prompt --stop", "TEXT", "the answer ends in front of this text; may be given more than once",
       kGenerate, texts(&Settings::stop)},
      {"--grammar", "GBNF", "only text that this grammar allows", kGenerate, filled(&Settings::grammar)},
      {"--grammar-file", "FILE", "file with a grammar", kGenerate, filled(&Settings::grammar_file)},
      {"-j --json-schema", "SCHEMA", "only JSON that this schema allows", kGenerate, filled(&Settings::json_schema)},
      {"-jf --json-schema-file", "FILE", "file with a schema", kGenerate, filled(&Settings::json_schema_file)},
  };
}

// bench --json: one of the formats of --output.
Binding json_output() {
  return {.set = [](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(const bool on, parse_switch(value));
            if (on) settings.output = "json";
            return {};
          },
          .show = [](const Settings&) { return std::string(); },
          .is_switch = true};
}

std::vector<Option> bench_options() {
  return {
      {"-p --n-prompt", "LIST", "prompt tokens; 0: no such test", kBench,
       whole_list(&Settings::bench_prompt, 0, kMaxTokens)},
      {"-n --n-gen", "LIST", "generated tokens; 0: no such test", kBench,
       whole_list(&Settings::bench_gen, 0, kMaxTokens)},
      {"-d --n-depth", "LIST", "tokens already in the context", kBench,
       whole_list(&Settings::bench_depth, 0, kMaxTokens)},
      {"-r --repetitions", "N", "times each test runs", kBench, whole(&Settings::repetitions, 1, 100000)},
      {"-o --output", "FORMAT", "md, csv, json or jsonl", kBench,
       choice(&Settings::output, {"md", "csv", "json", "jsonl"})},
      {"--json", "", "the same as --output json", kBench, json_output()},
      {"--no-warmup", "", "no untimed run in front", kBench, toggle(&Settings::no_warmup)},
      {"--roofline", "", "measure what the machine's arithmetic and memory deliver, and the share that was reached",
       kBench, toggle(&Settings::roofline)},
  };
}

std::vector<Option> other_options() {
  return {
      {"--ids", "", "print the token ids as one list", kTokenize, toggle(&Settings::ids)},
      {"--no-bos", "", "do not add the tokens a model wants around a text", kTokenize, toggle(&Settings::no_bos)},
      {"--parse-special", "", "read special tokens such as <|im_start|> in the text as tokens",
       kTokenize | kRun | kInspect, toggle(&Settings::parse_special)},
      {"--decode", "", "feed the scored half token by token, as generation does: with KV compression at work",
       kPerplexity, toggle(&Settings::decode)},
      {"--decode-tokens", "N", "with --decode: the last N tokens of a chunk behind the others; 0: the second half",
       kPerplexity, whole(&Settings::decode_tokens, 0, kMaxTokens)},
      {"--stride", "N", "every N-th token of the scored half counts", kPerplexity,
       whole(&Settings::ppl_stride, 1, kMaxTokens)},
      {"--chunks", "N", "most chunks to score; -1: all", kPerplexity, whole(&Settings::chunks, -1, kNoLimit)},
      {"--kl-divergence", "", "KL divergence from the settings of --vs; without them, from full attention", kPerplexity,
       toggle(&Settings::kl_divergence)},
      {"--vs", "SETTINGS",
       "key=value,...: what differs, as in ctk=f16,ctv=f16 or base-budget=512; a method begins at its own preset",
       kPerplexity, text(&Settings::vs)},
      {"-s --seed", "N", "which fact is hidden, and where; -1: random", kDemo, seed(&Settings::demo_seed, kMaxSeed)},
      {"--tokens", "N", "length of the text; 0: 32768, or less where full attention would take more than two minutes",
       kDemo, whole_or_zero(&Settings::demo_tokens, 512, kMaxTokens)},
      {"--logits-out", "FILE", "write the prompt's logits: raw f32, [positions, vocab]", kRun,
       filled(&Settings::logits_out)},
      {"--dump-plan", "FILE",
       "write what a sparse prefill decided, as JSON: entropies, classes, budgets, counts, chosen blocks", kRun,
       filled(&Settings::dump_plan)},
      {"-o --output", "FILE", "the page to write; an older one is replaced", kInspect, filled(&Settings::report)},
      {"--json", "", "report as JSON on stdout", kReports, toggle(&Settings::json)},
      {"--options", "", "list the options of all methods, as docs/options.md has them", kMethods,
       toggle(&Settings::list_options)},
      {"-co --color", "WHEN", "on, off or auto", kEvery, color()},
      {"-v --verbose", "", "say more on stderr", kEvery, toggle(&Settings::verbose)},
      {"--log-file", "FILE", "append what goes to stderr with -v to this file too, without colour and progress bar",
       kEvery, filled(&Settings::log_file)},
      {"--config", "FILE", "read options from a file: 'name = value' lines, or one JSON object", kEvery,
       filled(&Settings::config)},
      {"--version", "", "print the version and leave", kEvery, toggle(&Settings::version)},
      {"-h --help", "", "this text", kEvery, toggle(&Settings::help)},
      {"--help-methods", "", "how each method can be told to work, research included",
       kGenerate | kBench | kPerplexity | kEval | kDemo, toggle(&Settings::help_methods)},
      {"--help-all", "", "every option", kEvery, toggle(&Settings::help_all)},
  };
}
}  // namespace

std::span<const CommandEntry> commands() { return kCommands; }
std::span<const Exclusion> exclusions() { return kExclusions; }

const CommandEntry* find_command(std::string_view name) {
  const auto found = std::find_if(kCommands.begin(), kCommands.end(), [&](const auto& e) { return e.name == name; });
  return found == kCommands.end() ? nullptr : &*found;
}

Settings default_settings(Command command) {
  Settings settings;
  if (command != kInspect) return settings;
  // The same page every time, and behind the first compression even when the answer is short.
  settings.method = "entropyinfer";
  settings.predict = 80;
  settings.temp = 0;
  settings.ignore_eos = true;
  return settings;
}

std::string_view Option::name() const {
  const size_t begin = spellings.find("--") + 2;
  return spellings.substr(begin, spellings.find(' ', begin) - begin);
}

const std::vector<Option>& options() {
  static const std::vector<Option> table = [] {
    struct Section {
      std::string_view heading;
      std::vector<Option> (*options)();
      bool of_methods = false;
    };
    std::vector<Option> all;
    for (const Section& section : {Section{"Model", model_options},
                                   {"Prompt", prompt_options},
                                   {"Generation", generation_options},
                                   {"More samplers", sampler_flags},
                                   {"What of a prompt is read", prefill_flags, true},
                                   {"What of the KV cache stays", kv_flags, true},
                                   {"Server", serve_flags},
                                   {"Tests", bench_options},
                                   {"Evaluation", eval_flags},
                                   {"Everything else", other_options},
                                   {"Of llama.cpp, accepted without effect", llama_switches}}) {
      for (Option& option : section.options()) {
        option.section = section.heading;
        option.of_methods = section.of_methods;
        all.push_back(std::move(option));
      }
    }
    return all;
  }();
  return table;
}

std::string environment_name(std::string_view option_name) {
  std::string name = "EI_ARG_";
  for (const char c : option_name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const policy::Method& method : policy::methods()) all.emplace_back(method.name);
    return all;
  }();
  return names;
}

}  // namespace ei::cli
