// How the templates of the pinned tree write calls of tools: those that nobody here could read back are told of tools
// in words instead.
#include "server/api/call_style.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "support/embedded_engine.h"

namespace ei::server {
namespace {

CallStyle style_of(const std::string& source) {
  const auto chat = text::ChatTemplate::parse(source, embedded_engine().tokenizer());
  EXPECT_TRUE(chat.ok()) << (chat.ok() ? "" : chat.error().message);
  return chat.ok() ? call_style_of(*chat) : CallStyle::kNone;
}

const char* name_of(CallStyle style) {
  switch (style) {
    case CallStyle::kTagged: return "tagged";
    case CallStyle::kPlain: return "plain";
    case CallStyle::kList: return "list";
    case CallStyle::kWrapped: return "wrapped";
    case CallStyle::kNone: break;
  }
  return "none";
}

TEST(CallStyles, OfTheTreesTemplatesAreThoseTheyWrite) {
  // All others write calls in formats of their own, or none: told in words.
  const std::map<std::string, std::string> known = {{"Bielik-11B-v3.0-Instruct", "tagged"},
                                                    {"MiMo-VL", "tagged"},
                                                    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "tagged"},
                                                    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "tagged"},
                                                    {"Qwen-QwQ-32B", "tagged"},
                                                    {"Qwen-Qwen2.5-7B-Instruct", "tagged"},
                                                    {"Qwen-Qwen3-0.6B", "tagged"},
                                                    {"Reka-Edge", "tagged"},
                                                    {"ibm-granite-granite-4.0", "tagged"},
                                                    {"ibm-granite-granite-4.1", "tagged"},
                                                    {"meta-llama-Llama-3.1-8B-Instruct", "plain"},
                                                    {"meta-llama-Llama-3.2-3B-Instruct", "plain"},
                                                    {"meta-llama-Llama-3.3-70B-Instruct", "plain"},
                                                    {"mistralai-Mistral-Nemo-Instruct-2407", "list"}};
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EI_LLAMA_TEMPLATES)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream stream(entry.path());
    const std::string source{std::istreambuf_iterator<char>(stream), {}};
    const std::string name = entry.path().stem().string();
    const auto found = known.find(name);
    EXPECT_EQ(name_of(style_of(source)), found == known.end() ? "wrapped" : found->second) << name;
    ++seen;
  }
  for (const auto& [name, style] : known)
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(EI_LLAMA_TEMPLATES) / (name + ".jinja"))) << name;
  EXPECT_GE(seen, 60) << "the tree has lost its templates: " << EI_LLAMA_TEMPLATES;
}

}  // namespace
}  // namespace ei::server
