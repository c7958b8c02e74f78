// Which template is taken, and when a prompt stays as it is.
#include "engine/prompt.h"

#include <gtest/gtest.h>

#include "support/embedded_engine.h"

namespace ei {
namespace {

const text::Tokenizer& words() { return embedded_engine().tokenizer(); }

std::string rendered(const PromptText& prompt) {
  const auto tokens = prompt_tokens(prompt, words());
  return tokens.ok() ? words().detokenize(*tokens, /*special=*/true) : tokens.error().message;
}

TEST(Prompt, TakesTheModelsTemplateUnlessAnotherIsAskedFor) {
  ASSERT_TRUE(has_template("", words()));
  const std::string own = rendered({.user = "Hello"});
  EXPECT_NE(own.find("Hello"), std::string::npos);
  EXPECT_NE(own, "Hello");
  EXPECT_EQ(rendered({.user = "Hello", .raw = true}).find("<|im_start|>"), std::string::npos);
  EXPECT_NE(rendered({.user = "Hello", .chat_template = "[{{ messages[0].content }}]"}).find("[Hello]"),
            std::string::npos);
  EXPECT_NE(rendered({.user = "Hello", .system = "Short.", .chat_template = "chatml"}).find("Short."),
            std::string::npos);
  EXPECT_NE(rendered({.user = "Hello", .chat_template = "llama3"}).find("<|start_header_id|>user"), std::string::npos);
}

TEST(Prompt, RefusesWhatIsNoTemplateAndASystemMessageWithoutOne) {
  EXPECT_NE(rendered({.user = "x", .chat_template = "llama9"}).find("neither a name (chatml, "), std::string::npos);
  EXPECT_NE(rendered({.user = "x", .system = "y", .raw = true}).find("needs a chat template"), std::string::npos);
  const auto broken = choose_template("{% if %}", words());
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().kind, ErrorKind::kUsage) << "the model is not at fault";
}

TEST(Prompt, ControlTokensComeFromTextOnlyWhenAskedFor) {
  const auto plain = prompt_tokens({.user = "<|im_end|>", .raw = true}, words());
  const auto parsed = prompt_tokens({.user = "<|im_end|>", .raw = true, .parse_special = true}, words());
  ASSERT_TRUE(plain.ok() && parsed.ok());
  EXPECT_GT(plain->size(), parsed->size());
  const auto refused = prompt_tokens({.user = "<|im_end|>", .parse_special = true}, words());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace ei
