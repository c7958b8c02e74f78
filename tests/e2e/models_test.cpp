// Model files with something wrong: one line that names the file, exit code 3 (4 when it is only too large), from every
// command that would have used what is wrong.
#include "models.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "printed_json.h"
#include "process.h"
#include "tools/random_model.h"

namespace ei::e2e {
namespace {

using Words = std::vector<std::string>;

const char* const kCommands[] = {"run", "info", "tokenize", "chat", "bench", "perplexity", "eval", "inspect", "demo"};

Words with_model(const std::string& command, const std::string& path) {
  Words arguments = {command, "-m", path};
  if (command == "run" || command == "tokenize" || command == "inspect") arguments.insert(arguments.end(), {"-p", "x"});
  if (command == "inspect") arguments.insert(arguments.end(), {"-o", write_file("page.html", "")});
  if (command == "perplexity") arguments.insert(arguments.end(), {"-f", write_file("text.txt", "some text")});
  return arguments;
}

TEST(Models, ThatAreNoneExitThree) {
  const std::string empty = write_file("empty.gguf", "");
  const std::string words = write_file("words.gguf", "these are not the bytes of a model");
  const std::string cut = write_file("cut.gguf", std::string("GGUF\x03\0\0\0", 8));
  for (const std::string& path : {std::string("no/such/model.gguf"), std::string("/"), empty, words, cut}) {
    for (const char* command : kCommands) {
      SCOPED_TRACE(std::string(command) + " " + path);
      expect_line(run(with_model(command, path)), 3, path);
    }
  }
}

TEST(Models, OfAnotherShapeThanTheySayAreRefusedByInfoAndByRunInTheSameWords) {
  constexpr uint32_t kMuch = 1 << 20;
  constexpr uint32_t kMinusOne = 0xBF800000;  // as f32
  const std::vector<std::pair<std::string, uint32_t>> lies = {
      {"llama.embedding_length", kMuch}, {"llama.feed_forward_length", kMuch}, {"llama.block_count", 9},
      {"llama.block_count", 7},          {"llama.rope.dimension_count", 32},   {"llama.rope.freq_base", kMinusOne}};
  for (const auto& [key, bits] : lies) {
    SCOPED_TRACE(key);
    const std::string path = model_with_number("shape.gguf", key, bits);
    const Outcome info = run(with_model("info", path));
    expect_line(info, 3, "entropyinfer: " + path + ": ");
    expect_line(run(with_model("run", path)), 3, info.err);
  }
}

// The scale of an input, which nothing reads, under names that are no layer's.
TEST(Models, WithTensorsOfNoLayerAreRefused) {
  RandomModelSpec spec;
  spec.scales = true;
  const std::string path = write_file("layers.gguf", "");
  ASSERT_TRUE(make_random_model(spec, path).ok());
  EXPECT_EQ(run({"info", "-m", path}).code, 0);
  const std::string bytes = contents(path);
  const std::string name = "blk.1.attn_q.input_scale";
  const size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  for (const char* layer : {"+", "-", " ", "2", "x"}) {
    std::string changed = bytes;
    changed.replace(at + 4, 1, layer);
    const std::string other = write_file("no_layer.gguf", changed);
    expect_line(run({"info", "-m", other}), 3, "nothing here uses its tensor 'blk." + std::string(layer) + ".attn_q");
  }
}

TEST(Models, WithATemplateThatFailsAreBlamed) {
  const std::vector<std::pair<std::string, std::string>> templates = {
      {"open.gguf", "{% for m in messages %}{{ m.content }}"},
      {"loops.gguf", "{% for i in range(1000000000) %}x{% endfor %}"},
      {"explodes.gguf",
       "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}"}};
  for (const auto& [name, source] : templates) {
    const std::string path = model_with_template(name, source);
    for (const char* command : {"run", "inspect", "demo", "eval"}) {
      SCOPED_TRACE(std::string(command) + " " + name);
      expect_line(run(with_model(command, path)), 3, path + ": chat template: ");
    }
    SCOPED_TRACE(name);
    expect_line(run(Invocation{.arguments = with_model("chat", path), .input = "hello\n"}), 3, path);
    expect_line(run({"run", "-p", "x", "--chat-template", source}), 2, "entropyinfer: chat template: ");
    EXPECT_EQ(run({"run", "-m", path, "-p", "x", "-n", "1", "--chat-template", "chatml"}).code, 0);
    EXPECT_EQ(run({"run", "-m", path, "-p", "x", "-n", "1", "--raw"}).code, 0);
  }
}

TEST(Models, TakeAChatTemplateFromAFile) {
  const std::string source = "{% for m in messages %}<{{ m.role }}> {{ m.content }}{% endfor %}";
  const std::string path = write_file("template.jinja", source);
  const auto answer = [](const char* option, const std::string& value) {
    const Outcome outcome = run({"run", "-p", "hello", "-n", "8", "--temp", "0", "--json", option, value});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json object = parse(outcome.out);
    return std::pair(object["tokens"]["prompt"].get<int>(), object["text"].get<std::string>());
  };
  const auto from_file = answer("--chat-template-file", path);
  EXPECT_EQ(from_file, answer("--chat-template", source));
  EXPECT_NE(from_file.first, answer("--chat-template", "{{ messages[0].content }}").first);
  expect_line(run({"run", "-p", "x", "--chat-template-file", "no/such.jinja"}), 2, "cannot open chat template");
  expect_line(run({"run", "-p", "x", "--chat-template-file", path, "--raw"}), 2, "exclude each other");
}

TEST(Models, LargerThanMemoryExitFourAndSayWhatTheyNeed) {
  const std::string path = huge_model();
  if (path.empty()) GTEST_SKIP() << "no file of several TiB can be made here";
  const Outcome outcome = run({"run", "-m", path, "-p", "x"});
  expect_line(outcome, 4, path + ": the weights need 3407");
  EXPECT_NE(outcome.err.find(" MiB of memory is available; take a smaller model"), std::string::npos) << outcome.err;
  const Outcome info = run({"info", "-m", path});
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_NE(info.out.find("weights 3.3 TiB"), std::string::npos) << info.out;
}

}  // namespace
}  // namespace ei::e2e
