// What the engine's filters, methods and functions may be asked to do (before_call) and what they forget about their
// input (after_call). Names and behaviour: jinja/value.cpp of the llama.cpp tree.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "text/jinja_budget.h"

namespace ei::text {
namespace {

using jinja::cast_val;
using jinja::is_val;
using jinja::value;

template <size_t N>
bool one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// These look at a container without walking into it.
constexpr std::array<std::string_view, 20> kShallow = {
    "length", "list", "first",  "last", "append", "pop",   "selectattr", "rejectattr", "select", "reject",
    "map",    "keys", "values", "get",  "slice",  "items", "reverse",    "default",    "sort",   "count"};
// These make new text (or a list of texts) out of what they are given and may drop the marks on it.
constexpr std::array<std::string_view, 17> kMakeText = {
    "split", "rsplit", "join",  "replace",    "tojson", "string", "slice",  "indent",      "upper",
    "lower", "strip",  "title", "capitalize", "format", "lstrip", "rstrip", "strftime_now"};
// Of those, the ones that keep the marks of a string they are applied to.
constexpr std::array<std::string_view, 8> kKeepMarks = {"upper",      "lower",  "strip",  "lstrip",
                                                        "capitalize", "rstrip", "string", "title"};

const value& unwrap(const value& argument) {
  const auto* kwarg = cast_val<jinja::value_kwarg>(argument);
  return kwarg != nullptr ? kwarg->val : argument;
}

size_t text_length(std::span<const value> args, size_t index) {
  return index < args.size() ? unwrap(args[index])->val_str.length() : 0;
}

std::string text_of(std::span<const value> args, size_t index) {
  return index < args.size() ? unwrap(args[index])->val_str.str() : std::string();
}

size_t occurrences(const std::string& text, const std::string& pattern) {
  if (pattern.empty()) return text.size() + 1;
  size_t count = 0;
  for (size_t at = 0; (at = text.find(pattern, at)) != std::string::npos; at += pattern.size()) ++count;
  return count;
}

// Searching is naive: text times pattern at worst.
void charge_search(JinjaBudget& budget, size_t text, size_t pattern) { budget.charge_work(text, pattern); }

void before_replace(JinjaBudget& budget, std::span<const value> args) {
  charge_search(budget, text_length(args, 0), text_length(args, 1));
  const std::string text = text_of(args, 0);
  const size_t count = occurrences(text, text_of(args, 1));
  budget.charge_work(count, text.size());  // the rest of the text moves every time
  const size_t grown = text_length(args, 2);
  budget.charge_work(count, grown);
  budget.charge(text.size() + count * grown);
  budget.charge_work(count, text.size() + count * grown);
}

void before_range(JinjaBudget& budget, std::span<const value> args) {
  std::array<double, 3> bounds = {0.0, 0.0, 1.0};
  const size_t count = std::min<size_t>(args.size(), 3);
  for (size_t i = 0; i < count; ++i) {
    const value& bound = unwrap(args[i]);
    if (!is_val<jinja::value_int>(bound) || std::abs(bound->as_float()) > 1e15) {
      throw TemplateRefused{"range() takes integers of moderate size"};
    }
    bounds[count == 1 ? 1 : i] = bound->as_float();
  }
  if (bounds[2] == 0.0) return;  // the engine reports it
  const double items = std::max(0.0, (bounds[1] - bounds[0]) / bounds[2]) + 1.0;
  budget.charge(items > 1e9 ? size_t{1} << 40 : static_cast<size_t>(items) * 256);
}

// std::sort reads out of bounds when its order is not one: what is sorted must be all numbers or all strings.
void require_sortable(const value& item, bool& numbers, bool& strings) {
  if (is_val<jinja::value_string>(item))
    strings = true;
  else if ((is_val<jinja::value_int>(item) || is_val<jinja::value_float>(item)) && !std::isnan(item->as_float()))
    numbers = true;
  else
    throw TemplateRefused{"it sorts what has no order"};
  if (numbers && strings) throw TemplateRefused{"it sorts numbers together with text"};
}

void before_sort(const std::string& name, std::span<const value> args) {
  bool numbers = false;
  bool strings = false;
  if (name == "dictsort") {
    for (const auto& [key, child] : args[0]->val_obj) require_sortable(key, numbers, strings);
    if (args.size() > 1) throw TemplateRefused{"dictsort takes no arguments here"};
    return;
  }
  const bool by_attribute = std::any_of(args.begin() + 1, args.end(), [](const value& argument) {
    return is_val<jinja::value_string>(unwrap(argument));
  });
  if (by_attribute) throw TemplateRefused{"sort(attribute=...) is not supported here"};
  for (const value& item : args[0]->val_arr) require_sortable(item, numbers, strings);
}

void require_small_numbers(std::span<const value> args, double limit) {
  for (size_t i = 1; i < args.size(); ++i) {
    const value& argument = unwrap(args[i]);
    const bool number = is_val<jinja::value_int>(argument) || is_val<jinja::value_float>(argument);
    if (number && !(std::abs(argument->as_float()) <= limit)) throw TemplateRefused{"a number in it is too large"};
  }
}

void before_tojson(JinjaBudget& budget, std::span<const value> args) {
  require_small_numbers(args, 16.0);
  size_t separators = 0;
  for (size_t i = 1; i < args.size(); ++i) separators += budget.weigh(unwrap(args[i]));
  const size_t nodes = budget.weigh(args[0]) / 256 + 1;
  budget.charge(nodes * 1024);  // indentation
  budget.charge_work(nodes, separators);
  budget.charge(nodes * separators);
}

}  // namespace

void before_call(JinjaBudget& budget, const std::string& name, std::span<const value> args) {
  budget.tick();
  for (size_t i = 0; i < args.size(); ++i) {
    const bool walked = i > 0 || !one_of(name, kShallow);
    if (walked && is_container(args[i])) budget.weigh(args[i]);
  }
  if (name == "range") return before_range(budget, args);
  if (args.empty()) return;
  if (name == "replace") return before_replace(budget, args);
  if (name == "tojson") return before_tojson(budget, args);
  if (name == "sort" || name == "dictsort") return before_sort(name, args);
  if (name == "slice") return require_small_numbers(args, 1e12);
  if (name == "split" || name == "rsplit") {
    charge_search(budget, text_length(args, 0), args.size() > 1 ? text_length(args, 1) : 1);
    const std::string text = text_of(args, 0);
    const size_t count = occurrences(text, args.size() > 1 ? text_of(args, 1) : " ");
    budget.charge_work(count, text.size());
    budget.charge(text.size() + 512 * count);
  } else if (name == "join") {
    budget.charge_work(args[0]->val_arr.size(), text_length(args, 1));
    budget.charge(args[0]->val_arr.size() * text_length(args, 1));
  } else if (name == "indent") {
    require_small_numbers(args, 1024.0);
    const size_t lines = occurrences(text_of(args, 0), "\n") + 2;
    budget.charge_work(lines, 1024 + text_length(args, 1));
    budget.charge(lines * (1024 + text_length(args, 1)));
  } else if (name == "strip" || name == "lstrip" || name == "rstrip") {
    charge_search(budget, text_length(args, 0), text_length(args, 1));
  } else if (name == "append") {
    if (args.size() > 1 && is_val<jinja::value_func>(args[1])) throw TemplateRefused{"it stores a function"};
    budget.keep(args[0]);
    if (args.size() > 1) budget.keep(args[1]);
  } else if (name.starts_with("select") || name.starts_with("reject")) {
    // The engine divides without looking.
    for (size_t i = 1; i < args.size(); ++i) {
      if (text_of(args, i) == "divisibleby") throw TemplateRefused{"the test 'divisibleby' is not supported here"};
    }
  }
}

void after_call(JinjaBudget& budget, const std::string& name, std::span<const value> args, const value& result) {
  budget.keep(result);
  budget.charge(JinjaBudget::size_of(result));
  if (name == "items" || name == "dictsort") budget.charge(budget.weigh(result));
  if (args.empty() || !one_of(name, kMakeText)) return;
  if (!is_val<jinja::value_string>(result) && name != "split" && name != "rsplit") return;
  const bool marks_kept = is_val<jinja::value_string>(args[0]) && one_of(name, kKeepMarks);
  const size_t sources = name == "format" ? 1 : args.size();  // format keeps the marks of its arguments
  const bool tainted = std::any_of(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(sources), is_tainted);
  if (!marks_kept && tainted) mark_tainted(result);
}

void before_operator(JinjaBudget& budget, const std::string& op, const value& left, const value& right) {
  budget.tick();
  for (const value* operand : {&left, &right}) {
    if (is_container(*operand)) budget.weigh(*operand);
  }
  const size_t left_text = left->val_str.length();
  const size_t right_text = right->val_str.length();
  if (op == "in" || op == "not in") charge_search(budget, right_text, left_text);
  if (op == "+" || op == "~") budget.charge(JinjaBudget::size_of(left) + JinjaBudget::size_of(right));
  if (op != "*") return;
  const bool repeats_left = is_val<jinja::value_string>(left) && is_val<jinja::value_int>(right);
  const bool repeats_right = is_val<jinja::value_int>(left) && is_val<jinja::value_string>(right);
  if (!repeats_left && !repeats_right) return;
  const value& text = repeats_left ? left : right;
  const int64_t times = std::max<int64_t>(0, (repeats_left ? right : left)->as_int());
  if (times > (int64_t{1} << 30)) throw TemplateRefused{"it makes too much text"};
  budget.charge(JinjaBudget::size_of(text) * static_cast<size_t>(times));
}

}  // namespace ei::text
