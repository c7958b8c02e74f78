#include "gguf/overrides.h"

#include <limits>

#include "base/parse.h"

namespace ei::gguf {
namespace {

constexpr size_t kMostBytes = 127;  // of a key or a string: what libllama has room for

Result<Override> parse_one(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t colon = equals == std::string::npos ? equals : text.find(':', equals);
  if (equals == 0 || colon == std::string::npos)
    return make_error(ErrorKind::kUsage, "'%s' is not KEY=TYPE:VALUE", text.c_str());
  const std::string type = text.substr(equals + 1, colon - equals - 1);
  const std::string value = text.substr(colon + 1);
  Override made{.key = text.substr(0, equals), .value = {}};
  if (made.key.size() > kMostBytes || value.size() > kMostBytes)
    return make_error(ErrorKind::kUsage, "'%s' is longer than %zu bytes", text.c_str(), kMostBytes);
  if (type == "int") {
    EI_ASSIGN_OR_RETURN(made.value,
                        parse_whole(value, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  } else if (type == "float") {
    EI_ASSIGN_OR_RETURN(made.value,
                        parse_real(value, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()));
  } else if (type == "bool") {
    EI_ASSIGN_OR_RETURN(made.value, parse_switch(value));
  } else if (type == "str") {
    made.value = value;
  } else {
    return make_error(ErrorKind::kUsage, "'%s' is no type of metadata (int, float, bool, str)", type.c_str());
  }
  return made;
}

}  // namespace

Result<Overrides> parse_overrides(std::string_view text) {
  Overrides all;
  std::string one;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',') {
      one += text[++i];
    } else if (i < text.size() && text[i] != ',') {
      one += text[i];
    } else {
      EI_ASSIGN_OR_RETURN(Override made, parse_one(one));
      all.push_back(std::move(made));
      one.clear();
    }
  }
  return all;
}

}  // namespace ei::gguf
