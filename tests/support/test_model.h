// The embedded model's tokenizer and long texts, for this room's tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "text/tokenizer.h"

namespace ei::text {

inline const Tokenizer& test_tokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    auto loaded = Tokenizer::load(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf");
    if (!loaded.ok()) {
      ADD_FAILURE() << loaded.error().message;
      std::abort();
    }
    return std::move(loaded).value();
  }();
  return *tokenizer;
}

inline std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace ei::text
