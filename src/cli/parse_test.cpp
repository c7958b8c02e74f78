#include "cli/parse.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "cli/config_file.h"
#include "cli/option_values.h"
#include "support/parse_words.h"

namespace ei::cli {
namespace {

// A file of this text, instead of the one before; it goes with the process.
std::string config_file(const std::string& text) {
  static const struct Scratch {
    std::string path = testing::TempDir() + str_format("cli_parse_%d.conf", static_cast<int>(getpid()));
    ~Scratch() { std::remove(path.c_str()); }
  } scratch;
  std::FILE* file = std::fopen(scratch.path.c_str(), "w");
  std::fputs(text.c_str(), file);
  std::fclose(file);
  return scratch.path;
}

TEST(Parse, DefaultsAreThoseOfLlamaCpp) {
  const Result<Settings> settings = parse_words("run", {});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->temp, 0.8);
  EXPECT_EQ(settings->top_k, 40);
  EXPECT_EQ(settings->top_p, 0.95);
  EXPECT_EQ(settings->min_p, 0.05);
  EXPECT_EQ(settings->repeat_penalty, 1.0);
  EXPECT_EQ(settings->repeat_last_n, 64);
  EXPECT_EQ(settings->presence_penalty, 0.0);
  EXPECT_EQ(settings->frequency_penalty, 0.0);
  EXPECT_EQ(settings->ctx_size, 0);
  EXPECT_EQ(settings->predict, -1);
  EXPECT_EQ(settings->method, "full");
}

TEST(Parse, AnEmptyVariableIsNotSet) {
  const Result<Settings> settings = parse_words("run", {}, {{"EI_ARG_CTX_SIZE", ""}, {"EI_ARG_CONFIG", ""}});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->ctx_size, 0);
  const std::string config = config_file("ctx-size = 99\n");
  EXPECT_EQ(parse_words("run", {"--config", config}, {{"EI_ARG_CTX_SIZE", ""}})->ctx_size, 99);
}

TEST(Parse, ShortLongAndEqualsFormsAreTheSame) {
  for (const Words& words : {Words{"-ctk", "f16"}, Words{"--cache-type-k", "f16"}, Words{"--cache-type-k=f16"}}) {
    const Result<Settings> settings = parse_words("run", words);
    ASSERT_TRUE(settings.ok()) << settings.error().message;
    EXPECT_EQ(settings->cache_type_k, "f16");
  }
}

TEST(Parse, AValueMayLookLikeAFlagOrAList) {
  const Result<Settings> settings = parse_words("run", {"-p", "-st", "-n", "-1", "-sys", "[a, b]"});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->prompt, "-st");
  EXPECT_EQ(settings->predict, -1);
  EXPECT_EQ(settings->system_prompt, "[a, b]");
}

TEST(Parse, TheLastOfTwoFlagsWinsAndListsAreJoined) {
  EXPECT_EQ(parse_words("run", {"-c", "1", "-c", "2"})->ctx_size, 2);
  EXPECT_EQ(parse_words("bench", {"-p", "1", "-p", "2,3"})->bench_prompt, (std::vector<int64_t>{1, 2, 3}));
}

TEST(Parse, FlagBeatsEnvironmentBeatsConfigBeatsDefault) {
  const std::string config = config_file("# a comment\nctx_size = 100\n\ntemp = 0.1\ntop-k = 5\nn-gen = 7\n");
  const Variables variables = {{"EI_ARG_CONFIG", config}, {"EI_ARG_CTX_SIZE", "200"}, {"EI_ARG_TEMP", "0.2"}};
  const Result<Settings> settings = parse_words("run", {"-c", "300"}, variables);
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->ctx_size, 300);
  EXPECT_EQ(settings->temp, 0.2);
  EXPECT_EQ(settings->top_k, 5);
  EXPECT_EQ(settings->top_p, 0.95);
}

TEST(Parse, ReadsAJsonConfig) {
  const std::string config = config_file(R"({"n-prompt": [16, 32], "method": "full", "no-warmup": true})");
  const Result<Settings> settings = parse_words("bench", {"--config", config});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->bench_prompt, (std::vector<int64_t>{16, 32}));
  EXPECT_TRUE(settings->no_warmup);
}

TEST(Parse, ConfigMistakesNameTheLine) {
  EXPECT_NE(error_of("run", {"--config", config_file("temp = 1\nbogus = 2\n")}).find(":2: unknown option 'bogus'"),
            std::string::npos);
  EXPECT_NE(error_of("run", {"--config", config_file("temp 1\n")}).find(":1: not a 'name = value' line"),
            std::string::npos);
  EXPECT_NE(error_of("run", {"--config", config_file("\ntemp = hot\n")}).find("--temp: 'hot' is not a number (from"),
            std::string::npos);
  EXPECT_NE(error_of("run", {"--config", config_file("{\"temp\": ")}).find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("run", {"--config", config_file("{\n\"temp\": 1,\n\"top-k\" 3}\n")}).find("JSON (line 3)"),
            std::string::npos);
  EXPECT_NE(error_of("run", {"--config", config_file("config = other.conf\n")}).find(":1: a config file cannot name"),
            std::string::npos);
  EXPECT_NE(error_of("run", {"--config", "no/such/file"}).find("cannot open config file"), std::string::npos);
}

TEST(Parse, BadValuesAreNamedWithTheirFlag) {
  EXPECT_EQ(error_of("run", {"-c", "many"}), "--ctx-size: 'many' is not a whole number");
  EXPECT_EQ(error_of("run", {"-c", ""}), "--ctx-size: '' is not a whole number");
  EXPECT_EQ(error_of("run", {"-c", "12x"}), "--ctx-size: '12x' is not a whole number");
  EXPECT_EQ(error_of("run", {"-c", "99999999999999999999"}), "--ctx-size: '99999999999999999999' is out of range");
  EXPECT_NE(error_of("run", {"-c", "-5"}).find("'-5' is out of range: from 0 to"), std::string::npos);
  EXPECT_NE(error_of("run", {"-n", "-2"}).find("out of range"), std::string::npos);
  EXPECT_NE(error_of("run", {"-t", "-2"}).find("out of range"), std::string::npos);
  EXPECT_EQ(error_of("run", {"--temp", "nan"}), "--temp: 'nan' is not a finite number");
  EXPECT_EQ(error_of("run", {"--temp", "inf"}), "--temp: 'inf' is not a finite number");
  EXPECT_EQ(error_of("run", {"--top-p", "1.5"}), "--top-p: '1.5' is out of range: from 0 to 1");
  EXPECT_EQ(error_of("run", {"-ctk", "q3"}), "--cache-type-k: 'q3' is none of f32, f16, bf16, q8_0, fp8");
  EXPECT_TRUE(error_of("run", {"--method", "magic"}).starts_with("--method: 'magic' is none of full, "));
  EXPECT_EQ(error_of("run", {"--color", "blue"}), "--color: 'blue' is none of on, off, auto");
  EXPECT_EQ(error_of("run", {"--ignore-eos=maybe"}), "--ignore-eos: 'maybe' is neither on nor off");
  EXPECT_EQ(error_of("run", {}, {{"EI_ARG_SEED", "x"}}), "--seed: 'x' is not a whole number (from EI_ARG_SEED)");
}

TEST(Parse, UnknownWordsAreRefusedWithAHint) {
  EXPECT_NE(error_of("run", {"--tempp", "1"}).find("did you mean --temp?"), std::string::npos);
  EXPECT_NE(error_of("run", {"hello"}).find("unexpected 'hello'"), std::string::npos);
  EXPECT_NE(error_of("info", {"--temp", "1"}).find("info does not know --temp"), std::string::npos);
  EXPECT_EQ(error_of("run", {"-m"}), "-m needs a value: -m FILE");
}

TEST(Parse, ConflictsOfOneSourceAreRefused) {
  EXPECT_EQ(error_of("tokenize", {"-p", "a", "-f", "b"}), "--prompt and --file exclude each other");
  EXPECT_EQ(error_of("run", {"--grammar", "a", "-j", "{}"}), "--grammar and --json-schema exclude each other");
  EXPECT_EQ(error_of("run", {"--raw", "-sys", "x"}), "--raw and --system-prompt exclude each other");
  EXPECT_TRUE(parse_words("run", {"--raw=off", "-sys", "x"}).ok());
}

TEST(Parse, EveryExclusionIsRefusedByACommandThatTakesBoth) {
  for (const Exclusion& pair : exclusions()) {
    if (pair.together) continue;
    const auto commands_of = [](std::string_view name) {
      unsigned all = 0;
      for (const Option& option : options()) all |= option.name() == name ? option.commands : 0u;
      return all;
    };
    const unsigned both = commands_of(pair.first) & commands_of(pair.second);
    int refused = 0;
    for (const CommandEntry& entry : commands()) {
      if ((both & entry.command) == 0) continue;
      const std::string first = "--" + std::string(pair.first) + "=on";
      const std::string second = "--" + std::string(pair.second) + "=on";
      refused += error_of(std::string(entry.name).c_str(), {first, second}).ends_with("exclude each other");
    }
    EXPECT_GT(refused, 0) << pair.first << " and " << pair.second;
  }
}

TEST(Parse, JsonIsAFormatOfABenchmarkAndAReportElsewhere) {
  EXPECT_EQ(parse_words("bench", {"--json"})->output, "json");
  EXPECT_EQ(parse_words("bench", {"--json=off"})->output, "md");
  EXPECT_EQ(parse_words("bench", {"-o", "csv"}, {{"EI_ARG_JSON", "1"}})->output, "csv");
  EXPECT_EQ(parse_words("bench", {"--json"}, {{"EI_ARG_OUTPUT", "csv"}})->output, "json");
  EXPECT_EQ(error_of("bench", {"--json", "-o", "jsonl"}), "--output and --json exclude each other");
  // The page of inspect is a file, and its --json goes to stdout.
  EXPECT_TRUE(parse_words("inspect", {"--json", "-o", "page.html"})->json);
}

TEST(Parse, AQuestionAndItsTextGoTogetherWhenTheyComeFromOnePlace) {
  const Result<Settings> both = parse_words("run", {"-p", "why?", "-f", "text.txt"});
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->prompt, "why?");
  EXPECT_EQ(both->file, "text.txt");
  EXPECT_TRUE(parse_words("run", {"-p", "why?"}, {{"EI_ARG_FILE", "text.txt"}})->file.empty());
}

TEST(Parse, StopStringsAddUpAndMayHoldCommas) {
  EXPECT_EQ(parse_words("run", {"-r", "a,b", "--stop", "c"})->stop, (std::vector<std::string>{"a,b", "c"}));
  EXPECT_EQ(error_of("run", {"-r", ""}), "--reverse-prompt: must not be empty");
}

TEST(Parse, SwitchesOfLlamaCppAreAcceptedWithANote) {
  const Result<Settings> settings =
      parse_words("run", {"--jinja", "-cnv", "-fa", "on", "-fa", "-ngl", "0", "--no-warmup", "--simple-io", "-t", "-1",
                          "--top-k", "-1", "--temp", "-1", "-p", "x"});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->notes.size(), 6u);
  EXPECT_EQ(settings->prompt, "x");
  EXPECT_EQ(parse_words("run", {"-ngl", "99"})->notes.size(), 1u);
  EXPECT_EQ(parse_words("run", {"-ngl", "all"})->notes.size(), 1u);
  EXPECT_FALSE(parse_words("run", {"-ngl", "many"}).ok());
  EXPECT_EQ(
      parse_words("run", {"--no-escape", "--no-context-shift", "--no-perf", "--check-tensors", "-nkvo"})->notes.size(),
      5u);
  EXPECT_EQ(parse_words("chat", {"-i", "--log-disable", "--keep", "-1", "--keep", "64"})->notes.size(), 3u);
  EXPECT_FALSE(parse_words("chat", {"--keep", "some"}).ok());
  EXPECT_EQ(parse_words("chat", {"--color", "-i"})->color, "on");
  EXPECT_EQ(parse_words("chat", {"-co", "off"})->color, "off");
  EXPECT_EQ(parse_words("run", {"-mg", "0", "-sm", "layer", "--numa", "distribute", "--prio", "2", "--poll", "50",
                                "--verbose-prompt"})
                ->notes.size(),
            6u);
  EXPECT_FALSE(parse_words("run", {"-sm", "diagonal"}).ok());
}

TEST(Parse, HelpAndVersionAreGivenWhateverElseIsWrong) {
  for (const CommandEntry& entry : commands()) {
    const std::string name(entry.name);
    for (const char* flag : {"--version", "--help"}) {
      const Result<Settings> settings = parse_words(name.c_str(), {"--color", "blue", flag});
      ASSERT_TRUE(settings.ok()) << name << " " << flag;
      EXPECT_EQ(settings->version, std::string(flag) == "--version") << name;
      EXPECT_NE(settings->help, settings->version) << name;
    }
  }
}

TEST(Parse, AFlagReplacesItsRivalFromTheEnvironment) {
  const Result<Settings> settings = parse_words("run", {"-f", "b"}, {{"EI_ARG_PROMPT", "a"}});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_FALSE(settings->prompt.has_value());
  EXPECT_EQ(settings->file, "b");
}

// What one environment or config file says for all commands must suit each of them.
TEST(Parse, ZeroContextAndRandomSeedAreKnownEverywhere) {
  const Result<Settings> scored = parse_words("perplexity", {"-f", "x"}, {{"EI_ARG_CTX_SIZE", "0"}});
  ASSERT_TRUE(scored.ok()) << scored.error().message;
  EXPECT_EQ(scored->ppl_ctx_size, 0);
  EXPECT_FALSE(parse_words("perplexity", {"-f", "x", "-c", "3"}, {}).ok());
  EXPECT_EQ(parse_words("perplexity", {"-f", "x", "-c", "4"}, {})->ppl_ctx_size, 4);
  const Result<Settings> shown = parse_words("demo", {}, {{"EI_ARG_SEED", "-1"}});
  const Result<Settings> tested = parse_words("eval", {}, {{"EI_ARG_SEED", "-1"}});
  ASSERT_TRUE(shown.ok() && tested.ok());
  EXPECT_GE(shown->demo_seed, 0);
  EXPECT_GE(tested->eval_seed, 0);
  EXPECT_FALSE(parse_words("demo", {"-s", "-2"}, {}).ok());
}

TEST(Parse, OverridesChangeOnlyWhatTheyName) {
  Settings base;
  base.method = "full";
  base.threads = 3;
  const CommandEntry& entry = *find_command("perplexity");
  const Result<Settings> other = with_overrides(entry, base, "ctk=f16,device=reference");
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->cache_type_k, "f16");
  EXPECT_EQ(other->device, "reference");
  EXPECT_EQ(other->threads, 3);
  EXPECT_FALSE(with_overrides(entry, base, "nonsense").ok());
  EXPECT_FALSE(with_overrides(entry, base, "ctk=q3").ok());
}

TEST(Lists, TakeNumbersAndRanges) {
  const auto list = [](const char* text) { return *parse_list(text, 0, 1 << 20); };
  EXPECT_EQ(list("512,1024"), (std::vector<int64_t>{512, 1024}));
  EXPECT_EQ(list("1-4"), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(list("0-1000+500,7"), (std::vector<int64_t>{0, 500, 1000, 7}));
  EXPECT_EQ(list("256-2048*2"), (std::vector<int64_t>{256, 512, 1024, 2048}));
  for (const char* bad : {"", ",", "1,,2", "5-1", "0-8*2", "1-8*1", "1-8+0", "1-8+", "x", "-4", "0-1048576"}) {
    EXPECT_FALSE(parse_list(bad, 0, 1 << 20).ok()) << bad;
  }
}

TEST(Options, EveryOneHasAUniqueSpellingHelpAndATwinPerCommand) {
  for (const CommandEntry& entry : commands()) {
    std::set<std::string> spellings;
    std::set<std::string> variables;
    const std::string help = command_help(entry, HelpPage::kAll);
    const std::string first_page = command_help(entry, HelpPage::kFirst);
    for (const Option& option : options()) {
      if ((option.commands & entry.command) == 0) continue;
      for (const std::string& spelling : split(option.spellings, ' ')) {
        EXPECT_TRUE(spellings.insert(spelling).second) << entry.name << " " << spelling;
        EXPECT_NE(help.find(spelling), std::string::npos) << entry.name << " " << spelling;
        const bool listed = first_page.find("\n  " + spelling) != std::string::npos ||
                            first_page.find(", " + spelling) != std::string::npos;
        EXPECT_NE(listed, option.research) << spelling;
      }
      EXPECT_TRUE(variables.insert(environment_name(option.name())).second) << option.name();
      EXPECT_FALSE(option.help.empty()) << option.name();
      EXPECT_EQ(option.value.empty(), option.binding.is_switch) << option.name();
    }
  }
}

TEST(Options, EveryDefaultReadsBackAsItself) {
  for (const Option& option : options()) {
    Settings settings;
    const std::string standard = option.binding.show(settings);
    if (standard.empty()) continue;
    const Status status = option.binding.set(settings, standard);
    EXPECT_TRUE(status.ok()) << option.name();
    EXPECT_EQ(option.binding.show(settings), standard) << option.name();
  }
}

TEST(Parse, EveryLongSpellingHasAVariable) {
  const auto with = [](const char* name, const char* value) {
    return [=](const char* asked) { return std::string_view(asked) == name ? value : nullptr; };
  };
  const Result<Settings> settings = parse_settings(*find_command("run"), {}, with("EI_ARG_N_PREDICT", "7"));
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->predict, 7);
  EXPECT_FALSE(parse_settings(*find_command("run"), {}, with("EI_ARG_N_PREDICT", "zzz")).ok());
}

TEST(Parse, BenchTakesOneModel) {
  EXPECT_NE(error_of("bench", {"-m", "a", "-m", "b"}).find("one model at a time"), std::string::npos);
}

}  // namespace
}  // namespace ei::cli
