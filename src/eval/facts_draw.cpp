#include "eval/facts_draw.h"

#include "eval/facts.h"

namespace ei::eval {

std::string fill_form(std::string_view form,
                      std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string text(form);
  for (const auto& [name, value] : values) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  }
  return text;
}

std::vector<std::pair<size_t, size_t>> interleave(Random& random, const std::vector<size_t>& lengths) {
  std::vector<size_t> next(lengths.size(), 0);
  std::vector<std::pair<size_t, size_t>> order;  // sequence, index in it
  std::vector<size_t> open;
  for (size_t s = 0; s < lengths.size(); ++s)
    if (lengths[s] > 0) open.push_back(s);
  while (!open.empty()) {
    const auto turn = static_cast<size_t>(random.below(static_cast<int64_t>(open.size())));
    const size_t s = open[turn];
    order.emplace_back(s, next[s]++);
    if (next[s] == lengths[s]) open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn));
  }
  return order;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += separator;
    text += part;
  }
  return text;
}

}  // namespace ei::eval
