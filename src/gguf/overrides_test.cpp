#include "gguf/overrides.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "gguf/file.h"
#include "support/small_model.h"

namespace ei::gguf {
namespace {

TEST(Overrides, AreKeysWithATypeAndAValue) {
  const auto parsed = parse_overrides("llama.rope.freq_base=float:5e5,a.b=int:-3,c=bool:false,d=str:x\\,y:z=1");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(
      *parsed,
      (Overrides{{"llama.rope.freq_base", 5e5}, {"a.b", int64_t{-3}}, {"c", false}, {"d", std::string("x,y:z=1")}}));
}

TEST(Overrides, SayWhatIsWrong) {
  for (const char* text : {"", "key", "key=", "key=int", "=int:3", "key=int:three", "key=float:", "key=bool:maybe",
                           "key=text:x", "a=int:1,,b=int:2", "a=int:1,"}) {
    const auto parsed = parse_overrides(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage) << text;
  }
  EXPECT_FALSE(parse_overrides("a=str:" + std::string(128, 'x')).ok());
}

TEST(Overrides, StandInPlaceOfWhatTheFileSays) {
  const std::string model = small_model();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(model));
  const Overrides overrides{{"{arch}.context_length", int64_t{12345}},
                            {"{arch}.rope.scaling.type", std::string("linear")}};
  const auto plain = File::parse(bytes, "plain");
  const auto file = File::parse(bytes, "changed", overrides);
  ASSERT_TRUE(plain.ok() && file.ok());
  const std::string arch(*file->string("general.architecture"));
  EXPECT_EQ(file->integer(arch + ".context_length"), 12345);
  EXPECT_EQ(file->string(arch + ".rope.scaling.type"), "linear");
  EXPECT_NE(plain->integer(arch + ".context_length"), 12345);
  EXPECT_EQ(file->metadata().size(), plain->metadata().size() + 1) << "one key was there, one is new";
}

TEST(Overrides, AreHeldToTheSameChecks) {
  const std::string model = small_model();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(model));
  EXPECT_FALSE(File::parse(bytes, "model", Overrides{{"{arch}.rope.scaling.type", int64_t{3}}}).ok());
  EXPECT_FALSE(File::parse(bytes, "model", Overrides{{"{arch}.block_count", int64_t{-1}}}).ok());
  const auto array = File::parse(bytes, "model", Overrides{{"tokenizer.ggml.tokens", std::string("x")}});
  ASSERT_FALSE(array.ok());
  EXPECT_NE(array.error().message.find("a list"), std::string::npos);
}

}  // namespace
}  // namespace ei::gguf
