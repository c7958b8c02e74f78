// libllama knows the same names: what it writes is the oracle.
#include "text/named_templates.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <vector>

#include "support/test_model.h"
#include "text/chat_template.h"

namespace ei::text {
namespace {

std::string written_by_libllama(const std::string& name, const std::vector<Message>& messages, bool adds) {
  std::vector<llama_chat_message> chat;
  for (const Message& message : messages) chat.push_back({message.role.c_str(), message.content.c_str()});
  std::string text(4096, '\0');
  const int32_t size = llama_chat_apply_template(name.c_str(), chat.data(), chat.size(), adds, text.data(),
                                                 static_cast<int32_t>(text.size()));
  EXPECT_GT(size, 0) << name;
  text.resize(static_cast<size_t>(std::max(size, 0)));
  return text;
}

TEST(NamedTemplates, WriteWhatLibllamaWritesUnderTheirNames) {
  const std::vector<std::vector<Message>> talks = {
      {{"user", "Where is the key?"}},
      {{"system", " Be brief. "}, {"user", "Where is\nthe key?\n"}},
      {{"system", "Be brief."}, {"user", "One?"}, {"assistant", " Two. "}, {"user", "Three?"}},
      {{"user", "One?"}, {"assistant", "Two."}, {"user", "Three?"}, {"assistant", "Four."}}};
  for (const NamedTemplate& one : named_templates()) {
    const std::string name(one.name);
    const auto chat = ChatTemplate::parse(*named_template(name), test_tokenizer());
    ASSERT_TRUE(chat.ok()) << name << ": " << chat.error().message;
    for (const auto& talk : talks) {
      for (const bool adds : {true, false}) {
        const auto text = chat->render(talk, adds);
        ASSERT_TRUE(text.ok()) << name << ": " << text.error().message;
        EXPECT_EQ(*text, written_by_libllama(name, talk, adds)) << name;
      }
    }
  }
  EXPECT_FALSE(named_template("nobody").has_value());
  EXPECT_NE(template_names().find("llama3, "), std::string::npos);
}

}  // namespace
}  // namespace ei::text
