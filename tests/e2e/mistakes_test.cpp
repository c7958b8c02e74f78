// What a user can get wrong: one clear line on stderr, nothing on stdout, the right exit code, never a signal.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

namespace ei::e2e {
namespace {

using Words = std::vector<std::string>;

struct Mistake {
  Words arguments;
  int code;
  std::string message;
};

TEST(Mistakes, OfUsageAreOneLineAndExitTwo) {
  const std::vector<Mistake> mistakes = {
      {{}, 2, "no command given"},
      {{"fly"}, 2, "unknown command 'fly'; see"},
      {{"server"}, 2, "unknown command 'server' (did you mean serve?)"},
      {{"help", "rnu"}, 2, "no help for 'rnu' (did you mean run?)"},
      {{"-m", "x"}, 2, "a command stands in front of -m, as in entropyinfer run -m"},
      {{"run", "--bogus"}, 2, "run does not know --bogus"},
      {{"run", "-p", "x", "-n"}, 2, "-n needs a value"},
      {{"run", "-p", "x", "-n", "many"}, 2, "'many' is not a whole number"},
      {{"run", "-p", "x", "-n", "-7"}, 2, "'-7' is out of range"},
      {{"run", "-p", "x", "-c", "-1"}, 2, "'-1' is out of range"},
      {{"run", "-p", "x", "-t", "1e3"}, 2, "'1e3' is not a whole number"},
      {{"run", "-p", "x", "--temp", "nan"}, 2, "'nan' is not a finite number"},
      {{"run", "-p", "x", "--top-p", "2"}, 2, "'2' is out of range: from 0 to 1"},
      {{"run", "-p", "x", "--repeat-last-n", "-2"}, 2, "'-2' is out of range"},
      {{"run", "-p", "x", "--presence-penalty", "nan"}, 2, "'nan' is not a finite number"},
      {{"run", "-p", "x", "-ctk", "q1"}, 2, "'q1' is none of f32, f16, bf16, q8_0, fp8"},
      {{"run", "-p", "x", "-ctk", "fp8", "-ctv", "fp8"}, 2, "the cpu backend has no cache in fp8"},
      {{"run", "-p", "x", "-ctk", "q8_0", "--device", "ggml"}, 2, "the ggml backend has no cache of q8_0"},
      {{"run", "-p", "x", "--method", "magic"}, 2, "'magic' is none of full"},
      {{"run", "-p", "x", "--base-budget", "512"}, 2, "--base-budget has no meaning with --method full"},
      {{"run", "-p", "x", "--method", "entropyinfer", "--block", "7"}, 2, "block must divide segment"},
      {{"run", "-p", "x", "--method", "entropyinfer", "--block", "4"}, 2, "cannot rate blocks of 4 tokens by adaptive"},
      {{"run", "-p", "x", "--method", "entropyinfer", "--budget-rule", "fixed", "--e-t", "1"}, 2, "no meaning"},
      {{"bench", "--method", "entropyinfer", "--budget-rule", "growth", "--sparse-mode", "released"},
       2,
       "midrange only, not by adaptive; add --select midrange"},
      {{"tokenize", "-p", "x", "-f", "y"}, 2, "--prompt and --file exclude each other"},
      {{"run", "-p", "x", "-f", "no/such"}, 2, "cannot open prompt file no/such"},
      {{"run", "-p", "x", "-sysf", "no/such"}, 2, "cannot open system prompt file no/such"},
      {{"run", "-p", "x", "--grammar-file", "no/such"}, 2, "cannot open grammar file no/such"},
      {{"run", "-p", "x", "-jf", "no/such"}, 2, "cannot open JSON schema file no/such"},
      {{"run", "-p", "x", "--grammar", "root ::= \"a\"", "-j", "{}"}, 2, "exclude each other"},
      {{"run", "-p", ""}, 2, "the prompt is empty"},
      {{"run"}, 2, "the prompt is empty"},
      {{"run", "-f", "no/such/file.txt"}, 2, "cannot open prompt file no/such/file.txt"},
      {{"run", "-f", "/"}, 2, "is a directory"},
      {{"run", "-p", "bad \xff byte"}, 2, "not valid UTF-8 (byte 4)"},
      {{"run", "-p", "x", "-sys", "\xc3"}, 2, "the system prompt is not valid UTF-8"},
      {{"run", "-p", "a prompt of several tokens", "-c", "4"}, 2, "prompt is longer than the context"},
      {{"run", "-p", "x", "--grammar", "nonsense"}, 2, "grammar"},
      {{"run", "-p", "x", "-j", "{"}, 2, "entropyinfer: JSON schema: parse error at line 1"},
      {{"run", "-p", "x", "--chat-template", "{% if %}"}, 2, "template"},
      {{"run", "-p", "x", "--chat-template", "llama9"}, 2, "'llama9' is neither a name (chatml, "},
      {{"run", "-p", "x", "-m", ""}, 2, "--model: must not be empty"},
      {{"run", "-p", "x", "--grammar", ""}, 2, "--grammar: must not be empty"},
      {{"run", "-p", "x", "-j", ""}, 2, "--json-schema: must not be empty"},
      {{"run", "-p", "x", "--log-file", ""}, 2, "--log-file: must not be empty"},
      {{"run", "-p", "x", "--method", "a\nb\033[2J"}, 2, "'a?b?[2J' is none of full"},
      {{"run", "-f", "no\nsuch\xc2\x9b"}, 2, "cannot open prompt file no?such?"},
      {{"run", "--x\ny"}, 2, "run does not know --x?y"},
      {{"--list-devices", "--yaml"}, 2, "--list-devices takes nothing but --json"},
      {{"run", "-p", "x", "--config", "no/such.conf"}, 2, "cannot open config file"},
      {{"run", "-p", "x", "--log-file", "no/such/folder/log"}, 2, "cannot open log file"},
      {{"bench", "-p", "5-1"}, 2, "ends before it begins"},
      {{"bench", "-p", "0", "-n", "0"}, 2, "nothing to measure"},
      {{"bench", "-r", "0"}, 2, "'0' is out of range"},
      {{"bench", "-o", "xml"}, 2, "'xml' is none of md, csv, json, jsonl"},
      {{"perplexity"}, 2, "no text to score"},
      {{"perplexity", "-f", model(), "-c", "3"}, 2, "'3' is out of range: from 4"},
      {{"perplexity", "-f", model(), "--chunks", "0"}, 2, "--chunks 0 leaves nothing to score"},
      {{"perplexity", "-f", "/dev/null"}, 2, "the text is empty"},
      {{"perplexity", "-f", model(), "--vs", "b=7"}, 2, "--vs wants --kl-divergence"},
      {{"perplexity", "-f", model(), "--decode-tokens", "7"}, 2, "--decode-tokens wants --decode"},
      {{"perplexity", "-f", model(), "--decode", "--decode-tokens", "512"}, 2, "leaves no prompt of the 512 tokens"},
      {{"perplexity", "-f", model(), "--decode", "--stride", "7"}, 2, "--stride has no meaning with --decode"},
      {{"perplexity", "-f", model(), "--kl-divergence", "--vs", "block=8"}, 2, "--vs: --block has no meaning"},
      {{"tokenize", "-p", "x", "--ids", "--json"}, 2, "--ids and --json exclude each other"},
      {{"eval", "--teacher-forced", "--tasks", "sum"}, 2, "unknown task kind 'sum'; choose one of num, hex"},
      {{"eval", "--teacher-forced", "--length", "520", "--tasks", "list,var,quote"}, 2, "raise the length"},
      {{"eval", "--teacher-forced", "--vs", "length=2048"}, 2, "--vs cannot change --length"},
      {{"eval", "--teacher-forced", "--vs", "method=full,block=8"}, 2, "--block has no meaning with --method full"},
      {{"eval", "--teacher-forced", "--haystack", "no/such.txt"}, 2, "cannot open text file no/such.txt"},
      {{"eval", "--teacher-forced", "--method", "snapkv"}, 2, "does nothing while answers are read"},
      {{"eval", "--teacher-forced", "--also", "method=adakv"}, 2, "does nothing while answers are read"},
      {{"eval", "--teacher-forced", "--method", "entropyinfer", "--kv-gap", "4"}, 2, "meaning with --teacher-forced"},
      {{"eval", "--teacher-forced", "--methods", "full"}, 2, "--methods has no meaning with --teacher-forced"},
      {{"eval", "--method", "snapkv"}, 2, "answers that are generated take --methods"},
      {{"eval", "--tasks", "sum"}, 2, "unknown task 'sum'; --list-tasks names them"},
      {{"eval", "--tasks", "longbench:no/such.jsonl"}, 2, "cannot open no/such.jsonl"},
      {{"eval", "--tasks", "csv:a.csv"}, 2, "'csv' is no kind of file"},
      {{"eval", "--methods", "full,snap"}, 2, "'snap' is none of full"},
      {{"eval", "--methods", "full:kv-gap=4"}, 2, "--kv-gap has no meaning"},
      {{"eval", "--methods", "full:kv-budget=99"}, 2, "--kv-budget has no meaning with --method full"},
      {{"eval", "--methods", "full,full"}, 2, "--methods names full twice"},
      {{"eval", "--methods", "full", "--kv-budget", "10%"}, 2, "--kv-budget has no meaning with --method full"},
      {{"eval", "--methods", "snapkv:kv-budget=16"}, 2, "KV budget must exceed the window"},
      {{"eval", "--kv-budget", "0%"}, 2, "--kv-budget: "},
      {{"eval", "--lengths", "4m"}, 2, "--lengths: "},
      {{"eval", "--haystack", "no/such.txt"}, 2, "cannot open text file no/such.txt"},
      {{"demo", "--method", "full", "--block", "16"}, 2, "--block has no meaning with --method full"},
      {{"demo", "--tokens", "3"}, 2, "'3' is out of range"},
      {{"demo", "--tokens", "2000000"}, 2, "a text of 2000000 tokens is longer than the context of 131072"},
      {{"demo", "--tokens", "1024", "-c", "1000"}, 2, "longer than the context of 1000; lower --tokens"},
  };
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(testing::PrintToString(mistake.arguments));
    expect_line(run(mistake.arguments), mistake.code, mistake.message);
  }
}

TEST(Mistakes, UnreadableFilesAreNamed) {
  const std::string path = write_file("locked.gguf", "GGUF");
  ::chmod(path.c_str(), 0);
  const Outcome as_model = run(Invocation{.arguments = {"run", "-m", path, "-p", "x"}, .as_nobody = true});
  const Outcome as_prompt = run(Invocation{.arguments = {"run", "-f", path}, .as_nobody = true});
  ::chmod(path.c_str(), 0600);
  if (as_model.code == 127) GTEST_SKIP() << "another user may not run the program where it lies";
  expect_line(as_model, 3, path);
  expect_line(as_prompt, 2, path + ": Permission denied");
}

TEST(Mistakes, AContextBeyondMemoryExitsFourAndSaysHowMuchItNeeds) {
  const Outcome outcome = run({"run", "-m", model(), "-p", "x", "-c", "2000000000", "-n", "1900000000"});
  expect_line(outcome, 4, "TiB more, but only");
}

TEST(Mistakes, AModelBeyondTheLimitOfAddressesExitsFourAndSaysSo) {
  int limits = 0;
  for (const int64_t bytes : {60'000'000, 80'000'000, 100'000'000, 120'000'000}) {
    SCOPED_TRACE(bytes);
    const Outcome started = run(Invocation{.arguments = {"--version"}, .address_space = bytes});
    if (started.code == 127) continue;  // the shared libraries alone are larger: oneDNN's on x86
    const Outcome outcome =
        run(Invocation{.arguments = {"run", "-p", "x", "-n", "2", "-t", "1"}, .address_space = bytes});
    expect_line(outcome, 4, "memory");
    ++limits;
  }
  EXPECT_GT(limits, 0) << "the program starts within none of them";
}

TEST(Mistakes, AnUnknownIsaExitsTwoAndNamesThoseThereAre) {
  for (const char* command : {"info", "bench"}) {
    const Outcome outcome = run(Invocation{.arguments = {command}, .variables = {{"EI_CPU_ISA", "sse9"}}});
    expect_line(outcome, 2, "unknown EI_CPU_ISA 'sse9'; this build has: ");
    EXPECT_NE(outcome.err.find("scalar"), std::string::npos) << outcome.err;
  }
}

TEST(Mistakes, AnUnknownDeviceExitsFive) {
  expect_line(run({"run", "-m", model(), "-p", "x", "-dev", "tpu"}), 5, "'tpu'");
}

TEST(Mistakes, AFullDiskBehindStdoutIsSaid) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  for (const Words& arguments : {Words{"--help"}, Words{"--version"}, Words{"info"}, Words{"tokenize", "-p", "x"},
                                 Words{"run", "-p", "x", "-n", "4"}, Words{"run", "-p", "x", "-n", "4", "--json"},
                                 Words{"bench", "-p", "8", "-n", "0", "-r", "1"}}) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = run(Invocation{.arguments = arguments, .out_file = "/dev/full"});
    EXPECT_EQ(outcome.code, 1);
    const std::string line = "entropyinfer: cannot write to standard output: No space left on device\n";
    EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("entropyinfer:"), outcome.err.rfind("entropyinfer:")) << outcome.err;
  }
}

TEST(Mistakes, BadBytesInAPromptFileAreNamed) {
  const std::string path = write_file("bad.txt", "fine so far \xf0\x28");
  expect_line(run({"run", "-f", path}), 2, "bad.txt is not valid UTF-8 (byte 12)");
}

}  // namespace
}  // namespace ei::e2e
