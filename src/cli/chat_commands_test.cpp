#include "cli/chat_commands.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace ei::cli {
namespace {

TEST(ChatCommands, EachIsUnderstoodWithWhatItWants) {
  for (const ChatCommandEntry& entry : chat_commands()) {
    const std::string name(entry.name);
    const std::string usual = entry.value.empty() ? name : name + "  a file.txt ";
    const auto parsed = parse_chat_command(usual);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->verb, entry.verb);
    EXPECT_EQ(parsed->argument, entry.value.empty() ? "" : "a file.txt");
    EXPECT_FALSE(parse_chat_command(entry.value.empty() ? name + " more" : name).ok()) << name;
    EXPECT_NE(chat_help().find(name), std::string::npos);
  }
}

TEST(ChatCommands, WhatOnlyBeginsWithASlashIsAMessage) {
  for (const char* message : {"/etc/hosts is what?", "/", "a /help", "//", "/2"}) {
    const auto parsed = parse_chat_command(message);
    ASSERT_TRUE(parsed.ok()) << message;
    EXPECT_EQ(parsed->verb, ChatVerb::kMessage);
    EXPECT_EQ(parsed->argument, message);
  }
}

TEST(ChatCommands, AFileIsNamedAsInAShell) {
  const std::string home = std::getenv("HOME") == nullptr ? "~" : std::getenv("HOME");
  const std::pair<const char*, std::string> cases[] = {
      {"short.txt", "short.txt"},
      {"\"short.txt\"", "short.txt"},
      {"'a file.txt'", "a file.txt"},
      {"~/x.txt", home + "/x.txt"},
      {"\"~/a file.txt\"", home + "/a file.txt"},
      {"~other/x.txt", "~other/x.txt"},
      {"a\"b\".txt", "a\"b\".txt"},
      {"\"", "\""},
  };
  for (const auto& [typed, file] : cases) EXPECT_EQ(parse_chat_command(std::string("/read ") + typed)->argument, file);
}

TEST(ChatCommands, AMisspeltOneIsNotSentToTheModel) {
  const auto parsed = parse_chat_command("/claer");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message, "there is no /claer; /help lists what there is");
}

}  // namespace
}  // namespace ei::cli
