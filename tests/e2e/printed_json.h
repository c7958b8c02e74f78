// What the program printed, read as JSON.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ei::e2e {

inline nlohmann::json parse(const std::string& text) {
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << text;
  return value;
}

// One object a line.
inline std::vector<nlohmann::json> parse_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(parse(text.substr(begin, end - begin)));
  return lines;
}

}  // namespace ei::e2e
