// info: what a context costs, and in which types.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "printed_json.h"
#include "process.h"
#include "tools/random_model.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

TEST(Info, SaysWhatAContextCosts) {
  const json small = parse(run({"info", "--json", "-c", "1000", "-ctk", "f16", "-ctv", "f16"}).out);
  const json wide = parse(run({"info", "--json", "-c", "1000", "-ctk", "f32", "-ctv", "f32"}).out);
  EXPECT_EQ(small["arch"], "llama");
  EXPECT_EQ(small["layers"].size(), small["config"]["layers"].get<size_t>());
  // 8 layers x 2 kv_heads x 64 x (key and value) x 2 bytes
  EXPECT_EQ(small["kv"]["bytes_per_token"], 8 * 2 * 64 * 2 * 2);
  EXPECT_EQ(small["kv"]["bytes"], 1000 * 8 * 2 * 64 * 2 * 2);
  EXPECT_EQ(wide["kv"]["bytes"], 2 * small["kv"]["bytes"].get<int64_t>());
  EXPECT_GT(small["memory"]["total_bytes"], small["kv"]["bytes"]);
  // 34 bytes for 32 elements; values beside such keys are f16.
  const json quantised = parse(run({"info", "--json", "-c", "1000", "-ctk", "q8_0", "-ctv", "q8_0"}).out);
  EXPECT_EQ(quantised["kv"]["bytes_per_token"], 8 * 2 * 2 * 68);
  const json mixed = parse(run({"info", "--json", "-c", "1000", "-ctk", "q8_0"}).out);
  EXPECT_EQ(mixed["kv"]["bytes_per_token"], 8 * 2 * (68 + 128));
  EXPECT_EQ(mixed["kv"]["type_v"], "f16");
  EXPECT_TRUE(small["backend"]["describe"].is_string());
  const Outcome text = run({"info"});
  EXPECT_NE(text.out.find("KV cache"), std::string::npos);
  EXPECT_EQ(text.err, "");
}

TEST(Info, NamesTheCpuItWasBuiltFor) {
  const std::string target = EI_CPU_TARGET;
  EXPECT_EQ(parse(run({"info", "--json"}).out)["cpu_target"], target);
  EXPECT_EQ(run({"info"}).out.find(", used as " + target + " (EI_CPU_TARGET)") == std::string::npos, target.empty());
}

TEST(Info, CountsPackedCopiesOnlyWhereDenseMathsMakesThem) {
  const auto memory = [](const char* dense) {
    return parse(run(Invocation{.arguments = {"info", "--json"}, .variables = {{"EI_DENSE", dense}}}).out)["memory"];
  };
  EXPECT_EQ(memory("ggml")["packed_bytes"], 0);
  const Outcome ours = run(Invocation{.arguments = {"info", "--json"}, .variables = {{"EI_DENSE", "bf16"}}});
  if (ours.code != 0) {
    EXPECT_EQ(ours.code, 2) << ours.err;
    GTEST_SKIP() << ours.err;
  }
  // 8 layers x (QKV + output + gate, up and down) x 2 bytes; panels of fp16 hold a scale for every row, of 8 bytes,
  // those of int8 take 40 bytes for a block of 32
  const std::string numbers = parse(ours.out)["backend"]["describe"];
  const int64_t weights = 384 * (640 + 384 + 3 * 1024);
  const int64_t rows = 640 + 384 + 2 * 1024 + 384;
  int64_t bytes = 2 * weights;
  if (numbers.find("in fp16") != std::string::npos) bytes += 8 * rows;
  if (numbers.find("in int8") != std::string::npos) bytes = weights / 32 * 40;
  EXPECT_EQ(parse(ours.out)["memory"]["packed_bytes"], 8 * bytes);
}

// What it names is what would run: the types of the cache and of the weights decide, not the machine alone.
TEST(Info, NamesTheKernelsThatTheseTypesGet) {
  const auto computes = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"info", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return parse(run(arguments).out)["backend"]["describe"].get<std::string>();
  };
  const std::string wide = computes({"-ctk", "f32", "-ctv", "f32"});
  EXPECT_EQ(wide.find("attention neonbf16"), std::string::npos) << wide;
  EXPECT_EQ(wide.find("attention amx"), std::string::npos) << wide;
  const std::string exact = write_file("exact.gguf", "");
  RandomModelSpec spec;
  spec.types = {"F32"};
  ASSERT_TRUE(make_random_model(spec, exact).ok());
  const std::string f32 = computes({"-m", exact});
  EXPECT_TRUE(f32.ends_with("dense maths ggml")) << f32;
}

TEST(Info, CountsTheCopiesOfWeightsThatAreAllowed) {
  const auto copies = [](const std::string& mebibytes) {
    const Outcome outcome = run({"info", "--json", "--packed-memory", mebibytes});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse(outcome.out)["memory"]["packed_bytes"].get<int64_t>();
  };
  EXPECT_EQ(copies("0"), 0);
  EXPECT_LE(copies("4"), 4 << 20);
  EXPECT_EQ(copies("-1"), copies("200"));  // the model that ships with the program is small
  expect_line(run({"info", "--packed-memory", "much"}), 2, "--packed-memory");
}

// The kernels that multiply bf16 as it is say so in their names, but for AMX.
TEST(Info, TheCacheIsBf16WhereTheKernelsMultiplyItElseF16) {
  const auto info = [](const std::string& isa) {
    const Outcome outcome = run(Invocation{.arguments = {"info", "--json"}, .variables = {{"EI_CPU_ISA", isa}}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse(outcome.out);
  };
  const std::string names = run(Invocation{.arguments = {"info"}, .variables = {{"EI_CPU_ISA", "?"}}}).err;
  int checked = 0;
  for (const char* isa : {"", "amx", "avx512bf16", "avx512", "avx2", "neonbf16", "neonfp16", "neon", "scalar"}) {
    if (names.find(isa) == std::string::npos) continue;
    SCOPED_TRACE(isa);
    const json object = info(isa);
    const std::string all = object["backend"]["describe"];  // "cpu: 2 threads, attention neonbf16, dense maths ..."
    const std::string chosen = all.substr(0, all.find(", dense"));
    const bool multiplies = chosen.ends_with("bf16") || chosen.ends_with("amx");
    EXPECT_EQ(object["kv"]["type_k"], multiplies ? "bf16" : "f16") << chosen;
    EXPECT_EQ(object["kv"]["type_v"], object["kv"]["type_k"]);
    if (std::string(isa) == "scalar" || std::string(isa) == "neon" || std::string(isa) == "avx2") {
      EXPECT_EQ(object["kv"]["type_k"], "f16");
    }
    ++checked;
  }
  EXPECT_GE(checked, 3);
}

}  // namespace
}  // namespace ei::e2e
