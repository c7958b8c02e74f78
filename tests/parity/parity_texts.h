// Texts that greedy continuations are compared behind.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"

namespace ei::testing {

inline std::vector<int32_t> tokens_of(const Engine& engine, const std::string& text) {
  auto tokens = engine.tokenizer().tokenize(text, {.add_bos_eos = true, .parse_special = false});
  EXPECT_TRUE(tokens.ok());
  return tokens.ok() ? std::move(tokens).value() : std::vector<int32_t>{};
}

inline std::string prose(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text += "The ferry left the harbour before dawn, and the lamp of the mill " + std::to_string(i * 37 % 100) +
            " burned until the miller came down to the water. ";
  }
  return text + "What did the miller see when he";
}

// A text whose continuation leaves no doubt: a round of words that has gone by many times.
inline std::string round_of_words(int rounds) {
  std::string text;
  for (int i = 0; i < rounds; ++i)
    text += "the river and the lamp, the bridge and the mill, the garden and the gate;\n";
  return text + "the river and";
}

}  // namespace ei::testing
