// The three string functions of llama.cpp's common.h that its JSON-schema converter calls; the rest of common/
// (argument parsing, downloads, ...) is not linked.
#include <string>
#include <vector>

std::string string_join(const std::vector<std::string>& values, const std::string& separator) {
  std::string joined;
  for (const std::string& value : values) {
    if (&value != &values.front()) joined += separator;
    joined += value;
  }
  return joined;
}

std::vector<std::string> string_split(const std::string& text, const std::string& delimiter) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(delimiter, begin)) != std::string::npos; begin = end + delimiter.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string string_repeat(const std::string& text, size_t count) {
  std::string repeated;
  repeated.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) repeated += text;
  return repeated;
}
